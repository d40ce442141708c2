"""Which outputs depend on one generator: it draws freely from its own seed, while all other RNGs are frozen.

Each reading is made twice with the same seed for that generator, and once with another. Leaves that differ between the
first two are uncontrolled: they depend on something that cannot be frozen. Leaves that differ only under the other seed
depend on the generator. Two workers read a map-style dataset, which shows whether a leaf also depends on the worker id;
one process reads a stream, because workers would read different samples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dataguard.lab.core.records import BatchRecord, Census, SampleRecord
from dataguard.lab.process.spool import read_spools
from dataguard.lab.randomness.same_items import batch_size
from dataguard.lab.reading.scripted_reads import FORKED, Readings, Series, read_trials, run_trials
from dataguard.lab.rng.frozen_rng import FrozenRngs, UnfrozenRng
from dataguard.lab.rng.global_rng import SEED
from dataguard.lab.rng.rng_census import RngCensus
from dataguard.lab.spy.drive import Ride, drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.recording import Records
from dataguard.lab.subject import Subject
from dataguard.model import Undecided

WORKERS = 2
TWO: dict[str, Any] = {**FORKED, "num_workers": WORKERS}
ITEMS, ROUNDS = 8, 8
FIRST = 1 + ITEMS
"""The fetch before which the generator is seeded: by then caches are filled, and generators exist."""
SCRIPT = (0, *(tuple(range(1, FIRST)) * (1 + ROUNDS)))
SEEDS = tuple(SEED + fetch for fetch in range(len(SCRIPT)))
ONE, OTHER = SEED - 1, SEED - 2
"""Seeds of the generator; no other RNG gets them."""

MAPPED = (
    ((0, ONE), (FIRST, ONE)),
    ((0, ONE), (FIRST, ONE)),
    ((0, ONE), (FIRST, OTHER)),
    ((0, OTHER), (FIRST, ONE), (len(SCRIPT) - 1, ONE)),
)
"""The epochs: two equal ones, one with another seed, and one with another first seed, seeded again at its end."""
READS = len(MAPPED) * WORKERS * len(SCRIPT)

STARTING = 8
"""Fetches of each epoch, where only the start of a stream is read."""
STARTS = (((0, ONE),), ((0, ONE),), ((0, OTHER), (STARTING - 1, ONE)))
"""The epochs: two equal ones, and one with another first seed, seeded again at its end."""
STREAMED = 256
"""Fetches of a stream that are each frozen with a different seed."""

Leaves = Mapping[str, Series]
Run = tuple[Leaves, bool]
"""Every leaf of a stream, and whether it ended."""
States = Mapping[tuple[int, int, int], bytes]
"""The states of one generator by worker, epoch and number of fetches."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """`leaves` depend on the generator, `uncontrolled` ones on something that cannot be frozen.

    `keeps_state`: the first fetch does not seed the generator: it draws from the earlier state, or does not use it.
    `is_used`: later fetches draw from the generator.
    """

    leaves: tuple[str, ...]
    uncontrolled: tuple[str, ...]
    keeps_state: bool
    is_used: bool


@dataclass(frozen=True, slots=True)
class StreamDependence:
    """`changed`: the leaves that change with the generator, each with its share of new values.

    `reordered`: the order of a leaf that identifies samples changes, or there is no such leaf.
    """

    changed: dict[str, float]
    uncontrolled: tuple[str, ...]
    reordered: bool
    ended: bool


class RngDependence:
    """Which outputs depend on each generator of one loader; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def of_items(self, path: str) -> Dependence:
        """What depends on the generator at a path, in a map-style dataset."""
        subject, size = self._subject, batch_size(self._subject.facts)
        subject.afford_reads(("dependence", path), READS * size)
        scripts = [[SCRIPT] * WORKERS] * len(MAPPED)
        build, unfrozen, census = partial(subject.build, **TWO), UnfrozenRng(path, MAPPED), RngCensus((1, len(SCRIPT)))
        return subject.vary(
            ("dependence", path),
            lambda folder: run_trials(build, folder, scripts, [SEEDS], size, unfrozen=unfrozen, instruments=(census,)),
            lambda folder, complete: _dependence(read_trials(scripts, folder, complete), _states(folder, path)),
        )

    def at_start(self, path: str) -> tuple[bool, bool]:
        """Whether a generator `keeps_state` and `is_used`, as in `Dependence`, where a stream begins."""

        def run(folder: Path) -> list[Ride]:
            instruments = (RngCensus((1, STARTING)), FrozenRngs((SEEDS,), UnfrozenRng(path, STARTS)), Records())
            plan = Plan(folder, instruments, keep_going=True, announce=False)
            loader = self._subject.build(**self._one_by_one, **TWO)
            return drive(loader, plan, batches=(STARTING * WORKERS,) * len(STARTS))

        def read(folder: Path, _: object) -> tuple[bool, bool]:
            states = _states(folder, path)
            is_used = states.get((0, 0, STARTING)) != states.get((0, 2, STARTING))
            return _keeps_state(states, same=(0, 1), other=2), is_used

        return self._subject.vary(("start", path), run, read)

    def of_stream(self, path: str, *, varied: bool) -> StreamDependence:
        """What depends on the generator at a path, in a stream.

        Without `varied`, all fetches are frozen with the same seed.
        """
        subject = self._subject
        seeds = tuple(SEED + fetch for fetch in range(STREAMED)) if varied else (SEED,)
        batches, seconds = (subject.settings.samples,), 0.05 * subject.settings.budget

        def look(seed: int, number: int) -> Run:
            frozen = FrozenRngs((seeds,), UnfrozenRng(path, (((0, ONE), (1, seed)),)))

            def run(folder: Path) -> bool:
                plan = Plan(folder, (frozen, Records()), keep_going=True, announce=False)
                loader = subject.build(num_workers=0, **self._one_by_one)
                return drive(loader, plan, batches=batches, seconds=seconds)[0].ended

            return subject.vary(("dependence", path, varied, seed, number), run, _read_stream)

        return _stream_dependence(look(ONE, 0), look(ONE, 1), look(OTHER, 0))

    @property
    def _one_by_one(self) -> dict[str, Any]:
        return {"batch_size": 1} if self._subject.facts.batched else {}


