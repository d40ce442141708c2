"""The shares of several DDP ranks and their workers, and what a single process reads."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from torch.utils.data import Subset

from dataguard.core.model import Undecided
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import leaves_of, rows_of
from dataguard.lab.core.loader_facts import LoaderFacts, length_of
from dataguard.lab.core.records import plain_index
from dataguard.lab.provenance.reads_seen import ReadLog
from dataguard.lab.ranks.rank_processes import Rank, rank_folder, run_ranks
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.recorded_order import draw_epoch, recorder
from dataguard.lab.rng.frozen_rng import RngFreezer, SeededSamples
from dataguard.lab.rng.rng_discovery import SEED
from dataguard.lab.spy.drive import watch
from dataguard.lab.spy.sample_ledger import LedgerResolution
from dataguard.lab.spy.worker_spy import Plan
from dataguard.lab.streams.orders import PROBED_SAMPLES
from dataguard.lab.streams.stream_trace import Request, StreamRun, StreamTrace, read_stream, run_stream
from dataguard.targets.discovery import iterated
from dataguard.targets.variants import Loader, unwrapped

SINGLE = "the epoch of a single process"
Numbers = frozenset[tuple[str, int]]
"""Whole numbers among the attributes of what is iterated to read a loader, with their names."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one rank reads in one epoch.

    `by_worker` holds the identities of each worker's samples in order: indices of a map-style dataset, content digests
    of a stream. `batches` were yielded, `planned` is `len(loader)` there, if it has one; `ended`: all samples
    were inspected, and `finished`: all batches were counted. `sizes` are those of the batches that a sampler planned.
    """

    by_worker: tuple[Sequence[Hashable], ...]
    batches: int
    ended: bool
    planned: int | None = None
    finished: bool = True
    yielded: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def samples(self) -> tuple[int, ...]:
        """How many samples each worker yielded."""
        return self.yielded or tuple(map(len, self.by_worker))

    @property
    def total(self) -> int:
        """How many samples were yielded."""
        return sum(self.samples)

    @property
    def counts(self) -> Counter[Hashable]:
        """How often each sample was yielded."""
        return Counter(identity for ids in self.by_worker for identity in ids)

    def equals(self, other: Share) -> bool:
        """Whether both have the same batches in the same order, as far as both were read."""
        if (self.batches, self.sizes) != (other.batches, other.sizes) and self.finished and other.finished:
            return False
        workers = zip(self.by_worker, other.by_worker, strict=True)
        return all(one == two for worker in workers for one, two in zip(*worker, strict=False))

    @property
    def empty_workers(self) -> tuple[int, ...]:
        """The ids of the workers that read nothing."""
        return tuple(number for number, ids in enumerate(self.by_worker) if not ids)


@dataclass(frozen=True, slots=True)
class Shards:
    """The share of each rank, and what a single process reads with the same number of workers.

    `same_dataset`: an index of a map-style dataset gives the same sample on every rank; None for streams. `of` is the
    dataset whose indices are given: what torch's `Subset` wraps where each rank has a subset of its own. It is
    `SINGLE` where ranks have datasets of their own, and their samples are recognised by content; and where one rank
    reads for all, and samples are the rows of batches that ranks `received`. `counter` is the attribute in which what
    is iterated holds how many samples of the last step, on all ranks, are not repeated ones.
    """

    ranks: tuple[Share, ...]
    alone: Share
    same_dataset: bool | None = None
    of: str = "dataset"
    received: bool = False
    counter: str | None = None

    @property
    def covering(self) -> Shards:
        """The same, as if a single process read each sample once that some rank reads."""
        return replace(self, alone=Share((tuple(self.combined),), 0, ended=True))

    def of_groups(self, size: int) -> Shards:
        """The share of each group of so many consecutive ranks, which read the same batches: that of its first."""
        return self if size == 1 else replace(self, ranks=self.ranks[::size])

    def split_group(self, size: int) -> tuple[int, int] | None:
        """The first rank of such a group and one that does not read the same batches in the same order."""
        if self.same_dataset is False:  # an index of one rank says nothing about another rank
            return None
        pairs = ((number - number % size, number) for number in range(len(self.ranks)))
        return next((pair for pair in pairs if not self.ranks[pair[0]].equals(self.ranks[pair[1]])), None)

    @property
    def within(self) -> str:
        """What to add to an index that is not one of the loader's own dataset, for messages."""
        return "" if self.of == "dataset" else f" of {self.of}"

    @property
    def own_datasets(self) -> bool:
        """Whether ranks have datasets of their own, whose samples are recognised by content."""
        return self.of == SINGLE and not self.received

    @property
    def differ(self) -> bool:
        """Whether ranks have other samples than each other, or datasets of their own."""
        return not self.same_dataset or any(share.counts != self.ranks[0].counts for share in self.ranks)

    @property
    def combined(self) -> Counter[Hashable]:
        """How often all ranks together yielded each sample."""
        return sum((share.counts for share in self.ranks), Counter())

    @property
    def table(self) -> dict[str, str]:
        """For each rank, how many samples each worker read, and how many of them another rank read as well."""
        return {f"rank {number}": self._row(number) for number in range(len(self.ranks))}

    def _row(self, number: int) -> str:
        share = self.ranks[number]
        others = (other for position, other in enumerate(self.ranks) if position != number)
        elsewhere = {identity for other in others for identity in other.counts}
        twice = sum(count for identity, count in share.counts.items() if identity in elsewhere)
        workers = " + ".join(map(str, share.samples))
        return f"{workers} ({twice} also read by other ranks)" if twice else workers


