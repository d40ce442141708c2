"""What changes between readings of one sample, while no generator varies. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from operator import ne
from typing import TYPE_CHECKING

from dataguard.incident import had
from dataguard.model import Undecided
from dataguard.stats.coincidence import CERTAIN, is_random, log_odds

if TYPE_CHECKING:
    from dataguard.lab.core.index import Index
    from dataguard.lab.core.records import Leaf, SampleRecord
    from dataguard.lab.dataset.repeated_reads import Readings, Run
    from dataguard.lab.dataset.source_mutation import Change
    from dataguard.lab.lab import Lab
    from dataguard.lab.reading.sample_reader import Answer

SMALLER = 8
"""How many times smaller than an input a label is at least, if it is no single value."""
TELLS = 0.8
"""The share of samples that differ in a leaf by which samples are recognised."""
REPEATS = 0.5
"""The share of distinct values above which a leaf tells samples apart, and is no class."""
RUNS = 6
"""How many runs have to agree where a leaf varies between two orders only."""


class Cause(Enum):
    """What of the reads before decides a leaf."""

    OWN = "how often it was read before"
    OTHERS = "which samples were read before, or how many"


@dataclass(frozen=True, slots=True)
class Drift:
    """A leaf of a sample that has these digests at its reads, and what they hang on."""

    leaf: str
    item: int
    series: tuple[bytes | None, ...]
    cause: Cause

    @property
    def goes_on(self) -> bool:
        """Whether it changes after its second read, so that it is no cache that fills."""
        return len(set(self.series[1:])) > 1


def drifts(readings: Readings, epoch: Sequence[SampleRecord]) -> dict[str, Drift]:
    """The leaves that change, with the sample that changes most; one that counts or tells the time is none."""
    found = {}
    for leaf in dict.fromkeys(path for answer in readings.forward.passes[0] for path in answer.digests):
        forward, turned = _series(readings.forward, leaf), _series(readings.turned, leaf)
        own = all(one[: len(two)] == two for one, two in zip(forward, turned, strict=True))
        if (own and not is_random(_known(forward))) or _counts(readings, leaf, forward, epoch):
            continue
        item = max(range(len(forward)), key=lambda number: len({*forward[number], *turned[number]}))
        found[leaf] = Drift(leaf, item, forward[item], Cause.OWN if own else Cause.OTHERS)
    return found


def moving_leaves(lab: Lab) -> Collection[str]:
    """The leaves that are others at a later read, whoever reads; none where samples cannot be read again."""
    return had(lambda: drifts(lab.dataset.readings, lab.epoch.samples)) or ()


def is_heedless(lab: Lab) -> bool:
    """Whether samples come in an order of the dataset's own, whichever indices are asked for."""
    readings = had(lambda: lab.dataset.readings)
    if readings is None:
        return False
    leaves = [leaf.path for leaf in readings.forward.passes[0][0].leaves]
    alike = all(_is_by_time(readings, path) for path in leaves)
    return alike and any(_tells_reads(readings, path) for path in leaves)


def is_aliased(lab: Lab) -> bool:
    """Whether samples lie in one buffer, so that a later one overwrites an earlier one."""
    readings = had(lambda: lab.dataset.readings)
    return readings is not None and bool(readings.forward.overwritten)


def unsteady(lab: Lab) -> frozenset[str]:
    """The leaves that vary while no generator does, so that two readings of one say nothing when they agree."""
    readings = lab.dataset.readings
    leaves = {path for run in (readings.forward, readings.turned) for one in run.passes[0] for path in one.digests}
    varying = (path for path in leaves if is_random(_known(_series(readings.forward, path))))
    return frozenset([*varying, *(path for path in leaves if is_random(_known(_series(readings.turned, path))))])


def mutations(lab: Lab) -> dict[str, tuple[Drift, tuple[Change, ...]]]:
    """The leaves that change because reading a sample changes what the dataset holds, and what that is."""
    readings = lab.dataset.readings
    found = {}
    for leaf, drift in drifts(readings, lab.epoch.samples).items():
        if not drift.goes_on or not repeatable(lab, drift):
            continue
        changes = lab.dataset.stored(readings.items[drift.item])
        if drift.cause is Cause.OTHERS:  # a memory of what was read is no sample
            whole = is_input(leaf, readings.forward.passes[0]) and len(set(drift.series)) == len(drift.series)
            changes = tuple(change for change in changes if change.rows) if whole else ()
        if changes:
            found[leaf] = drift, changes
    return found


@dataclass(frozen=True, slots=True)
class Shift:
    """A label that is another one in a second reading of the same input: a leaf, before and after."""

    drift: Drift
    before: Leaf | None
    after: Leaf | None
    input: str


def shifts(lab: Lab) -> dict[str, Shift]:
    """The labels that change while the inputs beside them stay, by their leaf; those of changed sources are left out.

    Raises Undecided when more readings do not tell whether a label is random.
    """
    readings = lab.dataset.readings
    moved = drifts(readings, lab.epoch.samples)
    found: dict[str, Shift] = {}
    for one, two in _pairs(readings):
        changed = [path for path in moved if one.digests.get(path) != two.digests.get(path)]
        same = [leaf for leaf in one.leaves if one.digests[leaf.path] == two.digests.get(leaf.path)]
        still = [leaf for leaf in same if leaf.path not in moved]
        for path in changed:
            telling = [leaf.path for leaf in still if _tells(readings.forward.passes[0], leaf.path)]
            inputs = [leaf for leaf in telling if not _is_by_time(readings, leaf)]
            beside = [leaf for leaf in inputs if all(_is_label(label, leaf, one) for label in changed)]
            if beside and path not in found:
                found[path] = Shift(moved[path], _leaf(one, path), _leaf(two, path), beside[0])
    sources = mutations(lab) if found else {}
    return {path: shift for path, shift in found.items() if path not in sources and repeatable(lab, shift.drift)}


