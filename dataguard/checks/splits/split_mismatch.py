"""Loaders that read splits of the same data, and what they do not have in common. Standard library only."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from dataguard.checks.common.labels import Kind, candidates, records_of, samples_of
from dataguard.incident import LoaderFailed, had
from dataguard.settings.normalization import recovered, shown

if TYPE_CHECKING:
    from dataguard.lab.core.records import BatchRecord, Leaf
    from dataguard.lab.images.chart_fit import Fit
    from dataguard.lab.lab import Lab

T = TypeVar("T")

NEAR, NEAR_JITTERED = 0.02, 0.06
"""How far two loaders may put black or white apart, as a share of the range between both."""
APART = 40
"""How many times wider the range of one loader's values is, before that is more than chance."""
FEWEST = 4
"""Samples by which a name is known to stand for a number, at least."""
_CHANNELS = (1, 3, 4)
_ENTRY = re.compile(r"(?<=\])\[\d+\]")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """In what a loader differs from another one of the same data, in words, and what was measured."""

    kind: str
    words: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


def stem(lab: Lab) -> str | None:
    """What splits of the same data have in common in their names; None for a loader whose role is not said."""
    try:
        facts = lab.facts
    except LoaderFailed:
        return None
    told = facts.stem
    return "" if told is None and facts.name in lab.settings.roles else told


def splits_of(lab: Lab) -> tuple[list[Lab], list[Lab]]:
    """The loaders of the target that read other splits of the same data: those before this one, and those after it."""
    own = stem(lab)
    before: list[Lab] = []
    after: list[Lab] = []
    passed = False
    for other in lab.siblings.values():
        passed = passed or other is lab
        if other is not lab and own is not None and stem(other) == own and other.facts.role != lab.facts.role:
            (after if passed else before).append(other)
    return before, after


def mismatches(lab: Lab, other: Lab) -> list[Mismatch]:
    """All in which a loader differs from another one, and over which a model that is trained with one would stumble."""
    found = [_colours(lab, other), _numbering(lab, other), _structure(lab, other)]
    if found[0] is None and found[2] is None:
        found.append(_ranges(lab, other))
    return [one for one in found if one is not None]


def _colours(lab: Lab, other: Lab) -> Mismatch | None:
    """In what images differ that are made of the same colours."""
    own, theirs = had(lambda: lab.images.charts), had(lambda: other.images.charts)
    if own is None or theirs is None:
        return None
    known = {f"{theirs.root}{fit.path}": fit for fit in theirs.fits}
    for fit in own.fits:
        path = f"{own.root}{fit.path}"
        before = known.get(path)
        if before is None or len(before.gains) != len(fit.gains):
            continue
        if fit.order and before.order and fit.order != before.order:
            orders = {lab.facts.name: fit.order, other.facts.name: before.order}
            return Mismatch(
                "colours", f"holds {fit.order} in {path}, and {other.facts.name} {before.order}", {"orders": orders}
            )
        if fit.is_float == before.is_float and not _alike(fit, before):
            seen = {name: _measured(one) for name, one in ((lab.facts.name, fit), (other.facts.name, before))}
            words = f"makes {fit.offsets[0]:.3g} of black and {fit.white[0]:.3g} of white in {path}, and "
            there = f"{before.offsets[0]:.3g} and {before.white[0]:.3g} in {other.facts.name}"
            return Mismatch("colours", words + there, seen)
    return None


def _alike(one: Fit, two: Fit) -> bool:
    """Whether black and white come out alike, as far as jitter lets that be seen."""
    near = NEAR if one.exact and two.exact else NEAR_JITTERED
    ends = zip((*one.offsets, *one.white), (*two.offsets, *two.white), strict=True)
    spans = [abs(255 * gain) for gain in (*one.gains, *two.gains)]
    return all(abs(first - second) <= near * max(spans) for first, second in ends)


def _measured(fit: Fit) -> str:
    mean, std = recovered(fit.gains, fit.offsets)
    return f"mean {shown(mean)}, standard deviation {shown(std)}"


def _numbering(lab: Lab, other: Lab) -> Mismatch | None:
    """A name of a class that has another number: as the datasets tell it, or as their samples show it."""
    for numbers in (_told, _filed, _beside):
        own, theirs = had(lambda: numbers(lab)), had(lambda: numbers(other))  # noqa: B023 - called at once
        if own and theirs:
            unlike = {name: (own[name], theirs[name]) for name in own if name in theirs and own[name] != theirs[name]}
            if unlike:
                name, (here, there) = next(iter(unlike.items()))
                words = f"gives class {name!r} the number {here}, and {there} in {other.facts.name}"
                count = f"{len(unlike)} of {len(own.keys() & theirs.keys())} that both have"
                return Mismatch("classes", words, {"classes with another number": count})
            return None
    return None


def _told(lab: Lab) -> Mapping[str, int]:
    return next((naming.numbers for naming in lab.dataset.namings if naming.numbers), {})


def _filed(lab: Lab) -> Mapping[str, int]:
    """The numbers of folders: of files, where all those in a folder have one number."""
    filed = lab.dataset.folders
    for path in dict.fromkeys(path for one in filed for path, _ in one.numbers):
        pairs = [(name, dict(one.numbers).get(path)) for one in filed for name in one.folders]
        found = _function(pairs)
        if found:
            return found
    return {}