@dataclass(frozen=True, slots=True)
class DealtIndices:
    """What the sampler of one process yields in an epoch: batches of plain indices, and some samples' digests.

    `whole`: it was drawn to its end; `planned` is how many batches it announces. `wrapped`: the same by the indices of
    the dataset that torch's `Subset` wraps. `replicas` are the ranks between which a sampler says that it divides them.
    `held` are the whole numbers that what is iterated holds since then.
    """

    batches: tuple[tuple[Hashable, ...], ...]
    workers: int
    whole: bool
    length: int | None
    planned: int | None
    probes: tuple[tuple[int, tuple[bytes, ...]], ...]
    wrapped: DealtIndices | None = None
    replicas: int | None = None
    held: Numbers = frozenset()

    @property
    def share(self) -> Share:
        """The indices by worker: torch sends batch k to worker k modulo their number."""
        workers = max(self.workers, 1)
        dealt = (self.batches[worker::workers] for worker in range(workers))
        by_worker = tuple(tuple(index for batch in batches for index in batch) for batches in dealt)
        return Share(by_worker, len(self.batches), self.whole, self.planned, sizes=tuple(map(len, self.batches)))


def draw_shares(build: Callable[..., Loader], facts: LoaderFacts) -> DealtIndices:
    """Draw one epoch of indices without reading the samples, except a few with seeded generators."""
    recorded, schedule = recorder(facts.length)
    loader = build(num_workers=0, schedule=schedule)
    before = _whole_numbers(loader)
    draw_epoch(loader, recorded, 0)
    held = _set_since(before, loader)
    batches = tuple(tuple(map(plain_index, batch)) for order in recorded for batch in order.batches)
    if any(index is None for batch in batches for index in batch):
        raise Undecided("the sampler yields custom index objects, which cannot be compared between ranks")
    planned = sum(length_of(order.inner) or 0 for order in recorded)
    whole = all(order.whole for order in recorded)
    dealt = _dealt(loader.dataset, batches, facts.num_workers, whole, planned or None)
    samplers = (getattr(order.inner, "sampler", order.inner) for order in recorded)
    replicas = {getattr(unwrapped(sampler), "num_replicas", None) for sampler in samplers}
    return replace(dealt, replicas=replicas.pop() if len(replicas) == 1 else None, held=held)


def _whole_numbers(loader: Loader) -> Numbers:
    held = getattr(iterated(loader), "__dict__", {})
    return frozenset((name, value) for name, value in held.items() if type(value) is int)


def _set_since(before: Numbers, loader: Loader) -> Numbers:
    """The numbers that were set since then, without those that count epochs or batches."""
    return _whole_numbers(loader) - before - {(name, value + 1) for name, value in before}


def counter_of(held: Sequence[Numbers], total: int, step: int) -> str | None:
    """The attribute that holds on each rank how many of `total` samples remain for the last of equal steps.

    Only numbers are `held` that were set as the epoch began or later: a batch size is none of them.
    """
    rest = total % step if step else 0
    return min((name for name, value in frozenset.intersection(*held) if value == rest), default=None) if rest else None


def _dealt(
    dataset: Any, batches: tuple[tuple[Any, ...], ...], workers: int, whole: bool, planned: int | None
) -> DealtIndices:
    length = length_of(dataset)
    chosen = [] if length is None or not _numbers(batches) else evenly(range(length), PROBED_SAMPLES)
    freezer = RngFreezer([[SEED]])  # all ranks give one seed to every generator, also to those that the system seeded
    probes = tuple((index, content_of(dataset, index, freezer)) for index in chosen)
    wrapped = None
    if type(dataset) is Subset and chosen:
        inner = dict(enumerate(map(plain_index, dataset.indices)))
        through = tuple(tuple(inner.get(index) for index in batch) for batch in batches)
        if not any(None in batch for batch in through):
            wrapped = _dealt(dataset.dataset, through, workers, whole, planned)
    return DealtIndices(batches, workers, whole, length, planned, probes, wrapped)


