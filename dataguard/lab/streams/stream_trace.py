"""What a stream yields, worker by worker: what a check requests, how it is run, and the trace that comes of it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from dataguard.core.model import Undecided
from dataguard.lab.core.instrument import Instrument
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.records import Census, SampleRecord
from dataguard.lab.process.incidents import read_spools
from dataguard.lab.provenance.source_records import SourceRecords
from dataguard.lab.rng.frozen_rng import AdvancedRng, FrozenRngs, SeededSamples
from dataguard.lab.rng.rng_discovery import SEED, RngCensus
from dataguard.lab.spy.drive import EpochRun, drive
from dataguard.lab.spy.recording import Records
from dataguard.lab.spy.sample_ledger import EVERY_SAMPLE, Account, LedgerResolution, identity_of, read_ledgers
from dataguard.lab.spy.worker_spy import Plan
from dataguard.targets.discovery import iterated
from dataguard.targets.variants import Loader

Identity = int
"""The identity of a sample, or of one leaf: 8 bytes of a digest of its content, as a number."""

MOMENTS = (0, 1, 2, 3)
"""Fetches of an epoch after which generators are searched."""


COUNTED_PER_INSPECTED = 20
"""How many times more batches are counted than inspected: counting takes no digests."""
NAMED_SAMPLES = 1000
"""Samples of each process whose names are kept: a report names a few of them."""
RECOGNISED_SHARE = 0.5
"""The share of distinct values above which a leaf identifies samples."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a check requests: what a stream yields with so many workers.

    With `seeded`, the global generators get the same seed before each sample, so that random augmentation does not hide
    its identity; with `rows`, each row of a sample that is a batch counts as one; with `frozen`, every generator that
    can be found gets the seed before each fetch. `advance` is the path of a generator that is advanced after the first
    batch. `persistent` and the start `method` are the user's own if None. `announce` calls `set_epoch`; `twice` reads
    the second epoch as far as the first. `key` names the user's function that identifies samples. `count` also counts
    batches that are not inspected. `whole` reads the stream to its end, if it has one, and `depth` is how much of each
    sample is kept. With `sources`, what a sample is read from identifies it, unless a `key` does. Of one that `begins`
    only, as many batches are read as show generators. Requests that differ only in `run` are repeats.
    """

    num_workers: int
    seeded: bool
    rows: bool = False
    shingles: bool = False
    sources: bool = False
    frozen: bool = False
    advance: str | None = None
    persistent: bool | None = None
    method: str | None = None
    announce: bool = True
    twice: bool = False
    key: str | None = None
    count: bool = False
    whole: bool = False
    begins: bool = False
    depth: LedgerResolution = EVERY_SAMPLE
    run: int = 0

    def plan(self, folder: Path, most: int) -> Plan:
        """The plan of the spy, which inspects at most so many samples in each process."""
        instruments: list[Instrument] = [] if self.frozen else [RngCensus(MOMENTS)]
        if self.advance:
            instruments.append(AdvancedRng(self.advance))
        if self.frozen:
            instruments.append(FrozenRngs(((SEED,),)))
        elif self.seeded:
            instruments.append(SeededSamples(SEED))
        if self.sources and not self.key:
            instruments.append(SourceRecords(keep=NAMED_SAMPLES, ledger=self.depth))
        else:
            instruments.append(
                Records(key=self.key, keep=NAMED_SAMPLES, ledger=self.depth, rows=self.rows, shingles=self.shingles)
            )
        limit = most if self.count and not self.whole else None
        return Plan(folder, tuple(instruments), most=limit, keep_going=True, announce=self.announce)

    @property
    def overrides(self) -> dict[str, Any]:
        """The loader arguments that replace the user's."""
        other = {"persistent_workers": self.persistent, "multiprocessing_context": self.method}
        return {"num_workers": self.num_workers, **{name: value for name, value in other.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class StreamRun:
    """The epochs of a stream as the main process saw them.

    `workers` is how many were requested, and `planned` is `len(loader)`, if it has one; at most `most` samples of each
    process were inspected.
    """

    epoch_runs: tuple[EpochRun, ...]
    workers: int
    planned: int | None
    most: int

    def beyond(self, yielded: Iterable[int]) -> bool:
        """Whether any process yielded as many samples as were inspected, or more."""
        return any(samples >= self.most for samples in yielded)


@dataclass(frozen=True, slots=True)
class StreamTrace:
    """The identities of the samples that each process yielded, in order; `ended`: these are all of them.

    `leaves` holds the same for each leaf, by its path. Of a large stream only one identity in 2 to the power of `level`
    is kept, the same ones in every process, and `yielded` is how many samples each process yielded. `censuses` list the
    generators in each worker after some fetches of two epochs; `again` is the start of the second one in each process.
    `batches` counts those of each epoch. `finished`: the first epoch was read to its end, although not all of it may
    have been inspected. `idle` are the worker ids that yielded nothing in it; `planned` is `len(loader)` there, if it
    has one; `names` show a leaf that identifies a sample. If ranks replace workers, `by_rank_worker` holds what each of
    their workers yielded.
    """

    by_worker: tuple[Sequence[Identity], ...]
    ended: bool
    leaves: Mapping[str, tuple[Sequence[Identity], ...]] = field(default_factory=dict)
    censuses: tuple[Census, ...] = ()
    again: tuple[Sequence[Identity], ...] = ()
    batches: tuple[int, ...] = ()
    idle: tuple[int, ...] = ()
    planned: int | None = None
    finished: bool = False
    names: Mapping[Identity, str] = field(default_factory=dict)
    by_rank_worker: tuple[Sequence[Identity], ...] = ()
    level: int = 0
    yielded: tuple[int, ...] = ()
    yielded_again: tuple[int, ...] = ()

    @property
    def samples(self) -> tuple[int, ...]:
        """How many samples each process yielded."""
        return self.yielded or tuple(map(len, self.by_worker))

    @property
    def total(self) -> int:
        """How many samples were yielded in total."""
        return sum(self.samples)

    def scaled(self, identities: int) -> int:
        """How many samples so many identities represent: an estimate if only some are kept."""
        return identities << self.level

    @property
    def counts(self) -> Counter[Identity]:
        """How often each sample was yielded."""
        return Counter(identity for ids in self.by_worker for identity in ids)

    @property
    def table(self) -> dict[str, int]:
        """How many samples each worker yielded, for reports."""
        numbers = [number for number in range(len(self.by_worker) + len(self.idle)) if number not in self.idle]
        yielded = {f"worker {number}": samples for number, samples in zip(numbers, self.samples, strict=True)}
        return yielded | {f"worker {number}": 0 for number in self.idle}

    def shown(self, position: int, identity: Identity) -> str:
        """The name in a report of the sample at this position of a single process."""
        name = self.names.get(identity)
        return f"sample {position} in a single process{f' ({name})' if name else ''}"

    def first_of(self, wanted: Container[Identity]) -> str | None:
        """The name in a report of the first wanted sample in the order of a single process."""
        order = enumerate(chain.from_iterable(self.by_worker))
        return next((self.shown(position, identity) for position, identity in order if identity in wanted), None)

    @property
    def second(self) -> StreamTrace:
        """The second epoch alone, without a following one."""
        return replace(
            self,
            by_worker=self.again,
            leaves={},
            again=(),
            batches=self.batches[1:],
            yielded=self.yielded_again,
            yielded_again=(),
        )

    @property
    def distinct(self) -> float:
        """The share of samples that differ from all others."""
        return len(self.counts) / max(sum(map(len, self.by_worker)), 1)

    @property
    def known(self) -> float:
        """The share of samples whose sources are known, if the request was for these."""
        known = max((sum(map(len, ids)) for ids in self.leaves.values()), default=0)
        return known / max(sum(map(len, self.by_worker)), 1)

    @property
    def renewed(self) -> float:
        """The share of samples at the start of the second epoch that are nowhere in the first: random ones, if all."""
        first = set(self.counts)
        again = [identity for ids in self.again for identity in ids]
        return sum(identity not in first for identity in again) / max(len(again), 1)

    @property
    def paths(self) -> list[str]:
        """The paths of all leaves."""
        return list(self.leaves)

    @property
    def begins_differently(self) -> bool:
        """Whether any process begins the second epoch with other samples than the first."""
        pairs = zip(self.by_worker, self.again, strict=False)
        return any(first[: len(second)] != second[: len(first)] for first, second in pairs)

    @property
    def new_share(self) -> float:
        """The share of samples at the start of the second epoch that differ from the first epoch."""
        pairs = [pair for ids in zip(self.by_worker, self.again, strict=False) for pair in zip(*ids, strict=False)]
        return sum(first != second for first, second in pairs) / max(len(pairs), 1)

    def by_leaf(self, path: str) -> StreamTrace:
        """The same trace with samples identified by one leaf."""
        return StreamTrace(self.leaves.get(path, ((),) * len(self.by_worker)), self.ended, level=self.level)

    def same_samples(self, other: StreamTrace) -> bool:
        """Whether both yielded the same samples to the end, equally often, in any order."""
        return self.ended and other.ended and self.counts == other.counts

    def differing(self, other: StreamTrace) -> list[str]:
        """The leaves that differ between two runs, in any order of their samples.

        If the stream is longer than what was read, a leaf that identifies samples has to have the same order in both.
        Raises Undecided when there is none.
        """
        paths = dict.fromkeys((*self.paths, *other.paths))
        # A sample that is a single leaf has no path.
        pairs = {path: (self.by_leaf(path), other.by_leaf(path)) for path in paths} or {"": (self, other)}
        if self.ended and other.ended:
            return [path for path, (samples, others) in pairs.items() if not samples.same_samples(others)]
        same = [path for path, (samples, others) in pairs.items() if samples._begins_like(others)]
        if len(same) < len(pairs) and not any(pairs[path][0].distinct > RECOGNISED_SHARE for path in same):
            raise Undecided("the stream is longer than what was read, and its order may differ: raise --samples")
        return [path for path in pairs if path not in same]

    def _begins_like(self, other: StreamTrace) -> bool:
        """Whether each process yielded the same samples in the same order, up to the shorter trace."""
        pairs = list(zip(self.by_worker, other.by_worker, strict=False))
        return bool(pairs) and all(
            order[: len(other_order)] == other_order[: len(order)] for order, other_order in pairs
        )


def run_stream(
    build: Callable[..., Loader], folder: Path, request: Request, samples: int, seconds: float, *, again: bool = True
) -> StreamRun:
    """Iterate one epoch, of at most about `samples` samples from all workers; with `again`, also start a second."""
    loader = build(**request.overrides)
    processes = max(request.num_workers, 1)
    samples = 0 if request.begins else samples
    each = max(len(MOMENTS), -(-samples // (processes * (loader.batch_size or 1))))
    most = None if request.whole and not request.begins else each * processes
    plan = request.plan(folder, each * (loader.batch_size or 1))
    second = (most if request.twice else len(MOMENTS) * processes,) if again else ()
    first = most * COUNTED_PER_INSPECTED if most and request.count else most
    epoch_runs = drive(loader, plan, batches=(first, *second), seconds=seconds)
    return StreamRun(tuple(epoch_runs), request.num_workers, length_of(iterated(loader)), plan.most or sys.maxsize)


def read_stream(folder: Path, answer: StreamRun | None, depth: LedgerResolution) -> StreamTrace:
    """Build the trace from the files of all processes."""
    first, second = (read_ledgers(folder, epoch) for epoch in (0, 1))
    epoch_runs = answer.epoch_runs if answer else ()
    yielded, again = (tuple(account.samples for account in accounts.values()) for accounts in (first, second))
    censuses, names = [], {}
    for record in read_spools(folder):
        if isinstance(record, Census):
            censuses.append(record)
        elif isinstance(record, SampleRecord) and record.name:
            names[identity_of(record)] = record.name
    return StreamTrace(
        by_worker=tuple(account.identities for account in first.values()),
        ended=bool(epoch_runs) and epoch_runs[0].ended and not (answer and answer.beyond(yielded)),
        leaves=_by_leaf(list(first.values())),
        censuses=tuple(censuses),
        again=tuple(account.identities for account in second.values()),
        batches=tuple(epoch_run.batches for epoch_run in epoch_runs),
        finished=bool(epoch_runs) and epoch_runs[0].ended,
        idle=tuple(number for number in range(answer.workers if answer else 0) if number not in first),
        planned=answer.planned if answer else None,
        names=names,
        level=depth.level,
        yielded=yielded,
        yielded_again=again,
    )


def _by_leaf(accounts: Sequence[Account]) -> dict[str, tuple[Sequence[Identity], ...]]:
    paths = dict.fromkeys(path for account in accounts for path in account.paths)
    return {path: tuple(account.columns.get(path, ()) for account in accounts) for path in paths}
