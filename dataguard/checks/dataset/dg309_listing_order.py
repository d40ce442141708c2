"""DG309: a dataset whose order is that of a directory listing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import unsteady
from dataguard.checks.common.paths import shortened
from dataguard.checks.common.rewrites import rewritten, sorted_listing
from dataguard.checks.dataset.index_meaning import compare, is_reordered, varying
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, Location, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dataguard.lab.core.records import Index
    from dataguard.lab.dataset.listing_order import Listing
    from dataguard.lab.lab import Lab
    from dataguard.lab.reading.fresh_import import Rebuilt

MOST_LISTINGS = 8
"""At most so many listings are reversed one at a time: each calls the factory again."""
FEWEST_FOUND = 4
"""Samples that are found again by their files, at least, for their labels to count as the same."""


@check("DG309", "listing-order", Severity.ERROR)
def dg309_listing_order(lab: Lab) -> Judgement:
    """Which sample or label an index returns depends on the order in which the file system lists files.

    Symptom: the same seed gives another split, other class indices or another order on another machine, or after the
        data were copied; a saved model predicts the right classes under the wrong names; images are paired with the
        masks of others. A warning if only the order of the samples can change, and no label, pair or split.
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
        alone = list(_deciding(lab, forward))
        places = list(dict.fromkeys(place for (place, _), _ in alone if place))
        places = places or [place for place in backward.listed if place]
        changed_pair = _changed_pair(lab, [backward, *(each for _, each in alone)])
        at = Location(*places[0]) if places else lab.dataset.location
        fix = rewritten(lab, at, sorted_listing) or "sort what is listed"
        evidence = (
            {"fix here": fix}
            | found.evidence
            | without_empty({"listed at": [f"{place[0]}:{place[1]}" for place in places]})
        )
        if changed_pair:
            yield Finding(changed_pair.message, {"files": list(changed_pair.files)} | evidence, at)
        else:
            message = f"{found.subject} when folders are listed in reverse order"
            yield Finding(message, evidence, at, ambiguous=_is_harmless(lab))
    return Coverage({"samples": len(forward.answers), "orders": 2})


def _deciding(lab: Lab, forward: Rebuilt) -> Iterator[tuple[Listing, Rebuilt]]:
    """The listings of which it changes something to reverse one, and nothing else."""
    counts = zip(forward.listed, forward.listings, strict=True)
    listings: list[Listing] = []
    for place, count in counts:
        listings += [(place, number) for number in range(count)] if count <= MOST_LISTINGS else [(place, None)]
    for listing in listings[:MOST_LISTINGS] if len(listings) > 1 else ():
        observed = observed_or_none(partial(lab.dataset.rebuilt, files_backward=True, only=listing))
        if observed is not None and any(
            one.digests != other.digests for one, other in zip(forward.answers, observed.answers, strict=True)
        ):
            yield listing, observed


@dataclass(frozen=True, slots=True)
class _ChangedPair:
    """A file of a sample, a file that is beside it there, and one that is beside it if a listing is reversed."""

    index: Index
    files: tuple[str, str, str]

    @property
    def message(self) -> str:
        file, one, other = shortened(*self.files)
        return f"dataset[{self.index!r}] pairs {file} with {one}, but with {other} when one folder is listed in reverse"


def _changed_pair(lab: Lab, others: Iterable[Rebuilt]) -> _ChangedPair | None:
    """The first file that belongs to one sample, and is beside different files in another order.

    None if files of samples vary: a partner that is drawn differs in another order.
    """
    forward = lab.dataset.rebuilt()
    changed = [pair for other in others for pair in _changed_pairs(forward, other)]
    reads = observed_or_none(lambda: lab.provenance.reads) if changed else None
    wide = observed_or_none(lambda: lab.dataset.rebuilt(wide=True)) if changed else None
    if reads is None or wide is None or any(sample.varying for sample in reads):
        return None
    samples = defaultdict(set)
    for files in (*_own_files(forward), *_own_files(wide)):
        for file in files:
            samples[file].add(files)
    return next((pair for pair in changed if len(samples[pair.files[0]]) == 1), None)


