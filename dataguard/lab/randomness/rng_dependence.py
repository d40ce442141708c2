"""What hangs on one generator: it alone runs on from a seed of its own, while every other one is held still.

Each reading is made twice in the same way, and once with another seed for that generator. What differs between the
first two hangs on something that cannot be held still: it is wild. What differs only under the other seed hangs on the
generator. Map-style datasets are read by two workers, which shows whether a leaf follows the worker's number as well;
the samples of a stream by one process, because workers would get other ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dataguard.lab.core.records import BatchRecord, Census, SampleRecord, read_spools
from dataguard.lab.randomness.same_items import batch_size
from dataguard.lab.reading.scripted_reads import FORKED, Readings, Series, read_trials, run_trials
from dataguard.lab.rng.frozen_rng import Free
from dataguard.lab.rng.global_rng import PIN
from dataguard.lab.spy.drive import Ride, drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.subject import Subject
from dataguard.model import Undecided

WORKERS = 2
TWO: dict[str, Any] = {**FORKED, "num_workers": WORKERS}
ITEMS, ROUNDS = 8, 8
FIRST = 1 + ITEMS
"""The fetch before which the generator is seeded: caches are filled by then, and what is made late is there."""
SCRIPT = (0, *(tuple(range(1, FIRST)) * (1 + ROUNDS)))
SEEDS = tuple(PIN + fetch for fetch in range(len(SCRIPT)))
ONE, OTHER = PIN - 1, PIN - 2
"""Seeds of the generator, which nothing else gets."""

MAPPED = (
    ((0, ONE), (FIRST, ONE)),
    ((0, ONE), (FIRST, ONE)),
    ((0, ONE), (FIRST, OTHER)),
    ((0, OTHER), (FIRST, ONE), (len(SCRIPT) - 1, ONE)),
)
"""The epochs: two alike, one that differs, and one that begins otherwise and ends as if it had drawn nothing."""
READS = len(MAPPED) * WORKERS * len(SCRIPT)

STARTING = 8
"""Fetches of each epoch in which only the start of a stream is looked at."""
STARTS = (((0, ONE),), ((0, ONE),), ((0, OTHER), (STARTING - 1, ONE)))
"""The epochs: two alike, and one that begins otherwise and ends as if it had drawn nothing."""
STREAMED = 256
"""Fetches of a stream that are held still under seeds of their own."""

Leaves = Mapping[str, Series]
Run = tuple[Leaves, bool]
"""Every leaf of a stream, and whether it came to its end."""
States = Mapping[tuple[int, int, int], bytes]
"""The states of one generator by worker, epoch and the fetches made."""


@dataclass(frozen=True, slots=True)
class Hanging:
    """`leaves` hang on the generator, and `wild` ones on something that cannot be held still.

    `runs_on` tells whether the state in which the first fetch leaves it follows from that before, and is not set there
    by something else; `drawn` whether later fetches draw from it.
    """

    leaves: tuple[str, ...]
    wild: tuple[str, ...]
    runs_on: bool
    drawn: bool


@dataclass(frozen=True, slots=True)
class StreamHanging:
    """`changed` tells for leaves that change with the generator which share of their values is new then.

    `ordered`: a leaf by which samples are recognised comes in another order, or there is none.
    """

    changed: dict[str, float]
    wild: tuple[str, ...]
    ordered: bool
    ended: bool


class RngDependence:
    """What hangs on single generators of one loader; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def of_items(self, path: str) -> Hanging:
        """What hangs on the generator at a path, in a map-style dataset."""
        subject, size = self._subject, batch_size(self._subject.facts)
        subject.afford(READS * size * subject.epoch.seconds_per_sample)
        scripts = [[SCRIPT] * WORKERS] * len(MAPPED)
        build, free, census = partial(subject.build, **TWO), Free(path, MAPPED), (1, len(SCRIPT))
        return subject.vary(
            ("hanging", path),
            lambda folder: run_trials(build, folder, scripts, [SEEDS], size, free=free, census=census),
            lambda folder, complete: _hanging(read_trials(scripts, folder, complete), _states(folder, path)),
        )

    def at_start(self, path: str) -> tuple[bool, bool]:
        """Whether a generator `runs_on` and is `drawn`, as in `Hanging`, where a stream begins."""

        def run(folder: Path) -> list[Ride]:
            plan = Plan(
                folder, keep_going=True, census=(1, STARTING), announce=False, still=(SEEDS,), free=Free(path, STARTS)
            )
            loader = self._subject.build(**self._one_by_one, **TWO)
            return drive(loader, plan, batches=(STARTING * WORKERS,) * len(STARTS))

        def read(folder: Path, _: object) -> tuple[bool, bool]:
            states = _states(folder, path)
            drawn = states.get((0, 0, STARTING)) != states.get((0, 2, STARTING))
            return _runs_on(states, same=(0, 1), other=2), drawn

        return self._subject.vary(("start", path), run, read)

    def of_stream(self, path: str, *, varied: bool) -> StreamHanging:
        """What hangs on the generator at a path, in a stream.

        Without `varied`, all fetches are held still under one seed, whatever their place.
        """
        subject = self._subject
        seeds = tuple(PIN + fetch for fetch in range(STREAMED)) if varied else (PIN,)
        batches, seconds = (subject.settings.samples,), 0.05 * subject.settings.budget

        def look(seed: int, number: int) -> Run:
            free = Free(path, (((0, ONE), (1, seed)),))

            def run(folder: Path) -> bool:
                plan = Plan(folder, keep_going=True, announce=False, still=(seeds,), free=free)
                loader = subject.build(num_workers=0, **self._one_by_one)
                return drive(loader, plan, batches=batches, seconds=seconds)[0].ended

            return subject.vary(("hanging", path, varied, seed, number), run, _read_stream)

        return _stream_hanging(look(ONE, 0), look(ONE, 1), look(OTHER, 0))

    @property
    def _one_by_one(self) -> dict[str, Any]:
        return {"batch_size": 1} if self._subject.facts.batched else {}