def _dependence(readings: Readings, states: States) -> Dependence:
    late = {path: {where: one[FIRST:] for where, one in by.items()} for path, by in readings.items()}
    ends = {states.get((0, epoch, len(SCRIPT))) for epoch in (0, 2, 3)}
    return Dependence(
        leaves=tuple(path for path, by in late.items() if _depends(by)),
        uncontrolled=tuple(path for path, by in late.items() if by.get((0, 0)) != by.get((0, 1))),
        keeps_state=_keeps_state(states, same=(0, 1, 2), other=3),
        is_used=len(ends) == 3,
    )


def _depends(by: Mapping[tuple[int, int], Series]) -> bool:
    """Whether a leaf changes with the generator alone: it is equal in two workers."""
    one, again, other, beside = (by.get(where, ()) for where in ((0, 0), (0, 1), (0, 2), (1, 0)))
    return one == again == beside != other


def _states(folder: Path, path: str) -> States:
    return {
        (*census.where, census.fetches): census.states[path].state
        for census in read_spools(folder)
        if isinstance(census, Census) and path in census.states
    }


def _keeps_state(states: States, same: Sequence[int], other: int) -> bool:
    """Whether states after the first fetch follow from those before it, which are equal in all epochs except `other`.

    They may differ, because the number of draws may vary; but if each is new, the fetch seeds the generator.
    Workers may outlive their first epoch, and seed it only then.
    """
    after = {epoch: [states.get((worker, epoch, 1)) for worker in range(WORKERS)] for epoch in (*same, other)}
    expected = [state for epoch in same for state in after[epoch]]
    follows = any(expected.count(state) > 1 for state in after[same[0]] if state is not None)
    return follows and not set(expected) & set(after[other])


def _stream_dependence(one_run: Run, again_run: Run, other_run: Run) -> StreamDependence:
    """Compare two equal runs with one in which the generator gets another seed."""
    (one, ended), (again, _), (other, other_ended) = one_run, again_run, other_run
    uncontrolled = tuple(path for path, series in one.items() if not _agree(series, again.get(path, ())))
    stable = {path: series for path, series in one.items() if path not in uncontrolled}
    kept = [path for path, series in stable.items() if _agree(series, other.get(path, ()))]
    return StreamDependence(
        changed={path: _new(series, other.get(path, ())) for path, series in stable.items() if path not in kept},
        uncontrolled=uncontrolled,
        reordered=not any(len(set(one[path])) > len(one[path]) / 2 for path in kept),
        ended=ended and other_ended,
    )


def _new(one: Series, other: Series) -> float:
    """The share of values in the other run that this one does not have."""
    known = set(one)
    return sum(value not in known for value in other) / max(len(other), 1)


def _agree(one: Series, other: Series) -> bool:
    """Whether a leaf is equal in two runs, up to the end of the shorter one."""
    length = min(len(one), len(other))
    return length > 0 and one[:length] == other[:length]


def _read_stream(folder: Path, ended: bool | None) -> Run:
    """Every leaf, sample by sample. Raises Undecided when the budget cut it short."""
    if ended is None:
        raise Undecided("the budget ran out while a stream was read again")
    leaves: dict[str, list[bytes]] = defaultdict(list)
    for record in read_spools(folder):
        if isinstance(record, SampleRecord | BatchRecord):
            root = "sample" if isinstance(record, SampleRecord) else "batch"
            for leaf in record.leaves:
                leaves[root + leaf.path].append(leaf.digest)
    return {path: tuple(series) for path, series in leaves.items()}, ended
