"""DG309: a dataset whose order is that of a directory listing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import unsteady
from dataguard.checks.dataset.index_meaning import compare, is_reordered, varying
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, Location, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.core.source_location import Place
    from dataguard.lab.lab import Lab

MOST_LISTINGS = 8
"""At most so many places are reversed one at a time: each calls the factory again."""


@check("DG309", "listing-order", Severity.ERROR)
def dg309_listing_order(lab: Lab) -> Judgement:
    """Which sample or label an index returns depends on the order in which the file system lists files.

    Symptom: the same seed gives another split, other class indices or another order on another machine, or after the
        data were copied; a saved model predicts the right classes under the wrong names. A warning if only the order of
        the samples can change, and no label or split.
    Cause: `os.listdir`, `os.scandir`, `os.walk`, `glob` and `Path.iterdir` list files in the order of the file system,
        which is arbitrary.
    Fix: sort the listing: `sorted(os.listdir(folder))`, `sorted(root.glob("*/*.jpg"))`.
    Links: https://docs.python.org/3/library/os.html#os.listdir
    """
    forward = lab.dataset.rebuilt()
    if not forward.listed:
        raise NotApplicable("no folder is listed while the dataset is built and read")
    backward = lab.dataset.rebuilt(files_backward=True)
    found = compare(
        forward.answers, backward.answers, lambda: lab.dataset.rebuilt(again=True).answers, partial(_varying, lab)
    )
    if found:
        places = [place for place in backward.listed if place]
        alone = [place for place in places[:MOST_LISTINGS] if len(places) > 1 and _decides(lab, place)]
        places = alone or places
        yield Finding(
            message=f"{found.subject} when folders are listed in reverse order",
            evidence=found.evidence | without_empty({"listed at": [f"{place[0]}:{place[1]}" for place in places]}),
            at=Location(*places[0]) if places else lab.dataset.location,
            ambiguous=_is_harmless(lab),
        )
    return Coverage({"samples": len(forward.answers), "orders": 2})


def _decides(lab: Lab, place: Place) -> bool:
    """Whether it changes something to reverse what is listed there, and nothing else."""
    observed = observed_or_none(lambda: lab.dataset.rebuilt(files_backward=True, only=place))
    forward = lab.dataset.rebuilt()
    return observed is not None and any(
        one.digests != other.digests for one, other in zip(forward.answers, observed.answers, strict=True)
    )


def _varying(lab: Lab) -> frozenset[str]:
    """The leaves that say nothing of a sample: they vary from read to read, or are its index."""
    return unsteady(lab) | lab.dataset.rebuilt().numbered


def _is_harmless(lab: Lab) -> bool:
    """Whether the order decides neither a label nor a split: samples only move, or it is drawn anyway."""
    if "Subset" in lab.facts.dataset + lab.facts.sampler:
        return False
    leaves = [leaf for sample in lab.epoch.samples for leaf in sample.leaves if leaf.kind != "str"]
    leaves = [leaf for leaf in leaves if leaf.path not in lab.dataset.rebuilt().numbered]
    if lab.facts.shuffled and len(lab.siblings) == 1 and all(len(leaf.shape or ()) > 1 for leaf in leaves):
        return True
    wide = observed_or_none(lambda: lab.dataset.rebuilt(wide=True))
    usual, again = lab.dataset.rebuilt().answers, lab.dataset.rebuilt(again=True).answers
    moved = lab.dataset.rebuilt(files_backward=True).answers
    return wide is not None and is_reordered((*usual, *wide.answers), moved, _varying(lab) | varying(usual, again))