def _hanging(readings: Readings, states: States) -> Hanging:
    late = {path: {seat: one[FIRST:] for seat, one in seats.items()} for path, seats in readings.items()}
    ends = {states.get((0, epoch, len(SCRIPT))) for epoch in (0, 2, 3)}
    return Hanging(
        leaves=tuple(path for path, seats in late.items() if _hangs(seats)),
        wild=tuple(path for path, seats in late.items() if seats.get((0, 0)) != seats.get((0, 1))),
        runs_on=_runs_on(states, same=(0, 1, 2), other=3),
        drawn=len(ends) == 3,
    )


def _hangs(seats: Mapping[tuple[int, int], Series]) -> bool:
    """Whether a leaf changes with the generator, and with nothing else: two workers give it alike."""
    one, again, other, beside = (seats.get(seat, ()) for seat in ((0, 0), (0, 1), (0, 2), (1, 0)))
    return one == again == beside != other


def _states(folder: Path, path: str) -> States:
    return {
        (census.worker or 0, census.epoch, census.fetches): state.state
        for census in read_spools(folder)
        if isinstance(census, Census)
        for state in (*census.generators, *census.probed)
        if state.path == path
    }


def _runs_on(states: States, same: Sequence[int], other: int) -> bool:
    """Whether states after the first fetch follow from those before it, which are the `same` in all epochs but one.

    They may differ, because something else decides how much is drawn; but if each is new, it is seeded there.
    """
    begun = {epoch: [states.get((worker, epoch, 1)) for worker in range(WORKERS)] for epoch in (*same, other)}
    alike = [state for epoch in same for state in begun[epoch]]
    return len(set(alike)) < len(alike) and not set(alike) & set(begun[other])


def _stream_hanging(one_run: Run, again_run: Run, other_run: Run) -> StreamHanging:
    """Two runs alike, and one in which the generator is seeded otherwise."""
    (one, ended), (again, _), (other, other_ended) = one_run, again_run, other_run
    wild = tuple(path for path, series in one.items() if not _alike(series, again.get(path, ())))
    stable = {path: series for path, series in one.items() if path not in wild}
    kept = [path for path, series in stable.items() if _alike(series, other.get(path, ()))]
    return StreamHanging(
        changed={path: _new(series, other.get(path, ())) for path, series in stable.items() if path not in kept},
        wild=wild,
        ordered=not any(len(set(one[path])) > len(one[path]) / 2 for path in kept),
        ended=ended and other_ended,
    )


def _new(one: Series, other: Series) -> float:
    """The share of values that another run gives and this one does not."""
    known = set(one)
    return sum(value not in known for value in other) / max(len(other), 1)


def _alike(one: Series, other: Series) -> bool:
    """Whether two runs give a leaf alike, as far as both were read."""
    length = min(len(one), len(other))
    return length > 0 and one[:length] == other[:length]


def _read_stream(folder: Path, ended: bool | None) -> Run:
    """Every leaf, sample by sample. Raises Undecided when the budget cut it short."""
    if ended is None:
        raise Undecided("the budget ran out while a stream was read again: raise --budget")
    leaves: dict[str, list[bytes]] = defaultdict(list)
    for record in read_spools(folder):
        if isinstance(record, SampleRecord | BatchRecord):
            root = "sample" if isinstance(record, SampleRecord) else "batch"
            for leaf in record.leaves:
                leaves[root + leaf.path].append(leaf.digest)
    return {path: tuple(series) for path, series in leaves.items()}, ended
