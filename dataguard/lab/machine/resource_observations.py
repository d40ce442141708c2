"""What the loader's own workers take of the machine over many samples; see `Lab.resources`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dataguard.lab.core.index import Index
from dataguard.lab.core.index_schedules import Trials
from dataguard.lab.core.records import BatchRecord, read_spools
from dataguard.lab.machine.copied_containers import Heavy, find_heavies
from dataguard.lab.machine.growing_containers import READS, Hoards, run_hoards
from dataguard.lab.machine.thread_contention import ROUNDS, SECONDS, START, Crowding, run_crowding
from dataguard.lab.machine.worker_readings import Look, Strain, read_look, run_look
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.recording import Records
from dataguard.lab.subject import Subject
from dataguard.model import Undecided
from dataguard.target.variants import Loader

WORKERS = 2
"""Workers that are watched; what one takes does not hang on how many there are."""
SHARE, MOST_SHARE = 0.005, 0.1
"""The share of the budget that a first look takes, and at most where samples are slow."""
LONGER = 4
"""How many times longer a second look is, made where something seems to grow."""
FEWEST, MOST = 24, 750
"""Samples that each worker reads in a first look; a longer one has twice as many at least."""
MOST_WORKERS = 16
"""Workers that compete with each other at most."""
BATCH = 0.05
"""Seconds that a batch takes while speeds are compared."""


class Resources:
    """The part of a lab for memory and files; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def strain(self) -> Strain:
        """A first look: samples that are new to each worker, as far as there are any."""
        look = self._look()
        return self._seen(look)

    @property
    def longer(self) -> Strain:
        """A longer look, in which all samples come a second time."""
        look, fresh = self._look(), self._more()
        self._subject.afford(2 * fresh * self._subject.epoch.seconds_per_sample)
        return self._seen(replace(look, fresh=fresh, total=2 * fresh))

    @property
    def copying(self) -> Strain:
        """A look at new samples in which the pages of each worker are counted, for which it has to stop."""
        look, fresh = self._look(), self._more()
        self._subject.afford(fresh * self._subject.epoch.seconds_per_sample)
        return self._seen(replace(look, fresh=fresh, total=fresh, pages=True))

    @property
    def hoards(self) -> Hoards:
        """Which containers grow with every sample, and whether they let go of something in the end."""
        subject = self._subject
        subject.afford(READS * subject.epoch.seconds_per_sample)
        limit = subject.epoch.limit
        return subject.vary("hoards", lambda folder: run_hoards(subject.build, folder, subject.facts, limit))

    @property
    def heavies(self) -> tuple[Heavy, ...]:
        """The large containers of Python objects that the dataset holds, the largest first."""
        subject = self._subject
        return subject.vary("heavies", lambda _: find_heavies(subject.build().dataset))

    def batch_of(self, indices: Sequence[Index]) -> int | None:
        """Bytes of shared memory that a batch of these samples takes, None where there is no such batch."""
        subject = self._subject
        subject.afford(len(indices) * subject.epoch.seconds_per_sample + START.get(subject.facts.start_method, 3.0))
        return subject.vary(
            ("batch of", tuple(indices)),
            lambda folder: run_trial(subject.build, folder, indices),
            lambda folder, _: next(
                (one.shared_bytes for one in read_spools(folder) if isinstance(one, BatchRecord)), None
            ),
        )

    @property
    def crowding(self) -> Crowding:
        """How fast the loader's workers are as they are, and with one thread each."""
        subject, facts = self._subject, self._subject.facts
        workers = min(facts.num_workers, max(2 * subject.machine.usable_cores, 2), MOST_WORKERS)
        seconds, stream = subject.epoch.seconds_per_sample, facts.kind == "stream"
        subject.afford((2 * ROUNDS + 1) * (SECONDS + START.get(facts.start_method, 3.0)))
        size = max(1, min(facts.batch_size or 1, round(BATCH / max(seconds, 1e-9))))
        size, limit = (facts.batch_size or 1) if stream else size, subject.epoch.limit
        return subject.vary(
            "crowding", lambda folder: run_crowding(subject.build, folder, workers, size, limit, stream=stream)
        )

    @property
    def _planned(self) -> float:
        """How many samples one process reads in the time of a first look."""
        return SHARE * self._subject.settings.budget / max(self._subject.epoch.seconds_per_sample, 1e-9)

    def _more(self) -> int:
        """The new samples of a longer look."""
        return round(min(max(LONGER * self._planned, 2 * FEWEST), LONGER * MOST))

    def _look(self) -> Look:
        subject, facts = self._subject, self._subject.facts
        workers = max(1, min(facts.num_workers, WORKERS))
        seconds, budget = subject.epoch.seconds_per_sample, subject.settings.budget
        fresh = round(min(max(self._planned, FEWEST), MOST))
        if fresh * seconds > MOST_SHARE * budget:
            raise Undecided(
                f"a sample takes {seconds:.2g} s, and {FEWEST} per worker would take more than a tenth of the budget: "
                "raise --budget"
            )
        size = facts.batch_size or 1 if facts.kind == "stream" else min(facts.batch_size or 1, max(1, fresh // 24))
        return Look(workers, fresh, fresh, size, facts.num_workers > workers)

    def _seen(self, look: Look) -> Strain:
        subject = self._subject
        limit, stream = subject.epoch.limit, subject.facts.kind == "stream"
        share = MOST_SHARE * subject.settings.budget * (0.5 if look == self._look() else 2)
        return subject.vary(
            look,
            lambda folder: run_look(subject.build, folder, look, limit, share, stream=stream),
            lambda folder, answer: read_look(folder, answer, look),
        )


def run_trial(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> None:
    """Let one worker make a batch of these samples; it is not sent."""
    loader = build(num_workers=1, schedule=lambda inner, batched: Trials(inner, [indices]))
    drive(loader, Plan(folder, (Records(),), keep_going=True), batches=(1,))