def content_of(dataset: Any, index: Any, freezer: RngFreezer) -> tuple[bytes, ...]:
    """The digests of a sample's leaves."""
    with gate("sample"), freezer.frozen(0, 0, {"dataset": dataset}):
        return tuple(leaf.digest for leaf in leaves_of(dataset[index]))


@dataclass(frozen=True, slots=True)
class Received:
    """The digests of the rows in each batch of an epoch; see `DealtIndices` for `held`."""

    batches: tuple[tuple[bytes, ...], ...] = ()
    held: Numbers = frozenset()

    @property
    def rows(self) -> list[bytes]:
        """The digests of all rows."""
        return list(chain.from_iterable(self.batches))


def receive(build: Callable[..., Loader], folder: Path, most: int = sys.maxsize) -> Received:
    """Iterate one epoch with seeded samples, or as many batches as hold `most` rows, and return what arrives."""
    loader = build(num_workers=0)
    watch(loader, Plan(folder, (SeededSamples(SEED),), carry=True))
    before = _whole_numbers(loader)
    batches: list[tuple[bytes, ...]] = []
    with gate("iterate"):
        for batch in iterated(loader):
            batches.append(rows_of(batch))
            if sum(map(len, batches)) >= most:
                break
    return Received(tuple(batches), _set_since(before, loader))


def received_shards(single: Received, ranks: Sequence[Received]) -> Shards:
    """The shares of ranks that receive what one of them reads. Raises Undecided if rows have no equal in one process.

    So it is with rows that are alike, or that are padded to the longest of other batches.
    """
    numbers = {row: number for number, row in enumerate(single.rows)}
    if len(numbers) < len(single.rows) or not all(numbers.keys() >= {*rank.rows} for rank in ranks):
        raise Undecided("one rank reads for all, and what the others receive is not recognised")

    def share(received: Received) -> Share:
        return Share((tuple(numbers[row] for row in received.rows),), len(received.batches), ended=True)

    step = sum(len(rank.batches[0]) for rank in ranks if rank.batches)
    counter = counter_of([rank.held for rank in ranks], len(numbers), step)
    return Shards(tuple(map(share, ranks)), share(single), True, SINGLE, received=True, counter=counter)


@dataclass(frozen=True, slots=True)
class DatasetContent:
    """The digests of each sample of a dataset, and the files that it is read from and most others are not."""

    digests: tuple[tuple[bytes, ...], ...]
    files: tuple[tuple[str, ...], ...]


def dataset_contents(build: Callable[..., Loader], length: int) -> DatasetContent:
    """The content of a rank's dataset, at most `length` samples, with seeded generators."""
    dataset: Any = build(num_workers=0).dataset
    freezer, log = RngFreezer([[SEED]]), ReadLog()
    digests, files = [], []
    for index in range(min(length, len(dataset))):
        with log.files() as found:
            digests.append(content_of(dataset, index, freezer))
        files.append(found)
    times = Counter(file for found in files for file in found)
    own = (tuple(file for file in found if 2 * times[file] <= len(files)) for found in files)
    return DatasetContent(tuple(digests), tuple(own))


@dataclass(frozen=True, slots=True)
class RankOverlap:
    """How many samples `of` an evaluation of one rank another rank trains on, though the first rank does not.

    `first` is one of them: its rank and index, and those of the training sample. `files` are those that some of them
    are read from. `seeded`: they are shared with equal global generators on all ranks, too.
    """

    samples: int
    of: int
    first: tuple[tuple[int, int], tuple[int, int]]
    files: tuple[str, ...] = ()
    seeded: bool = True


NAMED_FILES = 8
"""Files of an overlap that are named."""


def overlap_of(training: Sequence[DatasetContent], evaluation: Sequence[DatasetContent]) -> RankOverlap | None:
    """The largest overlap of the evaluation of one rank with the training of another.

    Only samples count that are one of a kind in both: blank or repeated ones may be equal by chance.
    """
    trained, evaluated = ([_single(one.digests) for one in ranks] for ranks in (training, evaluation))
    found = []
    for rank, samples in enumerate(evaluated):
        for other, earlier in enumerate(trained):
            shared = [content for content in samples if content in earlier and content not in trained[rank]]
            if rank != other and shared:
                first = (rank, samples[shared[0]]), (other, earlier[shared[0]])
                files = dict.fromkeys(file for one in shared for file in evaluation[rank].files[samples[one]])
                of = len(evaluation[rank].digests)
                found.append(RankOverlap(len(shared), of, first, tuple(islice(files, NAMED_FILES))))
    return max(found, key=lambda overlap: overlap.samples, default=None)


def _single(contents: Sequence[tuple[bytes, ...]]) -> dict[tuple[bytes, ...], int]:
    """The index of each sample that is one of a kind, by its digests."""
    counts = Counter(contents)
    return {content: index for index, content in enumerate(contents) if counts[content] == 1}