def _beside(lab: Lab) -> Mapping[str, int]:
    """The numbers of names that stand beside them in the same sample."""
    records = records_of(lab)
    labels = [labels.path for labels in candidates(lab) if labels.kind is Kind.SAMPLE]
    texts = dict.fromkeys(leaf.path for one in lab.epoch.samples for leaf in one.leaves if leaf.kind == "str")
    for path in labels:
        for text in texts:
            pairs = []
            for one in samples_of(lab.epoch.appraisals):
                leaves = records[one.place].leaves if one.place in records else ()
                name = next((leaf.shown.strip("'") for leaf in leaves if leaf.path == text and leaf.shown), None)
                number = next((int(numbers.low) for numbers in one.numbers if numbers.path == path), None)
                pairs.append((name, number))
            found = _function(pairs)
            if found:
                return found
    return {}


def _function(pairs: Iterable[tuple[str | None, int | None]]) -> dict[str, int]:
    """Names with the one number that each has, where no two have the same; names with several are left out."""
    numbers: dict[str, set[int]] = defaultdict(set)
    count = 0
    for name, number in pairs:
        if name is not None and number is not None:
            numbers[name].add(number)
            count += 1
    single = {name: next(iter(found)) for name, found in numbers.items() if len(found) == 1}
    own = len(set(single.values())) == len(single)
    return single if own and len(single) > 1 and count >= max(FEWEST, 2 * len(single) - 1) else {}


def _structure(lab: Lab, other: Lab) -> Mismatch | None:
    """In what the inputs of batches differ, in type, place or the order of axes."""
    own, theirs = _input(lab), _input(other)
    if own is None or theirs is None:
        return None
    (path, leaf, paths), (other_path, before, other_paths) = own, theirs
    name = other.facts.name
    if path != other_path:
        if path.removesuffix("[*]") == other_path.removesuffix("[*]"):  # several views of it, in a list
            return None
        renamed = paths - other_paths == {path} and other_paths - paths == {other_path}
        swapped = path in other_paths and other_path in paths and _form(leaf) == _form(before)
        there = f"has its input in batch{path}, and {name} in batch{other_path}"
        return Mismatch("structure", there) if (renamed or swapped) and _form(leaf) == _form(before) else None
    if leaf.type_name != before.type_name:
        return Mismatch("structure", f"gives batch{path} as {leaf.type_name}, and {name} as {before.type_name}")
    first, second = _channels(leaf), _channels(before)
    if first and second and first != second:
        return Mismatch("structure", f"gives batch{path} {first}, and {name} {second}")
    return None


def _input(lab: Lab) -> tuple[str, Leaf, frozenset[str]] | None:
    """The largest leaf of a batch, by its path, and the paths of all: of the first batch that is complete."""
    batches: list[BatchRecord] = [one for one in lab.epoch.batches if not one.incident and one.leaves]
    if not batches:
        return None
    leaves = batches[0].leaves
    largest = max(leaves, key=lambda leaf: leaf.size if leaf.shape is not None else 0)
    paths = frozenset(_ENTRY.sub("[*]", leaf.path) for leaf in leaves)
    return _ENTRY.sub("[*]", largest.path), largest, paths


def _form(leaf: Leaf) -> tuple[str, int]:
    return leaf.type_name, len(leaf.shape or ())


def _channels(leaf: Leaf) -> str | None:
    """Where the channels of images are in a batch, and how many there are; None for what is no batch of images."""
    shape = leaf.shape or ()
    if len(shape) == 3 and min(shape[1:]) > max(_CHANNELS) and leaf.type_name != "int64":
        return "without an axis for channels"
    if len(shape) != 4:
        return None
    first, last = shape[1] in _CHANNELS, shape[3] in _CHANNELS
    if first == last:
        return None
    count = shape[1] if first else shape[3]
    return f"with {count} channel{'s' * (count != 1)} {'before' if first else 'behind'} height and width"


def _ranges(lab: Lab, other: Lab) -> Mismatch | None:
    """Values in ranges that are far from each other, in the inputs of samples."""
    own, theirs = _range(lab), _range(other)
    if own is None or theirs is None or own[0] != theirs[0]:
        return None
    path, low, high = own
    _, below, above = theirs
    wide, narrow = max(high - low, above - below), min(high - low, above - below)
    if narrow <= 0 or wide < APART * narrow:
        return None
    there = f"and from {below:.4g} to {above:.4g} in {other.facts.name}"
    return Mismatch("values", f"gives sample{path} values from {low:.4g} to {high:.4g}, {there}")


def _range(lab: Lab) -> tuple[str, float, float] | None:
    """The largest leaf of floats in samples, with the least and the greatest value."""
    seen = [one for sample in samples_of(lab.epoch.appraisals) for one in sample.numbers if one.is_float]
    if not seen:
        return None
    largest = max(seen, key=lambda one: one.size)
    alike = [one for one in seen if one.path == largest.path]
    if largest.size < APART or len(alike) < FEWEST:
        return None
    return largest.path, min(one.low for one in alike), max(one.high for one in alike)
