"""The resources that the loader's own workers use over many samples, for `lab.resources`.

`measure_usage` reads samples and takes readings of memory and handles in each worker, first while samples are new to
it, and then while they repeat. `measure_contention` compares workers as they are with workers of one thread each, in
alternating rounds of the same work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from dataguard.core.incident import LoaderRaised
from dataguard.core.model import Undecided
from dataguard.lab.core.index_schedules import (
    Dealt,
    Schedule,
    Trials,
    drawn,
    existing,
    exists,
    flat,
    in_use,
    size_of,
    unique,
)
from dataguard.lab.core.records import BatchRecord, Index, Pages, Pools, Reading
from dataguard.lab.machine.growing_containers import (
    GROWTH_READS,
    CopiedContainer,
    GrowingContainers,
    find_copied_containers,
    find_growing_containers,
)
from dataguard.lab.process.incidents import read_spools
from dataguard.lab.spy.drive import EpochRun, drive
from dataguard.lab.spy.recording import Records
from dataguard.lab.spy.usage_readings import LibraryThreads, UsageReadings, memory_in_use, memory_taken
from dataguard.lab.spy.worker_spy import Plan
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

MEASURED_WORKERS = 2
"""Workers that are measured; the usage of one does not depend on how many there are, and two show whether they
agree."""
BUDGET_SHARE, MOST_BUDGET_SHARE = 0.005, 0.1
"""The share of the budget that a first measurement takes, and the most that slow samples may take: 0.3 s and 6 s of the
default 60."""
LONGER_FACTOR = 4
"""How many times longer a last measurement is, if usage seems to grow: what levels off has had time to do so."""
FEW_SAMPLES, FEWEST_SAMPLES, MOST_SAMPLES = 6, 15, 750
"""Samples that each worker reads in a first measurement: few that are slow, two in each third; the fewest of others, or
up to the most if only pages can be counted.

