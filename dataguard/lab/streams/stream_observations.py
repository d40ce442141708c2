"""The observations of a lab about streams, sample orders and resuming; see `Streams`.

Also whether the user's code, or a library's stream, reads its rank, which decides how many ranks are run; and how many
samples each process of a stream yields, whatever its generators draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from xxhash import xxh3_64

from dataguard.core.model import Location, NotApplicable, NotTested
from dataguard.lab.core.index_schedules import Schedule, drawn
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import members
from dataguard.lab.culprit.line_trace import QUICK_FACTORY
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.process.isolation import in_fork
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.fresh_import import reimported
from dataguard.lab.reading.rank_queries import rank_queries
from dataguard.lab.reading.sample_reader import emulate_worker
from dataguard.lab.rng.rng_discovery import SEED, seeded
from dataguard.lab.rng.seed_watch import SeedWatch
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.recording import Records
from dataguard.lab.spy.sample_ledger import resolution_for
from dataguard.lab.spy.worker_spy import Plan
from dataguard.lab.streams import orders
from dataguard.lab.streams.batch_rests import LeftAlone, left_alone
from dataguard.lab.streams.epoch_calls import MissedEpoch, find_missed_epoch
from dataguard.lab.streams.offsets import Offsets, find_offsets, offset_names
from dataguard.lab.streams.orders import Apart, Contents, Orders, StreamOrder
from dataguard.lab.streams.own_loaders import OwnReads, read_own_loader
from dataguard.lab.streams.resume import NewProcess, Restart, Resumes, find_restart, find_resumes
from dataguard.lab.streams.sampler_weights import SamplerWeights, find_weights
from dataguard.lab.streams.stream_trace import Request, StreamTrace, read_stream, run_stream
from dataguard.lab.streams.wrapped_loaders import WrapperPass, line_of_end, read_wrapper
from dataguard.lab.subject import Subject
from dataguard.targets.discovery import through_wrapper
from dataguard.targets.variants import Loader


class Streams:
    """Observations of a stream, or of the sample order of a map-style loader; each is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def stream(self, num_workers: int, *, seeded: bool, **asked: Any) -> StreamTrace:
        """What a stream yields with so many workers; the other arguments are those of `Request`."""
        return self._stream(Request(num_workers, seeded, **asked))

    def shares(self, num_workers: int, **asked: Any) -> StreamTrace:
        """Like `stream`, to compare which worker reads what: the whole stream if all samples are requested.

        Samples are recognised by the user's key function, if the settings name one.
        """
        return self._stream(self.whole_if_asked(Request(num_workers, key=self._subject.settings.key, **asked)))

    def _stream(self, request: Request) -> StreamTrace:
        subject = self._subject
        if subject.facts.kind != "stream":
            raise NotApplicable("the dataset is map-style: its sampler distributes the indices")
        if request.sources and not request.begins:  # most streams in memory have none
            begun = self._stream(replace(request, begins=True))
            if not begun.known:
                return begun
        ranks = world(subject) if is_declared(subject) else 1
        samples = subject.facts.stream_sample_count(subject.settings.samples) * ranks
        return subject.observe(
            request,
            lambda folder: run_stream(subject.build, folder, request, samples, self.seconds_of(request)),
            lambda folder, drive: read_stream(folder, drive, request.depth),
            unbounded=request.whole,
        )

    def whole_if_asked(self, request: Request) -> Request:
        """The request, for the whole stream if the settings request all samples."""
        subject = self._subject
        if not subject.settings.all:
            return request
        return replace(request, whole=True, depth=resolution_for(subject.epoch.read or 0))

    def seconds_of(self, request: Request) -> float:
        """Most seconds to read one epoch of a stream."""
        return self._subject.settings.budget * (1 if request.whole else 0.1)

    @property
    def orders(self) -> Orders:
        """The order in which the loader requests its samples in three epochs (map-style only)."""
        subject = self._subject
        subject.need_map("a stream has no sampler")
        return subject.observe("orders", lambda _: orders.draw_orders(subject.build, subject.facts.length))

    @property
    def missed_epoch(self) -> MissedEpoch | None:
        """Where the user's loader, or a wrapper of it, looks for `set_epoch`, if it finds none that changes the order.

        None if it looks for none. No sample is read.
        """
        subject = self._subject
        return subject.observe("missed epoch", lambda _: find_missed_epoch(subject.build, subject.facts.length))

    def left_alone(self, size: int) -> LeftAlone | None:
        """What the user's batch sampler leaves out if its batches have one sample in place of `size`.

        None if its batches cannot be given a size.
        """
        subject = self._subject
        again = partial(subject.call_again, {}) if self._is_quick else None
        build = partial(subject.build, num_workers=0)
        return subject.observe(("left alone", size), lambda _: left_alone(build, again, size), unobservable=True)

    @property
    def _is_quick(self) -> bool:
        """Whether the factory can be called again in little time."""
        subject = self._subject
        return subject.factory_seconds < QUICK_FACTORY and not subject.target.is_made_once

    @property
    def own_reads(self) -> OwnReads | None:
        """What a loader of the project's own class does not read of its dataset; None if that cannot be seen."""
        subject = self._subject
        if not subject.facts.own:
            return None
        return subject.observe("own reads", lambda folder: read_own_loader(subject.build, folder))

    @property
    def wrapped(self) -> WrapperPass | None:
        """What the wrapper yields that training iterates in place of this loader and perhaps others; None without one.

        Raises Undecided if it takes long to read it twice.
        """
        subject = self._subject
        if subject.facts.holder is None:
            return None
        subject.afford_reads("wrapped", 2 * sum(one.facts.length or 0 for one in subject.siblings.values()))
        return subject.observe("wrapped", lambda folder: read_wrapper(subject.build, folder))

    def wrapper_end(self, batches: int) -> Location | None:
        """The line at which the wrapper ends an epoch, after so many batches."""
        subject = self._subject
        place = subject.line_of(("wrapper end", batches), lambda folder: line_of_end(subject.build, folder, batches))
        return Location(*place) if place else None

    def weights(self, indices: tuple[int, ...]) -> SamplerWeights | None:
        """How torch's weighted sampler weights the samples, and those of these indices; None if it has another one."""
        subject = self._subject
        return subject.observe(("weights", indices), lambda _: find_weights(subject.build, indices))

    def reset_at(self, path: str) -> Location | None:
        """The line that seeds a generator of the sampler, at this path, again in each epoch."""
        subject = self._subject
        place = subject.observe(
            ("reset", path), lambda _: orders.line_of_reset(subject.build, subject.facts.length, path)
        )
        return Location(*place) if place else None

    @property
    def stream_order(self) -> StreamOrder:
        """Whether a stream has one order in all epochs, and a constant seed that decides it."""
        subject = self._subject
        subject.afford_reads("stream order", (orders.EPOCHS + 1) * orders.MOST_STREAM_SAMPLES)
        return subject.observe("stream order", lambda folder: orders.find_stream_order(subject.build, folder))

    def has_fixed_counts(self, workers: int) -> bool:
        """Whether one process, and each of so many workers, yield as many samples whatever generators draw."""
        subject = self._subject
        subject.afford_reads("stream counts", 2 * COUNT_RUNS * (subject.epoch.read or 0))
        return are_fixed(
            subject.observe(("stream counts", workers), lambda folder: read_counts(subject.build, folder, workers))
        )

    @property
    def contents(self) -> Contents:
        """Which samples a few indices of the loader's order give in two epochs (map-style only)."""
        subject = self._subject
        subject.afford_reads("contents", 4 * orders.PROBED_SAMPLES)
        order = self.orders.epochs[0]
        return subject.observe("contents", lambda _: orders.read_contents(subject.build(), order))

    def apart(self, left: Sequence[int]) -> Apart | None:
        """What sets samples of these indices, which no epoch has, apart from those of the first epoch."""
        subject = self._subject
        subject.afford_reads("apart", 2 * orders.LEFT_READS)
        drawn = sorted({index for index in self.orders.epochs[0] if isinstance(index, int)})
        return subject.observe("apart", lambda _: orders.read_apart(subject.build().dataset, left, drawn))

    @property
    def offsets(self) -> Offsets:
        """What samplers and streams yield that get a place to start from, if the loader itself is iterated."""
        subject = self._subject
        if subject.facts.holder or (subject.facts.kind == "stream" and not subject.reads_take_little(STREAM_READS)):
            return Offsets()
        target = subject.target
        names = [] if target.is_made_once or not callable(target.source) else offset_names(target.source)
        quick = self._is_quick

        def given(name: str, value: int) -> Loader:
            return subject.call_again({name: value})

        factory = {name: partial(given, name) for name in names if quick}
        build = partial(subject.build, num_workers=0)
        return subject.observe(
            "offsets",
            lambda _: find_offsets(build, partial(subject.call_again, {}) if quick else None, factory),
            unobservable=True,
        )

    def resumes(self, workers: int) -> Resumes:
        """What the loader yields after an interruption and a restore, with so many workers."""
        return find_resumes(self._subject, workers)

    def restart(self, workers: int, **differs: bool) -> Restart:
        """The same in a new process that differs in these ways from the first one: fields of `NewProcess`."""
        return find_restart(self._subject, workers, self.resumes(workers), NewProcess(**differs))