def _numbers(batches: Sequence[Sequence[Hashable]]) -> bool:
    return all(isinstance(index, int) for batch in batches[:1] for index in batch)


DealtEpochs = tuple[tuple[frozenset[Hashable], int], ...]
"""For each of several epochs, the indices that a sampler yields, and a hash of their order."""


def draw_epochs(build: Callable[..., Loader], facts: LoaderFacts, epochs: int) -> DealtEpochs:
    """Draw several epochs of indices without reading the samples."""
    recorded, schedule = recorder(facts.length)
    loader = build(num_workers=0, schedule=schedule)
    epochs_drawn = []
    for epoch in range(epochs):
        draw_epoch(loader, recorded, epoch)
        batches = (batch for schedule in recorded for batch in schedule.batches)
        order = [plain_index(index) for batch in batches for index in batch]
        epochs_drawn.append((frozenset(order), hash(tuple(order))))
    return tuple(epochs_drawn)


def shards_of(single: DealtIndices, ranks: Sequence[DealtIndices], of: str = "dataset") -> Shards:
    """The shares of a map-style loader on all ranks."""
    same_dataset = have_one_dataset(ranks)
    wrapped = [dealt.wrapped for dealt in ranks if dealt.wrapped]
    if not same_dataset and single.wrapped and len(wrapped) == len(ranks):
        below = shards_of(single.wrapped, wrapped, f"{of}.dataset")
        if below.same_dataset:
            return below
    step = sum(len(dealt.batches[0]) for dealt in ranks if dealt.batches)
    counter = counter_of([dealt.held for dealt in ranks], single.share.total, step)
    return Shards(tuple(dealt.share for dealt in ranks), single.share, same_dataset, of, counter=counter)


def have_one_dataset(ranks: Sequence[DealtIndices]) -> bool:
    """Whether an index means the same sample on every rank."""
    probes = [dict(dealt.probes) for dealt in ranks]
    common = set.intersection(*map(set, probes))
    same_length = len({dealt.length for dealt in ranks}) == 1
    return same_length and all(len({rank_probes[index] for rank_probes in probes}) == 1 for index in common)


def run_streams_on_ranks(
    build: Callable[..., Loader],
    folder: Path,
    request: Request,
    world: int,
    samples: int,
    seconds: float,
    *,
    joined: bool,
) -> list[StreamRun]:
    """Read an epoch of the stream on all ranks at once; see `run_ranks` for `joined`."""

    def epoch_run(rank: Rank) -> StreamRun:
        build_here = partial(build, rank.arguments)
        return run_stream(build_here, rank.folder, request, samples, seconds, again=request.twice)

    return run_ranks(world, folder, epoch_run, joined=joined)


def read_streams_on_ranks(
    folder: Path, runs: Sequence[StreamRun] | None, depth: LedgerResolution
) -> tuple[StreamTrace, ...]:
    """What every rank yielded. Raises Undecided when the budget cut the pass short."""
    if runs is None:
        raise Undecided("the budget ran out while ranks read the stream")
    return tuple(read_stream(rank_folder(folder, number), stream_run, depth) for number, stream_run in enumerate(runs))


def share_of(trace: StreamTrace, workers: int) -> Share:
    """What one rank of a stream read, with an entry for each of its workers."""
    yielded = zip(trace.by_worker, trace.samples, strict=True)
    read = [((), 0) if number in trace.idle else next(yielded, ((), 0)) for number in range(max(workers, 1))]
    by_worker, samples = zip(*read, strict=True)
    batches = trace.batches[0] if trace.batches else 0
    return Share(by_worker, batches, trace.ended, trace.planned, trace.finished, samples)


def side_by_side(ranks: Sequence[StreamTrace]) -> StreamTrace:
    """What all ranks of a stream read, with ranks in place of workers."""
    paths = dict.fromkeys(path for trace in ranks for path in trace.leaves)
    return StreamTrace(
        by_worker=tuple(_joined(trace.by_worker) for trace in ranks),
        ended=all(trace.ended for trace in ranks),
        leaves={path: tuple(_joined(trace.leaves.get(path, ())) for trace in ranks) for path in paths},
        again=tuple(_joined(trace.again) for trace in ranks),
        names={identity: name for trace in ranks for identity, name in trace.names.items()},
        by_rank_worker=tuple(chain.from_iterable(trace.by_worker for trace in ranks)),
        level=ranks[0].level,
        yielded=tuple(sum(trace.samples) for trace in ranks),
        yielded_again=tuple(sum(trace.yielded_again) for trace in ranks),
    )


def _joined(parts: Sequence[Sequence[int]]) -> Sequence[int]:
    return array("Q", chain.from_iterable(parts))
