"""Leaves that change between reads of one sample under the same random state. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from operator import ne
from typing import TYPE_CHECKING

from dataguard.checks.common.labels import MOST_DISTINCT, SMALLER
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Undecided
from dataguard.stats.coincidence import CERTAIN, is_random, log_odds

if TYPE_CHECKING:
    from dataguard.lab.core.records import Index, LeafRecord, SampleRecord
    from dataguard.lab.dataset.repeated_reads import Change, Readings, Run
    from dataguard.lab.lab import Lab
    from dataguard.lab.reading.sample_reader import Answer

IDENTIFYING_SHARE = 0.8
"""The share of samples in which a leaf must differ for it to identify samples."""
FEWEST_RUNS = 6
"""Runs that must agree if a leaf varies only between the two orders. Chosen, not derived."""


class Cause(Enum):
    """The part of the earlier reads that a leaf depends on."""

    OWN = "how often it was read before"
    OTHERS = "which samples were read before it, or how many"


@dataclass(frozen=True, slots=True)
class Drift:
    """A leaf of a sample with its digest in each read, and what they depend on."""

    leaf: str
    item: int
    series: tuple[bytes | None, ...]
    cause: Cause

    @property
    def keeps_changing(self) -> bool:
        """Whether it changes after its second read, unlike a cache that fills."""
        return len(set(self.series[1:])) > 1


def drifts(readings: Readings, epoch: Sequence[SampleRecord]) -> dict[str, Drift]:
    """The leaves that change, each with the sample that changes most; counters and timestamps are left out."""
    drifting = {}
    for leaf in dict.fromkeys(path for answer in readings.forward.passes[0] for path in answer.digests):
        forward, backward = _series(readings.forward, leaf), _series(readings.backward, leaf)
        own_reads = all(ahead[: len(back)] == back for ahead, back in zip(forward, backward, strict=True))
        if (own_reads and not is_random(_as_bytes(forward))) or _is_counter(readings, leaf, forward, epoch):
            continue
        item = max(range(len(forward)), key=lambda number: len({*forward[number], *backward[number]}))
        drifting[leaf] = Drift(leaf, item, forward[item], Cause.OWN if own_reads else Cause.OTHERS)
    return drifting


def seeded_leaves(readings: Readings) -> dict[str, list[Index]]:
    """The leaves that depend on the random state and on nothing else that varies, with their indices."""
    seeded: dict[str, list[Index]] = {}
    states = readings.forward.passes
    same_state = readings.forward.same_state
    for position, index in enumerate(readings.items):
        for path, digest in same_state[0][position].digests.items():
            constant = all(answers[position].digests.get(path) == digest for answers in same_state)
            if constant and any(answers[position].digests.get(path) != digest for answers in states):
                seeded.setdefault(path, []).append(index)
    return seeded


def moving_leaves(lab: Lab) -> Collection[str]:
    """The leaves that change in a later read, whoever reads; none if samples cannot be read again."""
    return observed_or_none(lambda: drifts(lab.dataset.readings, lab.epoch.samples)) or ()


def ignores_index(lab: Lab) -> bool:
    """Whether the dataset ignores the index: samples come in its own order, whichever indices are requested."""
    readings = observed_or_none(lambda: lab.dataset.readings)
    if readings is None:
        return False
    leaves = [leaf.path for leaf in readings.forward.passes[0][0].leaves]
    ignored = all(_follows_reads(readings, path) for path in leaves)
    return ignored and any(_is_distinct(readings, path) for path in leaves)


def reads_agree(lab: Lab) -> bool:
    """Whether all reads of a sample with the same random state are equal, whatever was read before."""
    readings = observed_or_none(lambda: lab.dataset.readings)
    if readings is None:
        return False
    passes = [*readings.forward.same_state, *readings.backward.same_state]
    return all([answer.digests for answer in answers] == [answer.digests for answer in passes[0]] for answers in passes)


def is_aliased(lab: Lab) -> bool:
    """Whether samples share one buffer, so that a later one overwrites an earlier one."""
    readings = observed_or_none(lambda: lab.dataset.readings)
    return readings is not None and bool(readings.forward.overwritten)


def unsteady(lab: Lab) -> frozenset[str]:
    """The leaves that vary under the same random state, so that two equal reads of one prove nothing."""
    readings = lab.dataset.readings
    leaves = {
        path for run in (readings.forward, readings.backward) for answer in run.passes[0] for path in answer.digests
    }
    varying = (path for path in leaves if is_random(_as_bytes(_series(readings.forward, path))))
    return frozenset([*varying, *(path for path in leaves if is_random(_as_bytes(_series(readings.backward, path))))])


def mutations(lab: Lab) -> dict[str, tuple[Drift, tuple[Change, ...]]]:
    """The leaves that change because reading a sample modifies the stored data, with those data."""
    readings = lab.dataset.readings
    mutated = {}
    for leaf, drift in drifts(readings, lab.epoch.samples).items():
        if (drift.cause is Cause.OTHERS and not drift.keeps_changing) or not repeatable(lab, drift):
            continue
        index = readings.items[drift.item]
        # A sample that differs once may come from a cache, unless its first read wrote over what was stored.
        find = lab.dataset.changed_content if drift.keeps_changing else lab.dataset.changed_at_first
        changes = find(index)
        if drift.cause is Cause.OTHERS:  # a record of earlier reads is not sample data
            whole = is_input(leaf, readings.forward.passes[0]) and len(set(drift.series)) == len(drift.series)
            changes = tuple(change for change in changes if change.rows) if whole else ()
        if changes:
            mutated[leaf] = drift, changes
    return mutated


@dataclass(frozen=True, slots=True)
class Shift:
    """A label that differs in a second read of the same input: its leaf, before and after."""

    drift: Drift
    before: LeafRecord | None
    after: LeafRecord | None
    input: str


def shifts(lab: Lab) -> dict[str, Shift]:
    """The labels that change while their inputs stay the same, by leaf; those of modified sources are left out.

    Raises Undecided if more reads cannot show whether a label is random.
    """
    readings = lab.dataset.readings
    drifting = drifts(readings, lab.epoch.samples)
    shifted: dict[str, Shift] = {}
    for first, second in _pairs(readings):
        changed = [path for path in drifting if first.digests.get(path) != second.digests.get(path)]
        same = [leaf for leaf in first.leaves if first.digests[leaf.path] == second.digests.get(leaf.path)]
        steady = [leaf for leaf in same if leaf.path not in drifting]
        for path in changed:
            identifying = [leaf.path for leaf in steady if _identifies(readings.forward.passes[0], leaf.path)]
            inputs = [leaf for leaf in identifying if not _follows_reads(readings, leaf)]
            inputs = [leaf for leaf in inputs if all(_is_label(label, leaf, first) for label in changed)]
            if inputs and path not in shifted:
                shifted[path] = Shift(drifting[path], _leaf(first, path), _leaf(second, path), inputs[0])
    sources = mutations(lab) if shifted else {}
    return {path: shift for path, shift in shifted.items() if path not in sources and repeatable(lab, shift.drift)}


def repeatable(lab: Lab, drift: Drift) -> bool:
    """Whether the same reads in another process give the same values, so that a leaf does not depend on entropy.

    Raises Undecided if that may be coincidence.
    """
    first = _series(lab.dataset.readings.forward, drift.leaf, same_state=False)
    backward = _series(lab.dataset.readings.backward, drift.leaf, same_state=False)
    apart = [all(map(ne, series, other)) for series, other in zip(first, backward, strict=True)]
    between = not is_random(_as_bytes(first)) or apart.count(True) > 1
    for number in range(1, FEWEST_RUNS):
        if _series(lab.dataset.reread(number), drift.leaf, same_state=False) != first:
            return False
        if not between and number * log_odds(_as_bytes(first)) < CERTAIN:
            return True
    if between:
        return True
    raise Undecided(f"sample{drift.leaf} varies in a few reads only: too few to decide whether it is random")


def is_input(path: str, answers: Sequence[Answer]) -> bool:
    """Whether a leaf is the largest one of its sample."""
    leaves = answers[0].leaves
    return any(leaf.path == path and _size(leaf) == max(map(_size, leaves)) for leaf in leaves)


def _pairs(readings: Readings) -> Iterator[tuple[Answer, Answer]]:
    """Two reads of one index under the same random state: within a run, and between both."""
    for number in range(len(readings.items)):
        within = [answers[number] for answers in readings.forward.same_state]
        yield from combinations(within, 2)
        yield from zip(within, (answers[number] for answers in readings.backward.same_state), strict=False)


def _series(run: Run, leaf: str, *, same_state: bool = True) -> tuple[tuple[bytes | None, ...], ...]:
    """The digests of a leaf, pass by pass, for each item."""
    passes = run.same_state if same_state else run.passes
    return tuple(tuple(answer.digests.get(leaf) for answer in answers) for answers in zip(*passes, strict=True))


def _as_bytes(series: Sequence[Sequence[bytes | None]]) -> tuple[tuple[bytes, ...], ...]:
    return tuple(tuple(digest or b"" for digest in digests) for digests in series)


def _is_counter(
    readings: Readings, leaf: str, forward: Sequence[Sequence[bytes | None]], epoch: Sequence[SampleRecord]
) -> bool:
    """Whether a leaf says nothing about its sample: it counts the reads of one sample or of all, or numbers samples."""
    if len(set(forward)) == 1:
        return True
    return _follows_reads(readings, leaf) and _is_distinct(readings, leaf) and not _repeats(leaf, epoch)


def _follows_reads(readings: Readings, leaf: str) -> bool:
    """Whether the values of a leaf come in one order, whichever indices are requested."""
    forward = [answer.digests.get(leaf) for answers in readings.forward.passes for answer in answers]
    backward = [answer.digests.get(leaf) for answers in readings.backward.passes for answer in reversed(answers)]
    return forward[: len(backward)] == backward


def _is_distinct(readings: Readings, leaf: str) -> bool:
    """Whether a leaf differs between all samples of a pass."""
    return len({answer.digests.get(leaf) for answer in readings.forward.passes[0]}) == len(readings.items)


def _repeats(leaf: str, epoch: Sequence[SampleRecord]) -> bool:
    """Whether a leaf has few distinct values, like a class, among the samples of one worker."""
    seen: dict[int | None, list[bytes]] = {}
    for sample in epoch:
        digests = [record.digest for record in sample.leaves if record.path == leaf]
        seen.setdefault(sample.worker, []).extend(digests)
    return any(len(set(digests)) < MOST_DISTINCT * len(digests) for digests in seen.values())


def _identifies(answers: Sequence[Answer], leaf: str) -> bool:
    return len({answer.digests.get(leaf) for answer in answers}) > IDENTIFYING_SHARE * len(answers)


def _is_label(path: str, beside: str, answer: Answer) -> bool:
    """Whether one leaf is small compared with another."""
    label, larger = _leaf(answer, path), _leaf(answer, beside)
    if label is None or larger is None:
        return False
    return _size(larger) >= _size(label) and (_size(label) <= 1 or _size(larger) >= SMALLER * _size(label))


def _size(leaf: LeafRecord) -> int:
    """The number of values in a leaf. A string too long to be shown counts as many; a short one may be a label."""
    if leaf.shape is not None:
        return math.prod(leaf.shape)
    return 1 if leaf.kind != "str" or leaf.shown else 1000


def _leaf(answer: Answer, path: str) -> LeafRecord | None:
    return next((leaf for leaf in answer.leaves if leaf.path == path), None)


def shown(leaf: LeafRecord | None) -> str:
    """A value as shown in a message."""
    if leaf is None:
        return "absent"
    return leaf.shown or f"{leaf.dtype or leaf.kind} {leaf.digest.hex()[:6]}"


def item_of(readings: Readings, drift: Drift) -> Index:
    """The index of the sample that changes."""
    return readings.items[drift.item]
