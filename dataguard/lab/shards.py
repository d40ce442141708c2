"""Who reads what: the shares of several real ranks and their workers, beside what one process reads alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from dataguard.lab.drive import Ride, announce_epoch
from dataguard.lab.leaves import leaves_of
from dataguard.lab.pins import PIN, pinned
from dataguard.lab.ranks import Rank, rank_folder, run_ranks
from dataguard.lab.records import SampleRecord, plain_index, read_spools
from dataguard.lab.schedules import MOST_BATCHES, evenly
from dataguard.lab.streams import Request, run_stream
from dataguard.model import Undecided
from dataguard.variants import Loader

PROBES = 6
"""How many samples of a map-style dataset are compared between ranks, to see whether an index means the same there."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one rank reads in one epoch.

    `by_worker` holds, worker by worker and in order, the identity of each sample: the index where the dataset is
    map-style, paths and digests of its leaves where it is a stream. `batches` came out; `ended` says that this was all.
    """

    by_worker: tuple[tuple[Hashable, ...], ...]
    batches: int
    ended: bool

    @property
    def total(self) -> int:
        """How many samples came out."""
        return sum(map(len, self.by_worker))

    @property
    def counts(self) -> Counter[Hashable]:
        """How often each sample came out."""
        return Counter(identity for ids in self.by_worker for identity in ids)

    @property
    def empty_workers(self) -> tuple[int, ...]:
        """The numbers of the workers that read nothing."""
        return tuple(number for number, ids in enumerate(self.by_worker) if not ids)


@dataclass(frozen=True, slots=True)
class Shards:
    """The share of each rank, and what one process reads alone, under the same number of workers.

    `length` is that of the map-style dataset as one process sees it, and `alike` tells that an index means the same
    sample on every rank; both are None for streams.
    """

    ranks: tuple[Share, ...]
    alone: Share
    alike: bool | None = None
    length: int | None = None

    @property
    def ended(self) -> bool:
        """Whether everything that any process reads was seen."""
        return self.alone.ended and all(share.ended for share in self.ranks)

    @property
    def together(self) -> Counter[Hashable]:
        """How often each sample came out of all ranks together."""
        return sum((share.counts for share in self.ranks), Counter())

    @property
    def table(self) -> dict[str, str]:
        """Rank by rank, how many samples each worker read: what a reader of a report sees first."""
        return {
            f"rank {number}": " + ".join(str(len(ids)) for ids in share.by_worker) or "0"
            for number, share in enumerate(self.ranks)
        }


@dataclass(frozen=True, slots=True)
class Dealt:
    """What the sampler of one process deals out in an epoch: batches of plain indices, and some samples' digests."""

    batches: tuple[tuple[Hashable, ...], ...]
    workers: int
    length: int | None
    probes: tuple[tuple[int, tuple[bytes, ...]], ...]

    @property
    def share(self) -> Share:
        """By worker: torch hands batch k to worker k modulo their number."""
        seats = max(self.workers, 1)
        dealt = (self.batches[worker::seats] for worker in range(seats))
        by_worker = tuple(tuple(index for batch in batches for index in batch) for batches in dealt)
        return Share(by_worker, len(self.batches), len(self.batches) < MOST_BATCHES)


def run_dealing(loader: Loader) -> Dealt:
    """Draw one epoch of indices without reading the samples, but for a few under pinned generators."""
    announce_epoch(loader, 0)
    order: Any = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    drawn = islice(iter(order), MOST_BATCHES)
    batches = tuple(map(tuple, drawn)) if loader.batch_sampler is not None else tuple((index,) for index in drawn)
    dataset: Any = loader.dataset
    length = len(dataset) if hasattr(dataset, "__len__") else None
    plain = tuple(tuple(map(plain_index, batch)) for batch in batches)
    if any(index is None for batch in plain for index in batch):
        raise Undecided("the sampler's indices are objects of its own, which cannot be compared between ranks")
    chosen = [] if length is None or not _numbers(plain) else evenly(range(length), PROBES)
    return Dealt(plain, loader.num_workers, length, tuple(_probed(dataset, chosen)))


def _numbers(batches: Sequence[Sequence[Hashable]]) -> bool:
    return all(isinstance(index, int) for batch in batches[:1] for index in batch)


def _probed(dataset: Any, indices: Sequence[int]) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    for index in indices:
        with pinned(PIN):
            yield index, tuple(leaf.digest for leaf in leaves_of(dataset[index]))


def run_dealing_on_ranks(build: Callable[..., Loader], folder: Path, world: int) -> list[Dealt]:
    """Let the sampler of every rank deal out one epoch."""
    return run_ranks(world, folder, lambda rank: run_dealing(build(rank.given)))


def shards_of(alone: Dealt, ranks: Sequence[Dealt]) -> Shards:
    """The shares of a map-style loader side by side."""
    probes = [dict(dealt.probes) for dealt in ranks]
    common = set.intersection(*map(set, probes))
    same_length = len({dealt.length for dealt in ranks}) == 1
    alike = same_length and all(len({own[index] for own in probes}) == 1 for index in common)
    return Shards(tuple(dealt.share for dealt in ranks), alone.share, alike, alone.length)


def run_streams_on_ranks(
    build: Callable[..., Loader], folder: Path, request: Request, world: int, samples: int, seconds: float
) -> list[Ride]:
    """Let every rank stream one epoch at once."""

    def ride(rank: Rank) -> Ride:
        build_here = partial(build, rank.given)
        return run_stream(build_here, rank.folder, request, samples, seconds, again=False)

    return run_ranks(world, folder, ride)


def read_streams_on_ranks(folder: Path, rides: Sequence[Ride] | None, workers: int) -> tuple[Share, ...]:
    """The share of every rank. Raises Undecided when the budget cut the pass short."""
    if rides is None:
        raise Undecided("the budget ran out while the ranks streamed: raise --budget")
    return tuple(_share(rank_folder(folder, number), ride, workers) for number, ride in enumerate(rides))


def _share(folder: Path, ride: Ride, workers: int) -> Share:
    by_worker: list[list[Hashable]] = [[] for _ in range(max(workers, 1))]
    for record in read_spools(folder):
        if isinstance(record, SampleRecord) and not record.epoch:
            by_worker[record.worker or 0].append(record.digest)
    return Share(tuple(map(tuple, by_worker)), ride.batches, ride.ended)
