"""DG309: a dataset whose order is that of a directory listing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import unsteady
from dataguard.checks.dataset.index_meaning import compare
from dataguard.model import Finding, Judgement, Location, Looked, NotApplicable, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG309", "listing-order", Severity.ERROR)
def dg309_listing_order(lab: Lab) -> Judgement:
    """Which sample or label an index returns depends on the order in which the file system lists files.

    Symptom: the same seed gives another split, other class indices or another order on another machine, or after the
        data were copied; a saved model predicts the right classes under the wrong names. A warning if only the order of
        shuffled samples without labels can change.
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
        forward.answers, backward.answers, lambda: lab.dataset.rebuilt(again=True).answers, partial(unsteady, lab)
    )
    if found:
        place = next((one for one in backward.listed if one), None)
        yield Finding(
            message=f"{found.subject} when folders are listed in reverse order",
            evidence=found.evidence | known({"listed at": [f"{one[0]}:{one[1]}" for one in backward.listed if one]}),
            at=Location(*place) if place else lab.dataset.location,
            mild=_is_harmless(lab),
        )
    return Looked({"samples": len(forward.answers), "orders": 2})


def _is_harmless(lab: Lab) -> bool:
    """Whether the order is drawn anyway, and decides neither a label nor a split."""
    leaves = [leaf for sample in lab.epoch.samples for leaf in sample.leaves if leaf.kind != "str"]
    is_split = len(lab.siblings) > 1 or "Subset" in lab.facts.dataset + lab.facts.sampler
    return lab.facts.shuffled and not is_split and all(len(leaf.shape or ()) > 1 for leaf in leaves)