A longer one reads at least twice the fewest, and up to `LONGER_FACTOR` times the most.
"""
SETTLED_SAMPLES = 200
"""Samples after which what grew for the first ones alone, such as caches of a decoder, has levelled off: fewer would
report some of these, more take longer."""
MOST_COMPETING = 16
"""The most workers that compete with each other: a limit of time and memory."""
BATCH_SECONDS = 0.05
"""Seconds per batch while speeds are compared: a tenth of a round."""


class Resources:
    """Observations of memory, open files and threads; each is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def usage(self) -> Usage:
        """A first measurement of one worker: samples that are new to it, as far as there are any."""
        return self._measured(lambda plan: replace(plan, workers=1, reduced=self._subject.facts.num_workers > 1))

    @property
    def settled_usage(self) -> Usage:
        """A measurement that outlasts what a process sets up for its first samples; all are read a second time."""
        return self._repeated(min(SETTLED_SAMPLES, self._more()))

    @property
    def longer_usage(self) -> Usage:
        """The longest measurement; all samples are read a second time."""
        return self._repeated(self._more())

    def _repeated(self, fresh: int) -> Usage:
        self._subject.afford_reads(("usage", 2 * fresh), 2 * fresh)
        return self._measured(lambda plan: replace(plan, fresh=fresh, total=2 * fresh))

    @property
    def page_usage(self) -> Usage:
        """A measurement on new samples that counts the pages of each worker, which must pause for it."""
        fresh = self._more()
        self._subject.afford_reads(("pages", fresh), fresh)
        return self._measured(lambda plan: replace(plan, fresh=fresh, total=fresh, pages=True))

    @property
    def growing_containers(self) -> GrowingContainers:
        """Which containers grow with every sample, and whether they ever drop entries."""
        subject = self._subject
        subject.afford_reads("growing_containers", GROWTH_READS)
        limit = subject.epoch.limit
        return subject.observe(
            "growing_containers", lambda folder: find_growing_containers(subject.build, folder, subject.facts, limit)
        )

    @property
    def copied_containers(self) -> tuple[CopiedContainer, ...]:
        """The large containers of Python objects in the dataset, the largest first."""
        subject = self._subject
        return subject.observe("copied_containers", lambda _: find_copied_containers(subject.build().dataset))

    def batch_bytes(self, indices: Sequence[Index]) -> int | None:
        """Bytes of shared memory that a batch of these samples needs, None if there is no such batch."""
        subject = self._subject
        seconds = len(indices) * subject.epoch.seconds_per_sample + START_SECONDS.get(subject.facts.start_method, 3.0)
        subject.afford(("batch of", tuple(indices)), seconds)
        return subject.observe(
            ("batch of", tuple(indices)),
            lambda folder: make_batch(subject.build, folder, indices),
            lambda folder, _: read_shared_bytes(folder),
            exclusive=True,
        )

    @property
    def thread_contention(self) -> ThreadContention:
        """How fast the loader's workers are unchanged, and with one thread each."""
        subject, facts = self._subject, self._subject.facts
        workers = min(facts.num_workers, max(2 * subject.machine.usable_cores, 2), MOST_COMPETING)
        seconds, stream = subject.epoch.seconds_per_sample, facts.kind == "stream"
        subject.afford(
            "thread_contention",
            (2 * CONTENTION_ROUNDS + 1) * (ROUND_SECONDS + START_SECONDS.get(facts.start_method, 3.0)),
        )
        size = max(1, min(facts.batch_size or 1, round(BATCH_SECONDS / max(seconds, 1e-9))))
        size, limit = (facts.batch_size or 1) if stream else size, subject.epoch.limit
        return subject.observe(
            "thread_contention",
            lambda folder: measure_contention(subject.build, folder, workers, size, limit, stream=stream),
            exclusive=True,
        )

    @property
    def _planned(self) -> float:
        """How many samples one process reads in the time of a first measurement."""
        return BUDGET_SHARE * self._subject.settings.budget / max(self._subject.epoch.seconds_per_sample, 1e-9)

    def _seconds(self, reads: int, workers: int) -> float:
        """How long so many reads take in these workers."""
        return reads * self._subject.epoch.seconds_per_sample / min(workers, self._subject.machine.usable_cores)

    def _more(self) -> int:
        """The new samples of a longer measurement."""
        return round(min(max(LONGER_FACTOR * self._planned, 2 * FEWEST_SAMPLES), LONGER_FACTOR * MOST_SAMPLES))

    def _plan(self, *, own: bool) -> UsagePlan:
        subject, facts = self._subject, self._subject.facts
        workers = max(1, min(facts.num_workers, MEASURED_WORKERS))
        subject.epoch.need_batches()
        fewest = subject.affordable_reads(FEWEST_SAMPLES, FEW_SAMPLES, workers)
        enough = max(fewest, READINGS * (facts.batch_size or 1) if own else 0)
        most = MOST_SAMPLES if memory_in_use() is None else min(enough, MOST_SAMPLES)
        fresh = round(min(max(self._planned, fewest), most))
        subject.afford(("first usage", own), self._seconds(workers * fresh, workers))
        size = facts.batch_size or 1 if own else min(facts.batch_size or 1, max(1, fresh // 24))
        return UsagePlan(workers, fresh, fresh, size, own, facts.num_workers > workers)

    def _measured(self, extended: Callable[[UsagePlan], UsagePlan]) -> Usage:
        """Measure small batches, which need the fewest reads; the loader's own for streams, or if small ones fail.

        Raises NotApplicable where memory cannot be read.
        """
        memory_taken()
        stream = self._subject.facts.kind == "stream"
        try:
            return self._measured_with(self._plan(own=stream), extended)
        except Undecided as undecided:
            if stream or not isinstance(undecided.__cause__, LoaderRaised):
                raise
        return self._measured_with(self._plan(own=True), extended)

    def _measured_with(self, first: UsagePlan, extended: Callable[[UsagePlan], UsagePlan]) -> Usage:
        subject, plan = self._subject, extended(first)
        limit, stream = subject.epoch.limit, subject.facts.kind == "stream"
        share = MOST_BUDGET_SHARE * subject.settings.budget * (0.5 if plan.total == first.total else 2)
        longest = max(share, 2 * self._seconds(plan.total * plan.workers, plan.workers))
        return subject.observe(
            plan,
            lambda folder: measure_usage(subject.build, folder, plan, limit, longest, stream=stream),
            lambda folder, answer: read_usage(folder, answer, plan),
            exclusive=True,
        )


def make_batch(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> None:
    """Let one worker make a batch of these samples; it is not sent."""
    loader = build(num_workers=1, schedule=lambda inner, batched: Trials(inner, [indices]))
    drive(loader, Plan(folder, (Records(),), keep_going=True), batches=(1,))


def read_shared_bytes(folder: Path) -> int | None:
    """The bytes of shared memory that this batch needs, None if it could not be made."""
    return next((record.shared_bytes for record in read_spools(folder) if isinstance(record, BatchRecord)), None)


READINGS = 12
"""Readings in each of two phases: while samples are new, and while they repeat. A trend compares thirds, of four
each."""
NEEDED_READINGS = (5, 8, 12)
"""The readings required for a trend: in the middle third, where the last third begins, and at the end."""


@dataclass(frozen=True, slots=True)
class UsagePlan:
    """The length of a measurement: each worker reads up to `fresh` new samples, and `total` in all."""

    workers: int
    fresh: int
    total: int
    size: int
    """Samples in a batch."""
    own: bool
    """Whether the batches are the loader's own."""
    reduced: bool
    """Whether the loader has more workers than that."""
    pages: bool = False
    """Whether pages are counted, first after a third of the new samples and again after all of them."""

    def readings(self, fresh: int, *, stream: bool) -> UsageReadings:
        """When readings are made, if the first `fresh` samples are new.

        A stream may end at any time: each third of what it yielded must have some.
        """
        if self.pages:
            early = _ladder(4 * self.size, 2, self.total) if stream else ()
            return UsageReadings(tuple(sorted({*early, -(-fresh // 3), fresh})), pages=True)
        again = self.total - fresh
        phases = [(0, fresh), (fresh, again)] if again > READINGS * self.size else [(0, fresh)]
        early = _ladder(2 * self.size, 1.5, self.total) if stream else ()
        needed, wished = (
            {start + round(span * step / READINGS) for start, span in phases for step in steps}
            for steps in (NEEDED_READINGS, range(1, READINGS + 1))
        )
        return UsageReadings(tuple(sorted({*early, *needed})), tuple(sorted(wished)))


def _ladder(start: float, ratio: float, most: int) -> Iterator[int]:
    while start < most:
        yield round(start)
        start *= ratio


@dataclass(frozen=True, slots=True)
class Usage:
    """What each process used over time: `readings` by worker, None for the main process without workers.

    Each read `fresh` new samples before they repeated; `rate` is the samples per second of one process.
    """

    readings: dict[int | None, tuple[Reading, ...]]
    fresh: int
    rate: float

    @property
    def exercised(self) -> dict[str, int]:
        """How much was measured."""
        samples = sum(series[-1].samples for series in self.readings.values())
        workers = len(self.readings.keys() - {None})
        return {"samples": samples, "workers": workers} if workers else {"samples": samples}

    @property
    def longest(self) -> int:
        """The samples that a process read while all were new, or while they repeated, whichever are more."""
        total = max(series[-1].samples for series in self.readings.values())
        return max(self.fresh, total - self.fresh)

    def points(self, measure: Callable[[Reading], float], *, again: bool = False) -> list[list[tuple[float, float]]]:
        """For each process, samples read and a measure of its readings, while samples were new, or repeated."""
        chosen = (
            [
                reading
                for reading in readings
                if (reading.samples >= self.fresh if again else reading.samples <= self.fresh)
            ]
            for readings in self.readings.values()
        )
        return [[(reading.samples, measure(reading)) for reading in readings] for readings in chosen]

    def copied(self) -> list[tuple[float, int]]:
        """For each process, the bytes copied per new sample after a warm-up, and in total.

        Writing to a page that is shared with other processes copies it.
        """
        measured = []
        for readings in self.readings.values():
            counted = [reading for reading in readings if reading.pages is not None and reading.samples <= self.fresh]
            if len(counted) < 2:
                continue
            settled, last = counted[0], counted[-1]
            assert settled.pages is not None
            assert last.pages is not None
            copied = _copied(settled.pages, last.pages)
            measured.append((copied / max(last.samples - settled.samples, 1), copied))
        return measured


def _copied(first: Pages, now: Pages) -> int:
    """Bytes that are no longer shared, unless they were freed or newly allocated."""
    return min(first.shared - now.shared, (now.private - first.private) - (now.anonymous - first.anonymous))


def measure_usage(
    build: Callable[..., Loader], folder: Path, plan: UsagePlan, limit: int | None, seconds: float, *, stream: bool
) -> tuple[list[EpochRun], int]:
    """Read samples in the loader's own workers; returns the epoch runs and how many samples were new to each."""
    schedules: list[RepeatedIndices] = []

    def schedule(inner: Any, batched: bool) -> RepeatedIndices:
        schedules.append(RepeatedIndices(inner, plan, limit, batched=batched))
        return schedules[-1]

    asked = {"num_workers": plan.workers} if plan.reduced else {}
    loader = build(**asked) if stream else build(schedule=schedule, in_order=True, **asked)
    most = -(-plan.total * plan.workers // plan.size) if stream else None
    used = in_use(schedules, loader)
    fresh = plan.total if used is None else used.fresh
    epoch_runs = drive(loader, Plan(folder, (plan.readings(fresh, stream=stream),)), batches=(most,), seconds=seconds)
    return epoch_runs, fresh


def read_usage(folder: Path, answer: tuple[list[EpochRun], int] | None, plan: UsagePlan) -> Usage:
    """Group the readings by worker. Raises Undecided if there are too few, or the budget cut them short."""
    if answer is None:
        raise Undecided("the budget ran out while the memory of workers was measured")
    _, fresh = answer
    by_worker: dict[int | None, list[Reading]] = {}
    for record in read_spools(folder):
        if isinstance(record, Reading):
            by_worker.setdefault(record.worker, []).append(record)
    readings = {
        worker: tuple(worker_readings) for worker, worker_readings in by_worker.items() if len(worker_readings) > 1
    }
    if not readings:
        raise Undecided("too few samples were read to measure the memory of workers")
    speed = [
        (series[-1].samples - series[0].samples) / max(series[-1].at - series[0].at, 1e-9)
        for series in readings.values()
    ]
    return Usage(readings, fresh, min(speed) if speed else math.nan)


CONTENTION_ROUNDS = 3
"""How often both are measured, one after the other: a burst of other load decides no more than one round."""
ROUND_SECONDS = 0.5
"""How long one round takes, without the start of the workers: ten batches at least, see `BATCH_SECONDS`."""
START_SECONDS = {"fork": 0.1, "spawn": 3.0, "forkserver": 3.0}
"""Seconds that starting the workers of a round takes. Measured with torch alone: 0.025 for fork, 1.2 for spawn and 1.7
for forkserver; the user's own modules add to that."""
CLEAR_SPEEDUP = 1.5
"""The speedup with one thread each that every round must reach: chosen, well above the noise of half a second."""
CONTENTION_ITEMS = 256
"""Samples that are read again and again: rounds then differ in nothing but their threads."""


@dataclass(frozen=True, slots=True)
class ThreadContention:
    """Samples per second of all `workers` in each round, with threads `as_is` and with one each; `pools` have more.

    Rounds end early once it is clear that one thread each is not faster.
    """

    workers: int
    as_is: tuple[float, ...]
    alone: tuple[float, ...]
    pools: tuple[str, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """The speedup with one thread each, round by round."""
        return tuple(single / max(as_is, 1e-9) for as_is, single in zip(self.as_is, self.alone, strict=True))


def measure_contention(
    build: Callable[..., Loader], folder: Path, workers: int, size: int, limit: int | None, *, stream: bool
) -> ThreadContention:
    """Measure rounds, each with new workers, after one that only warms up."""

    def schedule(inner: Any, batched: bool) -> Dealt:
        first = islice(unique(flat(inner, batched=batched)), CONTENTION_ITEMS)
        drawn = [index for index in first if exists(index, limit)]
        return Dealt(inner, [drawn[worker::workers] for worker in range(workers)], size, batched=batched)

    asked: dict[str, Any] = {"num_workers": workers, "persistent_workers": False}
    loader = build(**asked) if stream else build(schedule=schedule, in_order=True, **asked)
    user_init = loader.worker_init_fn

    def speed(threads: int) -> float:
        loader.worker_init_fn = user_init
        (epoch_run,) = drive(loader, Plan(folder, (LibraryThreads(threads),)), batches=(None,), seconds=ROUND_SECONDS)
        return size * (epoch_run.batches - 1) / max(epoch_run.seconds - epoch_run.start_seconds, 1e-9)

    speed(1)
    as_is: list[float] = []
    one_thread: list[float] = []
    for number in range(CONTENTION_ROUNDS):
        order = (0, 1) if number % 2 == 0 else (1, 0)  # a drift over time must not favour one of them
        speeds = {threads: speed(threads) for threads in order}
        as_is.append(speeds[0])
        one_thread.append(speeds[1])
        if one_thread[-1] < CLEAR_SPEEDUP * as_is[-1]:
            break
    seen = (pool for record in read_spools(folder) if isinstance(record, Pools) for pool in record.pools)
    return ThreadContention(workers, tuple(as_is), tuple(one_thread), tuple(dict.fromkeys(seen)))


class RepeatedIndices(Schedule):
    """The first indices of the user's order, `plan.fresh` per worker, each once, and then repeated.

    Every worker reads its own indices again: torch hands batch k to worker k mod `plan.workers`. A batch is one of the
    user's, or holds up to `plan.size` distinct indices.
    """

    def __init__(self, inner: Any, plan: UsagePlan, limit: int | None, *, batched: bool) -> None:
        super().__init__(inner)
        self.plan = plan
        self.limit = limit
        self.batched = batched
        self._rounds: list[list[Any]] | None = None

    def __iter__(self) -> Iterator[Any]:
        rounds = self._dealt()
        for number in range(len(self)):
            batch = rounds[number % len(rounds)]
            yield batch if self.batched else batch[0]

    def __len__(self) -> int:
        rounds = self._dealt()
        return -(-self.plan.total // max(size_of(rounds[0]), 1)) * self.plan.workers if rounds else 0

    @property
    def fresh(self) -> int:
        """How many samples are new to each worker."""
        return sum(map(size_of, self._dealt())) // self.plan.workers

    def _dealt(self) -> list[list[Any]]:
        """The batches of the first round, as many for every worker."""
        if self._rounds is None:
            workers = self.plan.workers
            batches = self._own() if self.plan.own else self._regrouped()
            self._rounds = batches[: len(batches) // workers * workers] or batches[:1]
        return self._rounds

    def _own(self) -> list[list[Any]]:
        entries = islice(drawn(self.inner), -(-self.plan.fresh // self.plan.size) * self.plan.workers)
        kept = [index for entry in entries for index in existing(entry, self.limit, batched=self.batched)]
        return kept if self.batched else [[index] for index in kept]

    def _regrouped(self) -> list[list[Any]]:
        kept = (index for index in flat(self.inner, batched=self.batched) if exists(index, self.limit))
        indices = list(islice(unique(kept), self.plan.fresh * self.plan.workers))
        size = max(1, min(self.plan.size, len(indices) // self.plan.workers))
        return [indices[start : start + size] for start in range(0, len(indices) - size + 1, size)]
