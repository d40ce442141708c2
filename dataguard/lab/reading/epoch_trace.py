"""The traced pass: one ordinary epoch under the spy, which serves every check that needs one.

It also notices batches whose memory a later batch overwrites.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dataguard.core.incident import EmptyEpoch, Incident, LoaderDied, LoaderRaised
from dataguard.core.model import DataguardError, NotApplicable, NotTested, Undecided
from dataguard.lab.core.index_schedules import evenly, spread_over
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.loader_facts import start_method
from dataguard.lab.core.records import BatchRecord, Index, Refusal, SampleRecord, Stop, ValueSummary
from dataguard.lab.core.source_location import Place
from dataguard.lab.culprit.line_trace import line_of_change
from dataguard.lab.process.endless_reads import EndlessRead
from dataguard.lab.process.incidents import FlightRecorder, incident_of, read_spools
from dataguard.lab.process.write_protection import WriteRefused, refused_write
from dataguard.lab.reading.open_files import overlap, ranges_at
from dataguard.lab.rng.rng_discovery import seed_global_generators
from dataguard.lab.spy.drive import EpochRun, announce_epoch, drive, read_seconds, shut
from dataguard.lab.spy.recording import Records, ValueSummaries
from dataguard.lab.spy.sample_ledger import SampleHashes
from dataguard.lab.spy.worker_spy import Plan
from dataguard.process.progress import Unreadable
from dataguard.settings.settings import Settings
from dataguard.targets.discovery import iterated
from dataguard.targets.loading import Target
from dataguard.targets.variants import Loader

MOST_SECONDS = 8.0
"""Seconds after which the traced pass ends, so that slow data leave time for the other observations."""
SECOND_EPOCH = 1
"""How many batches of a second epoch are read."""
RANK_STRIDE = 1_000_003
"""The difference between the seeds of two ranks."""


@dataclass(frozen=True, slots=True)
class ReadLimit:
    """How many reads of one process work, what every later one raises, and which methods set again what counts."""

    reads: int
    incident: Incident
    resets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EpochTrace:
    """The records of one epoch.

    `sizes` counts the samples of each batch of the whole epoch as the sampler plans it; None if it plans no batches.
    `whole`: every batch was really read. `epoch_run` is None if the budget cut it short. Indices of `limit` and above
    were skipped because they do not exist. `stops` are the places where a StopIteration ended the epoch too early. If
    more samples were `read` than `samples` holds, this is their number; `unreadable` ones were skipped.
    `value_summaries` hold the values in samples and batches, `hashes` the content hashes of all samples, if requested.
    `read_limit` says that a second epoch raises because the dataset counts its reads.
    """

    samples: tuple[SampleRecord, ...]
    batches: tuple[BatchRecord, ...]
    sizes: tuple[int, ...] | None
    whole: bool
    epoch_run: EpochRun | None
    limit: int | None = None
    stops: tuple[Incident, ...] = ()
    read: int | None = None
    value_summaries: tuple[ValueSummary, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    hashes: SampleHashes | None = None
    read_limit: ReadLimit | None = None

    @property
    def seconds_per_sample(self) -> float:
        """The median time to get one sample from the dataset, in seconds; without first reads, if there are others."""
        first, later = read_seconds(self.samples)
        if first:
            return statistics.median(later or first)
        fetched = [batch.fetch_seconds / max(batch.size, 1) for batch in self.batches]
        return statistics.median(fetched) if fetched else 0.0

    @property
    def largest(self) -> int:
        """The bytes of the tensors of the largest batch."""
        return max((batch.shared_bytes for batch in self.batches), default=0)

    @property
    def exercised(self) -> dict[str, int]:
        """How much was inspected."""
        workers = {sample.worker for sample in self.samples} - {None}
        batches = self.epoch_run.batches if self.read and self.epoch_run else len(self.batches)
        counts = {"samples": self.read or len(self.samples), "batches": batches, "workers": len(workers)}
        return {unit: count for unit, count in counts.items() if count}

    @property
    def indices(self) -> list[Index]:
        """The indices that can be requested again, each once, in the order of the samples."""
        return list(dict.fromkeys(sample.index for sample in self.samples if sample.index is not None))

    def asked(self, most: int) -> tuple[Index, ...]:
        """At most so many of these indices, evenly spaced. Raises NotApplicable if there are none."""
        if not self.indices:
            raise NotTested("no sample can be requested by index")
        return tuple(evenly(self.indices, most))

    def need_batches(self) -> None:
        """Raise NotApplicable if collate_fn makes no batch at all."""
        if self.batches and all(batch.incident for batch in self.batches):
            raise NotApplicable("collate_fn fails on every batch: see DG001")

    def members(self) -> dict[tuple[int | None, int], list[SampleRecord]]:
        """The samples of each batch, by its worker and number."""
        batches: dict[tuple[int | None, int], list[SampleRecord]] = defaultdict(list)
        for sample in self.samples:
            batches[sample.worker, sample.batch].append(sample)
        return batches

    def gets_past(self, incident: Incident) -> bool:
        """Whether this epoch continued beyond the point at which another one raised the incident."""
        seen = {None, *(sample.shown for sample in self.samples)}
        return self.epoch_run is not None and (self.epoch_run.ended or incident.index in seen)


def run_epoch(
    build: Callable[..., Loader], folder: Path, samples: int, limit: int | None, seconds: float, *, once: bool = False
) -> tuple[EpochRun, tuple[int, ...] | None, bool]:
    """Iterate one epoch, reduced to about `samples` samples and without indices of `limit` and above.

    Unless it is to be read `once`, the first batch of a second epoch follows, for loaders that work only once; not if
    workers are spawned or samples are slow, which takes seconds.
    """
    loader, spread = spread_over(build, samples, limit, SECOND_EPOCH)
    most = max(2, -(-samples // (loader.batch_size or 1))) if spread is None else None
    second = () if once or (loader.num_workers and start_method(loader) != "fork") else (SECOND_EPOCH,)
    plan = Plan(folder, (Records(), ValueSummaries(samples)), loads=True, keep_going=True)
    epoch_run = drive(loader, plan, batches=(most, *second), seconds=seconds, hurried=True)[0]
    sizes = tuple(spread.sizes) if spread is not None and spread.sizes is not None else None
    return epoch_run, sizes, epoch_run.ended and (spread is None or spread.whole)


def read_epoch(
    folder: Path, answer: tuple[EpochRun, tuple[int, ...] | None, bool] | None, limit: int | None
) -> EpochTrace:
    """The trace, from the spools and the result of the main process (None: it was cut short).

    Raises Undecided when no sample was observed, and EmptyEpoch when there was none: an empty trace must not let any
    check pass.
    """
    records = list(read_spools(folder))
    samples = tuple(record for record in records if isinstance(record, SampleRecord) and not record.epoch)
    batches = tuple(record for record in records if isinstance(record, BatchRecord) and not record.epoch)
    stops = tuple(record.incident for record in records if isinstance(record, Stop) and not record.epoch)
    epoch_run, sizes, whole = answer or (None, None, False)
    if not samples and epoch_run and epoch_run.ended and not epoch_run.batches:
        raise EmptyEpoch(stops)
    refused = next((record.incident for record in records if isinstance(record, Refusal)), None)
    if not samples and refused:
        raise Undecided(f"the samples raise when inspected: {refused.headline}")
    if not samples:
        raise Undecided(why_nothing(epoch_run))
    summaries = tuple(record for record in records if isinstance(record, ValueSummary))
    return EpochTrace(samples, batches, sizes, whole, epoch_run, limit, stops, value_summaries=summaries)


def why_nothing(epoch_run: EpochRun | None) -> str:
    """Why no sample of an epoch was seen."""
    if epoch_run is None:
        return "the budget ran out before the first batch was complete: raise --budget or lower the batch size"
    return f"no batch of {epoch_run.batches} could be observed: the loader bypasses torch's fetcher"


def first_batches(loader: Loader, count: int, recorder: FlightRecorder) -> list[Any]:
    """So many first batches of an epoch. Raises LoaderRaised."""
    batches = []
    iterator = iter(loader)
    with gate("iterate"):
        for batch in islice(iterator, count):
            recorder.mark(None, "iterate")
            batches.append(batch)
    shut(iterator)
    return batches


@contextlib.contextmanager
def gate(stage: str) -> Iterator[None]:
    """The one gate around user code in the main process of an observation: what it raises becomes an incident."""
    try:
        yield
    except (DataguardError, WriteRefused, EndlessRead):
        raise
    # SystemExit too: a factory that calls sys.exit() has not made a loader; a process that reads one ends.
    except BaseException as error:
        if refusal := refused_write(error):
            raise WriteRefused(refusal) from error
        failed = LoaderDied if isinstance(error, SystemExit) and stage not in ("factory", "script") else LoaderRaised
        raise failed(incident_of(error, stage)) from error


def gated_build(
    target: Target,
    loader: str,
    settings: Settings,
    overrides: Mapping[str, Any],
    rank_arguments: Mapping[str, int] | None = None,
    offset: int = 0,
) -> Loader:
    """Seed the global generators, then call the factory for one loader of the target, through the gate.

    `rank_arguments` are `rank` and `world_size`. Unseeded processes draw different numbers, and so do those here, whose
    seeds differ by `offset`; a factory that takes a `seed` gets the same one in each, as a launcher would pass it.
    """
    seed_global_generators(settings.seed + offset)
    with gate(target.stage):
        return target.build(loader, {**factory_arguments(settings), **(rank_arguments or {})}, **overrides)


def factory_arguments(settings: Settings) -> dict[str, int]:
    """What a factory that takes them gets by name: the seed, and as many ranks as share the batches of one process."""
    group = settings.contract.get("same_batches", 1)
    return {"seed": settings.seed} | ({"world_size": group} if group > 1 else {})


LATER_BATCHES = 2
"""How many batches after the first may overwrite it: who rotates more buffers does so on purpose."""
IN_FLIGHT = 4
"""Batches that a worker may have made before the first one is looked at, and one more."""


@dataclass(frozen=True, slots=True)
class Overwritten:
    """The leaves of the first batch that changed, and the number of the batch that lies in their memory.

    `batches` counts those that were taken.
    """

    leaves: tuple[str, ...]
    later: int = 0
    batches: int = 0


def find_overwritten(loader: Loader, folder: Path) -> Overwritten:
    """Take a few batches, and compare the first with what it was when it arrived.

    A worker may have overwritten it by then, and does so again until the last batch is there.
    """
    recorder = FlightRecorder(folder)
    announce_epoch(loader, 0)
    batches: list[Any] = []
    before: dict[str, bytes] = {}
    with gate("iterate"):
        iterator = iter(iterated(loader))
        for batch in iterator:
            recorder.mark(None, "iterate")
            batches.append(batch)
            before = before or {leaf.path: leaf.digest for leaf in leaves_of(batch)}
            if len(batches) == batches_taken(loader.num_workers):
                break
    shut(iterator)
    changed = {leaf.path: leaf.digest for leaf in leaves_of(batches[0])} if batches else {}
    later_batches = {path: _later(batches, path) for path, digest in before.items() if changed.get(path) != digest}
    numbers = [later for later in later_batches.values() if later]
    return Overwritten(
        tuple(path for path, later in later_batches.items() if later), min(numbers, default=0), len(batches)
    )


def find_overwriting_line(loader: Loader, folder: Path, leaves: Sequence[str]) -> Place | None:
    """The line that writes into the memory of the first batch in this process, while the next ones are fetched."""
    FlightRecorder(folder).mark(None, "iterate")
    announce_epoch(loader, 0)
    with gate("iterate"):
        iterator = iter(iterated(loader))
        first = next(iterator)

        def state() -> Hashable:
            return tuple(leaf.digest for leaf in leaves_of(first) if leaf.path in leaves)

        return line_of_change(lambda: list(islice(iterator, LATER_BATCHES)), state)


def _later(batches: Sequence[Any], path: str) -> int:
    """The number of the batch right after the first that shares the memory of this leaf; 0 if there is none."""
    first_ranges = ranges_at(batches[0], path)
    later = enumerate(batches[1 : 1 + LATER_BATCHES], 1)
    return next((number for number, batch in later if overlap(first_ranges, ranges_at(batch, path))), 0)


def batches_taken(workers: int) -> int:
    """How many batches are taken of a loader with so many workers."""
    return 1 + LATER_BATCHES + IN_FLIGHT * workers
