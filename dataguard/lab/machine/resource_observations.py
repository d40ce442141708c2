"""The resources that the loader's own workers use over many samples; see `Lab.resources`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dataguard.incident import LoaderRaised
from dataguard.lab.core.index import Index
from dataguard.lab.core.index_schedules import Trials
from dataguard.lab.core.records import BatchRecord
from dataguard.lab.machine.copied_containers import CopiedContainer, find_copied_containers
from dataguard.lab.machine.growing_containers import READS, GrowingContainers, find_growing_containers
from dataguard.lab.machine.thread_contention import ROUNDS, SECONDS, START, ThreadContention, measure_contention
from dataguard.lab.machine.worker_readings import READINGS, Usage, UsagePlan, measure_usage, read_usage
from dataguard.lab.process.spool import read_spools
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.recording import Records
from dataguard.lab.spy.usage_readings import memory_in_use, memory_taken
from dataguard.lab.subject import Subject
from dataguard.model import Undecided
from dataguard.targets.variants import Loader

WORKERS = 2
"""Workers that are measured; the usage of one does not depend on how many there are."""
SHARE, MOST_SHARE = 0.005, 0.1
"""The share of the budget that a first measurement takes, and the most that slow samples may take."""
LONGER = 4
"""How many times longer a last measurement is, if usage seems to grow."""
FEWEST, MOST = 21, 750
"""Samples that each worker reads in a first measurement: the fewest, or up to the most if only pages can be counted.

A longer one reads at least twice the fewest, and up to `LONGER` times the most.
"""
SETTLED = 200
"""Samples after which what grew for the first ones alone, such as caches of a decoder, has levelled off."""
MOST_WORKERS = 16
"""The most workers that compete with each other."""
BATCH = 0.05
"""Seconds per batch while speeds are compared."""


class Resources:
    """Observations of memory, open files and threads; each is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def usage(self) -> Usage:
        """A first measurement: samples that are new to each worker, as far as there are any."""
        return self._measured(lambda plan: plan)

    @property
    def settled_usage(self) -> Usage:
        """A measurement that outlasts what a process sets up for its first samples; all are read a second time."""
        return self._repeated(min(SETTLED, self._more()))

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
        subject.afford_reads("growing_containers", READS)
        limit = subject.epoch.limit
        return subject.vary(
            "growing_containers", lambda folder: find_growing_containers(subject.build, folder, subject.facts, limit)
        )

    @property
    def copied_containers(self) -> tuple[CopiedContainer, ...]:
        """The large containers of Python objects in the dataset, the largest first."""
        subject = self._subject
        return subject.vary("copied_containers", lambda _: find_copied_containers(subject.build().dataset))

    def batch_bytes(self, indices: Sequence[Index]) -> int | None:
        """Bytes of shared memory that a batch of these samples needs, None if there is no such batch."""
        subject = self._subject
        seconds = len(indices) * subject.epoch.seconds_per_sample + START.get(subject.facts.start_method, 3.0)
        subject.afford(("batch of", tuple(indices)), seconds)
        return subject.vary(
            ("batch of", tuple(indices)),
            lambda folder: run_trial(subject.build, folder, indices),
            lambda folder, _: next(
                (one.shared_bytes for one in read_spools(folder) if isinstance(one, BatchRecord)), None
            ),
            alone=True,
        )

    @property
    def thread_contention(self) -> ThreadContention:
        """How fast the loader's workers are unchanged, and with one thread each."""
        subject, facts = self._subject, self._subject.facts
        workers = min(facts.num_workers, max(2 * subject.machine.usable_cores, 2), MOST_WORKERS)
        seconds, stream = subject.epoch.seconds_per_sample, facts.kind == "stream"
        subject.afford("thread_contention", (2 * ROUNDS + 1) * (SECONDS + START.get(facts.start_method, 3.0)))
        size = max(1, min(facts.batch_size or 1, round(BATCH / max(seconds, 1e-9))))
        size, limit = (facts.batch_size or 1) if stream else size, subject.epoch.limit
        return subject.vary(
            "thread_contention",
            lambda folder: measure_contention(subject.build, folder, workers, size, limit, stream=stream),
            alone=True,
        )

    @property
    def _planned(self) -> float:
        """How many samples one process reads in the time of a first measurement."""
        return SHARE * self._subject.settings.budget / max(self._subject.epoch.seconds_per_sample, 1e-9)

    def _seconds(self, reads: int, workers: int) -> float:
        """How long so many reads take in these workers."""
        return reads * self._subject.epoch.seconds_per_sample / min(workers, self._subject.machine.usable_cores)

    def _more(self) -> int:
        """The new samples of a longer measurement."""
        return round(min(max(LONGER * self._planned, 2 * FEWEST), LONGER * MOST))

    def _plan(self, *, own: bool) -> UsagePlan:
        subject, facts = self._subject, self._subject.facts
        workers = max(1, min(facts.num_workers, WORKERS))
        subject.epoch.need_batches()
        enough = max(FEWEST, READINGS * (facts.batch_size or 1) if own else 0)
        fresh = round(min(max(self._planned, FEWEST), MOST if memory_in_use() is None else min(enough, MOST)))
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
        share = MOST_SHARE * subject.settings.budget * (0.5 if plan == first else 2)
        longest = max(share, 2 * self._seconds(plan.total * plan.workers, plan.workers))
        return subject.vary(
            plan,
            lambda folder: measure_usage(subject.build, folder, plan, limit, longest, stream=stream),
            lambda folder, answer: read_usage(folder, answer, plan),
            alone=True,
        )


def run_trial(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> None:
    """Let one worker make a batch of these samples; it is not sent."""
    loader = build(num_workers=1, schedule=lambda inner, batched: Trials(inner, [indices]))
    drive(loader, Plan(folder, (Records(),), keep_going=True), batches=(1,))