STREAM_READS = 10_000
"""Samples of a stream that take little to read, if its offsets are tried: ten epochs of a thousand."""
DEFAULT_RANKS, MOST_RANKS = 2, 4
"""How many ranks to run by default for a rank-aware loader, and at most: each is a process with workers of its own."""


def world(subject: Subject) -> int:
    """How many ranks to run: the number in the settings, or two if the loader is rank-aware.

    Raises NotApplicable if the loader is meant for one process only, and NotTested if it was made as that of one rank
    and cannot be made again for another.
    """
    asked, group = subject.settings.ranks, ranks_per_group(subject)
    if asked == 1:
        raise NotApplicable("ranks is set to 1")
    is_one_rank = _shards(subject) or (dist.is_available() and dist.is_initialized())
    if subject.target.is_object and is_one_rank:
        raise NotTested("the loader in hand is that of one rank: give its name, 'pkg.mod:factory'")
    if asked and asked % group:
        raise NotTested(f"{asked} ranks do not divide into groups of {group}, as the contract's same_batches says")
    if asked:
        return min(asked, max(MOST_RANKS, group))
    if subject.target.runs_once and (is_one_rank or is_given(subject) or asks(subject)):
        raise NotTested(f"a script runs on ranks only if asked: --ranks {DEFAULT_RANKS}")
    if is_given(subject) or _shards(subject) or asks(subject):
        return max(group, min(DEFAULT_RANKS * group, MOST_RANKS // group * group))
    raise NotApplicable("the loader does not use ranks (--ranks 2 tests it with two)")


def ranks_per_group(subject: Subject) -> int:
    """How many ranks read the same batches, because they share one model."""
    group: int = subject.settings.contract.get("same_batches", 1)
    return group


def is_given(subject: Subject) -> bool:
    """Whether the settings request several ranks, or the factory takes `rank` or `world_size`."""
    requested = (subject.settings.ranks or 0) > 1 or ranks_per_group(subject) > 1
    return requested or subject.target.takes("rank", "world_size")


def asks(subject: Subject) -> Location | None:
    """Where the user's code reads its rank from torch.distributed or the environment, if it does."""
    return subject.asked_for_rank or subject.observe("asking", lambda folder: watch_for_asking(subject, folder))


def is_declared(subject: Subject) -> bool:
    """Whether the loader itself shards by rank, or the settings request several ranks.

    Code that reads its rank counts for a stream only: a trainer may add a distributed sampler to any other loader.
    """
    if subject.settings.ranks == 1:
        return False
    return is_given(subject) or _shards(subject) or bool(subject.facts.kind == "stream" and asks(subject))


def _shards(subject: Subject) -> bool:
    """Whether the sampler of the loader is one that gives each rank a share."""
    return "DistributedSampler" in subject.facts.sampler


def watch_for_asking(subject: Subject, folder: Path) -> Location | None:
    """Import the user's modules, build the loader and read its first batch; return where the rank is first read."""
    with rank_queries() as asked:
        if not subject.target.is_made_once:
            reimported(subject.target.spelling)
        build = partial(subject.build, num_workers=0)
        loader = build(schedule=lambda inner, batched: _FirstBatch(inner, batched=batched))
        drive(through_wrapper(loader), Plan(folder, (Records(),), keep_going=True), batches=(1,))
    return asked[0] if asked else None


_FIRST_SAMPLES = 2
"""Samples of a map-style dataset that are read."""


class _FirstBatch(Schedule):
    """The first batch, or the first indices, reduced to a few samples."""

    def __init__(self, inner: Any, *, batched: bool) -> None:
        super().__init__(inner)
        self.batched = batched

    def __iter__(self) -> Iterator[Any]:
        for entry in islice(drawn(self.inner), 1 if self.batched else _FIRST_SAMPLES):
            yield members(entry)[:_FIRST_SAMPLES] if self.batched else entry


COUNT_RUNS = 6
"""How often each process reads the stream, with other random numbers each time: a count that depends on them by chance
of a half is the same in all by odds of 1 in 32.

"""
SKIPPED_PER_RUN = 100
"""How many more numbers each run skips: of a few, all may be ones that `randrange` rejects."""
Run = tuple[int, bytes]
"""How many samples were read, and the digest of their sequence."""


def read_counts(build: Callable[..., Loader], folder: Path, workers: int) -> tuple[tuple[Run | None, ...], ...]:
    """What one process alone, and then each worker, reads in each run; None where reading fails.

    Global generators get another seed in each run, and those that are seeded with a constant skip some numbers.
    """
    loader, recorder = build(), FlightRecorder(folder)

    def read(run: int, worker: int | None) -> Run:
        watch, digest, count = SeedWatch(), xxh3_64(), 0
        torch.manual_seed(SEED + run)
        if worker is not None:
            emulate_worker(loader, recorder, workers, worker)
        with gate("sample"), seeded(SEED + run), watch.watching(SKIPPED_PER_RUN * run):
            stream: Any = loader.dataset
            for sample in stream:
                count += 1
                digest.update(b"".join(leaf.digest for leaf in leaves_of(sample)))
                recorder.mark(None, "sample")
        return count, digest.digest()

    return tuple(
        tuple(in_fork(partial(read, run, worker)) for run in range(COUNT_RUNS)) for worker in (None, *range(workers))
    )


def are_fixed(processes: tuple[tuple[Run | None, ...], ...]) -> bool:
    """Whether each process reads as many samples in every run, though never the same sequence."""
    return all(
        None not in runs
        and len({run[0] for run in runs if run}) == 1
        and len({run[1] for run in runs if run}) == COUNT_RUNS
        for runs in processes
    )
