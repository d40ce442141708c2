"""A full epoch: every sample of a loader once, in its own workers, possibly shared by several ranks.

Each rank draws all batches of the epoch and reads its share of them (`FullSchedule`), which makes a `Portion`; `merge`
makes the portions of all ranks into the epoch of a single process. Meanwhile `_Progress` reports how far a rank got.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128

from dataguard.core.incident import EmptyEpoch, Incident, LoaderFailed, LoaderRaised
from dataguard.core.model import Undecided
from dataguard.lab.core.index_schedules import Schedule, drawn, existing, in_use, size_of
from dataguard.lab.core.instrument import Instrument
from dataguard.lab.core.records import BatchRecord, SampleRecord, Stop, ValueSummary, members, plain_index
from dataguard.lab.process.incidents import FlightRecorder, read_spools
from dataguard.lab.reading.epoch_trace import EpochTrace, why_nothing
from dataguard.lab.spy.drive import EpochRun, drive
from dataguard.lab.spy.recording import Records, RecordSampler, ValueSummaries
from dataguard.lab.spy.sample_ledger import ContentHashes, GlobalWorkerIds, SampleHashes, read_hashes
from dataguard.lab.spy.skip_unreadable import SkipUnreadable, UnreadableLog
from dataguard.lab.spy.worker_spy import Plan
from dataguard.lab.subject import Subject
from dataguard.process.originals import time
from dataguard.process.progress import ProgressListener, ReadingProgress, Unreadable
from dataguard.process.torchrun import Team

if TYPE_CHECKING:
    from dataguard.lab.core.loader_facts import LoaderFacts


@dataclass(frozen=True, slots=True)
class PortionRun:
    """What the main process of a portion reports.

    `sizes` are those of all batches that the sampler plans for the epoch, other ranks included, and `plan` is a digest
    of all its indices; both are None if it does not plan batches. `whole`: the sampler was drawn to its end.
    """

    epoch_run: EpochRun
    assignment: RankAssignment
    sizes: array[int] | None
    plan: bytes | None
    whole: bool


@dataclass(frozen=True, slots=True)
class Portion:
    """What one process read of a full epoch: the records that were kept, and the number of samples."""

    run: PortionRun
    samples: tuple[SampleRecord, ...]
    batches: tuple[BatchRecord, ...]
    stops: tuple[Incident, ...]
    read: int
    value_summaries: tuple[ValueSummary, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    hashes: SampleHashes = field(default_factory=SampleHashes)


def run_portion(subject: Subject, folder: Path, limit: int | None, keep: int, team: Team | None) -> PortionRun:
    """Iterate one epoch, or this rank's part of it, without indices of `limit` and above.

    Ranks take turns with the batches of a map-style dataset. The workers of a stream, at least one, are numbered across
    all ranks, because a stream shards by worker id; the budget limits a stream, which may be endless.
    """
    stream = subject.facts.kind == "stream"
    rank, world = (team.rank, team.world) if team else (0, 1)
    shared = world > 1 and stream
    assignment = RankAssignment(rank, world, max(subject.facts.num_workers, 1))
    planned: list[FullSchedule] = []

    def schedule(inner: Any, batched: bool) -> FullSchedule:
        planned.append(FullSchedule(inner, limit, assignment, batched=batched))
        return planned[-1]

    asked: dict[str, Any] = {"num_workers": assignment.workers} if shared else {}
    loader = subject.build(schedule=schedule, **asked)
    full_schedule = in_use(planned, loader)
    skips = _skips_unreadable(subject.facts)
    instruments: list[Instrument] = [Records(keep=keep), ValueSummaries(keep)]
    if shared:
        instruments.append(GlobalWorkerIds(rank, world))
    if skips:
        instruments.append(SkipUnreadable())
        # Hashes are compared between the loaders of a target.
        instruments += [ContentHashes()] if subject.facts.role and len(subject.siblings) > 1 else []
    plan = Plan(folder, tuple(instruments), loads=True, keep_going=True)
    epoch_run = drive(loader, plan, seconds=subject.settings.budget if stream else math.inf)[0]
    if full_schedule is None:
        return PortionRun(epoch_run, assignment, None, None, epoch_run.ended)
    return PortionRun(
        epoch_run,
        assignment,
        full_schedule.sizes,
        full_schedule.digest.digest(),
        epoch_run.ended and full_schedule.whole,
    )


def read_portion(folder: Path, run: PortionRun | None) -> Portion:
    """The records of one portion."""
    assert run is not None  # nothing cuts a full epoch short
    records = list(read_spools(folder))
    unreadable = tuple(UnreadableLog(folder).new())
    read = FlightRecorder(folder).counted()
    stops = tuple(record.incident for record in records if isinstance(record, Stop))
    if not read and unreadable and unreadable[0].incident:
        raise LoaderRaised(unreadable[0].incident)
    if not read and not run.epoch_run.batches:
        raise EmptyEpoch(stops)
    if not read:
        raise Undecided(why_nothing(run.epoch_run))
    samples = tuple(record for record in records if isinstance(record, SampleRecord))
    batches = tuple(record for record in records if isinstance(record, BatchRecord))
    summaries = tuple(record for record in records if isinstance(record, ValueSummary))
    return Portion(run, samples, batches, stops, read, summaries, unreadable, read_hashes([folder]))


def _skips_unreadable(facts: LoaderFacts) -> bool:
    """Whether an epoch continues without unreadable samples; a loader with its own `__iter__` may need full batches."""
    return facts.kind == "map" and not facts.own_iter


@dataclass(frozen=True, slots=True)
class RankAssignment:
    """How ranks take turns: each gets one batch for each of its workers, then the next rank does.

    torch sends batch k to worker k modulo their number, so that a batch gets the same worker id as in one process.
    """

    rank: int = 0
    world: int = 1
    workers: int = 1

    def takes(self, number: int) -> bool:
        """Whether batch `number` of the epoch is for this rank."""
        return number // self.workers % self.world == self.rank

    def place(self, fetch: int, worker: int) -> int:
        """The number in the epoch of the batch that a worker of this rank reads in fetch `fetch`."""
        return (fetch * self.world + self.rank) * self.workers + worker


class FullSchedule(Schedule):
    """All of the user's batches, of which this rank gets its share.

    `sizes` holds the number of samples of every batch of the epoch so far, other ranks included, or None without
    automatic batching; `digest` is that of all indices; `whole`: the sampler was drawn to its end. Integer indices of
    `limit` and above are skipped.
    """

    def __init__(self, inner: Any, limit: int | None, assignment: RankAssignment, *, batched: bool) -> None:
        super().__init__(inner)
        self.limit = limit
        self.assignment = assignment
        self.batched = batched
        self.sizes: array[int] | None = array("L") if batched else None
        self.digest = xxh3_128()
        self.whole = False

    def __iter__(self) -> Iterator[Any]:
        for number, batch in enumerate(drawn(self.inner)):
            if self.sizes is not None:
                self.sizes.append(size_of(batch))
            plain = [*map(plain_index, members(batch))] if self.batched else plain_index(batch)
            self.digest.update(repr(plain).encode())
            if self.assignment.takes(number):
                yield from existing(batch, self.limit, batched=self.batched)
        self.whole = True


def merge(portions: Sequence[Portion | Exception], limit: int | None, keep: int) -> EpochTrace:
    """Merge the portions of all ranks into one epoch, in the order of a single process.

    Raises the failure of any rank. If there are few batches, a rank may have none.
    """
    failed = [portion for portion in portions if isinstance(portion, LoaderFailed)]
    others = [portion for portion in portions if isinstance(portion, Exception) and not isinstance(portion, EmptyEpoch)]
    read = [portion for portion in portions if isinstance(portion, Portion)]
    for outcome in (*failed, *others, *(() if read else portions)):
        assert isinstance(outcome, Exception)
        raise outcome
    if len({portion.run.plan for portion in read}) > 1:
        raise Undecided(
            "the sampler draws a different order on each rank: seed it from the factory's `seed` or torch's global RNG"
        )
    sampler = RecordSampler(keep)
    samples = tuple(record for record in _in_order(read, lambda portion: portion.samples) if sampler.keeps(record))
    batches = tuple(record for record in _in_order(read, lambda portion: portion.batches) if sampler.keeps(record))
    sizes = read[0].run.sizes
    epoch_runs = [portion.run.epoch_run for portion in read]
    epoch_run = EpochRun(
        sum(epoch_run.batches for epoch_run in epoch_runs),
        all(epoch_run.ended for epoch_run in epoch_runs),
        max(epoch_run.seconds for epoch_run in epoch_runs),
        max(epoch_run.start_seconds for epoch_run in epoch_runs),
    )
    return EpochTrace(
        samples,
        batches,
        None if sizes is None else tuple(sizes),
        all(portion.run.whole for portion in read),
        epoch_run,
        limit,
        tuple(stop for portion in read for stop in portion.stops),
        sum(portion.read for portion in read),
        tuple(summary for portion in read for summary in _placed(portion)),
        tuple(_in_order(read, lambda portion: portion.unreadable)),
        SampleHashes.merged([portion.hashes for portion in read]),
    )


def _in_order(portions: Sequence[Portion], kept: Callable[[Portion], Sequence[Any]]) -> Iterator[Any]:
    """The records of all portions, sorted and renumbered by their place in the full epoch."""
    placed = [
        (portion.run.assignment.place(record.batch, record.worker or 0), getattr(record, "position", 0), record)
        for portion in portions
        for record in kept(portion)
    ]
    for number, _, record in sorted(placed, key=lambda entry: entry[:2]):
        yield replace(record, batch=number)


def _placed(portion: Portion) -> Iterator[ValueSummary]:
    """The value summaries of a portion, with the batch numbers of the full epoch."""
    assignment = portion.run.assignment
    yield from (
        replace(summary, batch=assignment.place(summary.batch, summary.worker or 0))
        for summary in portion.value_summaries
    )


@dataclass(frozen=True, slots=True)
class ScanJob:
    """A scan of all samples: `team` shares the work, `report` receives the progress."""

    team: Team | None = None
    report: ProgressListener | None = None

    def progress(self, facts: LoaderFacts) -> Callable[[Path], Callable[[], None]]:
        """For the folder of an observation, a function to call regularly that reports its progress."""
        total = total_of(facts)
        world = self.team.world if self.team else 1
        share = None if total is None else -(-total // world)

        def begin(folder: Path) -> Callable[[], None]:
            return _Progress(facts.name, share, folder, self.report) if self.report else lambda: None

        return begin


_REPORT_SECONDS = 0.25
"""Seconds between two progress reports: what a reader of a terminal can follow."""


class _Progress:
    """Reports at intervals how far an observation got."""

    def __init__(self, loader: str, total: int | None, folder: Path, report: ProgressListener) -> None:
        self._loader = loader
        self._total = total
        self._recorder = FlightRecorder(folder)
        self._log = UnreadableLog(folder)
        self._report = report
        self._reported = 0.0
        self._skipped = 0

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._reported < _REPORT_SECONDS:
            return
        self._reported = now
        unreadable = tuple(self._log.new())
        self._skipped += len(unreadable)
        read = self._skipped + self._recorder.counted()
        self._report(ReadingProgress(self._loader, read, self._total, unreadable))


def total_of(facts: LoaderFacts) -> int | None:
    """The number of samples of an epoch, by the lengths of the loader and the dataset; None if unknown."""
    if facts.batches is None or facts.kind == "stream":
        return facts.length
    size = facts.batch_size or 1
    planned = facts.batches * size
    last = (facts.length or 0) % size  # the last batch is a smaller one
    return planned - size + last if last and not facts.drop_last and planned - size + last == facts.length else planned


def waiting_mark(folder: Path) -> Callable[[], None]:
    """A function that a process calls to show that it waits and does not hang."""
    recorder = FlightRecorder(folder)
    return lambda: recorder.mark(None, "exchange")