def _changed_pairs(forward: Rebuilt, other: Rebuilt) -> Iterator[_ChangedPair]:
    """What is beside a file in another order, and not in this one.

    A sample with files of the same names in another folder is left out: its index chooses files of one listing.
    """
    beside = {
        file: files
        for before, files in zip(_own_files(forward), _own_files(other), strict=True)
        if len(files) > 1 and not _are_chosen_alike(before, files)
        for file in files
    }
    for answer, files in zip(forward.answers, _own_files(forward), strict=True):
        for file in files if len(files) > 1 else ():
            before = [each for each in files if each not in beside.get(file, files)]
            after = [each for each in beside.get(file, ()) if each not in files]
            if before and after:
                yield _ChangedPair(answer.index, (file, before[0], after[0]))


def _are_chosen_alike(files: Sequence[str], others: Sequence[str]) -> bool:
    """Whether these are files of one folder, and those of the same names in one folder."""
    one, other = ([PurePath(file) for file in each] for each in (files, others))
    together = all(len({path.parent for path in paths}) == 1 for paths in (one, other))
    return together and sorted(path.name for path in one) == sorted(path.name for path in other)


def _own_files(rebuilt: Rebuilt) -> list[tuple[str, ...]]:
    """The files of each sample that not all samples read; none of the first one, which may open what others use."""
    common = set.intersection(*map(set, rebuilt.files)) if len(rebuilt.files) > 1 else set()
    own = [tuple(file for file in files if file not in common) for files in rebuilt.files]
    return [(), *own[1:]]


def _varying(lab: Lab) -> frozenset[str]:
    """The leaves that say nothing of a sample: they vary from read to read, or are its index."""
    return unsteady(lab) | lab.dataset.rebuilt().numbered


def _is_harmless(lab: Lab) -> bool:
    """Whether the order decides neither a label nor a split: samples only move, or it is drawn anyway.

    True if more samples cannot be read: that anything else changes is not proven then.
    """
    if "Subset" in lab.facts.dataset + lab.facts.sampler:
        return False
    leaves = [leaf for sample in lab.epoch.samples for leaf in sample.leaves if leaf.kind != "str"]
    leaves = [leaf for leaf in leaves if leaf.path not in lab.dataset.rebuilt().numbered]
    alone = len(lab.splits.together) == 1
    if lab.facts.shuffled and alone and all(len(leaf.shape or ()) > 1 for leaf in leaves):
        return True
    wide = observed_or_none(lambda: lab.dataset.rebuilt(wide=True))
    if wide is None:
        return True
    usual, again = lab.dataset.rebuilt(), lab.dataset.rebuilt(again=True).answers
    moved = lab.dataset.rebuilt(files_backward=True)
    ignored = _varying(lab) | varying(usual.answers, again)
    if is_reordered((*usual.answers, *wide.answers), moved.answers, ignored):
        return True
    if not (lab.facts.shuffled and alone):
        return False
    moved_wide = observed_or_none(lambda: lab.dataset.rebuilt(files_backward=True, wide=True))
    return moved_wide is None or _have_same_labels((usual, wide), (moved, moved_wide), ignored)


def _have_same_labels(one: Iterable[Rebuilt], two: Iterable[Rebuilt], ignored: frozenset[str]) -> bool:
    """Whether samples of the same files have the same leaves that are no images, as far as files were read twice.

    Leaves that differ between samples of the same files, such as windows of one, say nothing.
    """
    tables: list[dict[frozenset[str], dict[str, set[bytes]]]] = []
    for part in (one, two):
        table: dict[frozenset[str], dict[str, set[bytes]]] = defaultdict(lambda: defaultdict(set))
        for rebuilt in part:
            for answer, files in zip(rebuilt.answers, _own_files(rebuilt), strict=True):
                for leaf in answer.leaves if files else ():
                    if len(leaf.shape or ()) < 2 and leaf.path not in ignored:
                        table[frozenset(files)][leaf.path].add(leaf.digest)
        tables.append(table)
    first, second = tables
    several = {path for table in tables for leaves in table.values() for path in leaves if len(leaves[path]) > 1}
    both = first.keys() & second.keys()
    return len(both) >= FEWEST_FOUND and all(
        first[files][path] == second[files][path] for files in both for path in first[files] if path not in several
    )