def repeatable(lab: Lab, drift: Drift) -> bool:
    """Whether another process that reads the same finds the same, so that no entropy decides a leaf.

    Raises Undecided where that might be coincidence.
    """
    first = _series(lab.dataset.readings.forward, drift.leaf, steady=False)
    turned = _series(lab.dataset.readings.turned, drift.leaf, steady=False)
    apart = [all(map(ne, one, two)) for one, two in zip(first, turned, strict=True)]
    between = not is_random(_known(first)) or apart.count(True) > 1
    for number in range(1, RUNS):
        if _series(lab.dataset.again(number), drift.leaf, steady=False) != first:
            return False
        if not between and number * log_odds(_known(first)) < CERTAIN:
            return True
    if between:
        return True
    raise Undecided(f"sample{drift.leaf} varies now and then: too few readings tell whether at random")


def is_input(path: str, answers: Sequence[Answer]) -> bool:
    """Whether a leaf is the largest one of its sample."""
    leaves = answers[0].leaves
    return any(leaf.path == path and _size(leaf) == max(map(_size, leaves)) for leaf in leaves)


def _pairs(readings: Readings) -> Iterator[tuple[Answer, Answer]]:
    """Two answers for one index in one state of the generators: within a run, and between both."""
    for number in range(len(readings.items)):
        within = [answers[number] for answers in readings.forward.steady]
        yield from combinations(within, 2)
        yield from zip(within, (answers[number] for answers in readings.turned.steady), strict=False)


def _series(run: Run, leaf: str, *, steady: bool = True) -> tuple[tuple[bytes | None, ...], ...]:
    """The digests of a leaf, pass by pass, for each item."""
    passes = run.steady if steady else run.passes
    return tuple(tuple(answer.digests.get(leaf) for answer in answers) for answers in zip(*passes, strict=True))


def _known(series: Sequence[Sequence[bytes | None]]) -> tuple[tuple[bytes, ...], ...]:
    return tuple(tuple(digest or b"" for digest in one) for one in series)


def _counts(
    readings: Readings, leaf: str, forward: Sequence[Sequence[bytes | None]], epoch: Sequence[SampleRecord]
) -> bool:
    """Whether a leaf says nothing of its sample: a number of reads, of this one or of all, or of its first one."""
    if len(set(forward)) == 1:
        return True
    return _is_by_time(readings, leaf) and _tells_reads(readings, leaf) and not _repeats(leaf, epoch)


def _is_by_time(readings: Readings, leaf: str) -> bool:
    """Whether a leaf comes in one order, whichever indices are asked for."""
    one = [answer.digests.get(leaf) for answers in readings.forward.passes for answer in answers]
    two = [answer.digests.get(leaf) for answers in readings.turned.passes for answer in reversed(answers)]
    return one[: len(two)] == two


def _tells_reads(readings: Readings, leaf: str) -> bool:
    """Whether a leaf is another one for each sample of a pass."""
    return len({answer.digests.get(leaf) for answer in readings.forward.passes[0]}) == len(readings.items)


def _repeats(leaf: str, epoch: Sequence[SampleRecord]) -> bool:
    """Whether a leaf takes few values, as a class does, in what one worker read."""
    seen: dict[int | None, list[bytes]] = {}
    for sample in epoch:
        digests = [one.digest for one in sample.leaves if one.path == leaf]
        seen.setdefault(sample.worker, []).extend(digests)
    return any(len(set(digests)) < REPEATS * len(digests) for digests in seen.values())


def _tells(answers: Sequence[Answer], leaf: str) -> bool:
    return len({answer.digests.get(leaf) for answer in answers}) > TELLS * len(answers)


def _is_label(path: str, beside: str, answer: Answer) -> bool:
    """Whether one leaf is small against another."""
    label, larger = _leaf(answer, path), _leaf(answer, beside)
    if label is None or larger is None:
        return False
    return _size(larger) >= _size(label) and (_size(label) <= 1 or _size(larger) >= SMALLER * _size(label))


def _size(leaf: Leaf) -> int:
    """How many values a leaf holds. A text that is too long to be shown holds many, a short one may be a label."""
    if leaf.shape is not None:
        return math.prod(leaf.shape)
    return 1 if leaf.kind != "str" or leaf.shown else 1000


def _leaf(answer: Answer, path: str) -> Leaf | None:
    return next((leaf for leaf in answer.leaves if leaf.path == path), None)


def shown(leaf: Leaf | None) -> str:
    """A value as a reader knows it."""
    if leaf is None:
        return "absent"
    return leaf.shown or f"{leaf.dtype or leaf.kind} {leaf.digest.hex()[:6]}"


def item_of(readings: Readings, drift: Drift) -> Index:
    """The index of the sample that changes."""
    return readings.items[drift.item]
