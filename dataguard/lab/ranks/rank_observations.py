"""Observations of several ranks of one loader; see `Lab.ranks`.

Samples of ranks that are recognised by content, where each rank has a dataset of its own.

The same items drawn in the workers of several ranks, which exposes ranks that share RNG state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Any

from dataguard.core.incident import LoaderFailed
from dataguard.core.model import NotApplicable, NotTested, Undecided
from dataguard.lab.core.index_schedules import EveryWorkerReads as Schedule
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.records import WorkerEpoch
from dataguard.lab.randomness import worker_draws
from dataguard.lab.randomness.shared_draws import SharedDraws, confirm_suspects
from dataguard.lab.randomness.worker_draws import (
    DrawPlan,
    WorkerDraws,
    blame_library,
    compare_draws,
    read_same_items,
    run_same_items,
)
from dataguard.lab.ranks import shares
from dataguard.lab.ranks.rank_processes import Rank, rank_folder, run_ranks
from dataguard.lab.ranks.shares import SINGLE, Shards, Share, content_of, share_of
from dataguard.lab.reading.recorded_order import draw_epoch, recorder
from dataguard.lab.rng.frozen_rng import RngFreezer
from dataguard.lab.rng.rng_discovery import SEED, Pair
from dataguard.lab.spy.drive import Ride
from dataguard.lab.streams import stream_observations
from dataguard.lab.streams.stream_observations import Streams
from dataguard.lab.streams.stream_trace import Request, StreamTrace
from dataguard.lab.subject import Subject
from dataguard.stats.coincidence import Groups
from dataguard.targets.variants import Loader

Contents = Sequence[Sequence[tuple[bytes, ...]]]
"""The digests of each sample of an epoch, by batch."""


def run_contents(build: Callable[..., Loader], facts: LoaderFacts) -> Contents:
    """Draw one epoch and read its samples, with seeded generators; return the digests of each, by batch."""
    recorded, schedule = recorder(facts.length)
    loader = build(num_workers=0, schedule=schedule)
    draw_epoch(loader, recorded, 0)
    freezer = RngFreezer([[SEED]])
    return tuple(
        tuple(content_of(loader.dataset, index, freezer) for index in batch)
        for order in recorded
        for batch in order.batches
    )


def by_content(found: Shards, alone: Contents, ranks: Sequence[Contents]) -> Shards:
    """The shares with samples recognised by their content, which has to be that of one sample of a single process."""
    known = {content: number for number, content in enumerate(chain.from_iterable(alone))}
    if len(known) < sum(map(len, alone)) or not all(known.keys() >= set(chain.from_iterable(rank)) for rank in ranks):
        return found

    def named(share: Share, contents: Contents) -> Share:
        workers = len(share.by_worker)
        dealt = (chain.from_iterable(contents[worker::workers]) for worker in range(workers))
        return replace(share, by_worker=tuple(tuple(known[content] for content in worker) for worker in dealt))

    shares = tuple(map(named, found.ranks, ranks))
    return Shards(shares, named(found.alone, alone), same_dataset=True, of=SINGLE)


def run_contents_on_ranks(build: Callable[..., Loader], folder: Path, world: int, facts: LoaderFacts) -> list[Contents]:
    """Read the samples of one epoch on every rank."""
    return run_ranks(world, folder, lambda rank: run_contents(partial(build, rank.arguments), facts))


WORKERS = 2
"""Workers of each rank at most."""

ByWorker = Mapping[str, Mapping[tuple[int, int], Groups]]


class _Common(Schedule):
    """The first indices of the whole dataset instead of this rank's share, so that ranks read the same items."""

    def _flat(self) -> Iterator[Any]:
        own = list(islice(super()._flat(), self.items))
        whole = all(isinstance(index, int) for index in own)
        return iter(range(min(max(own, default=-1) + 1, self.items)) if whole else own)


def run_rank_items(
    build: Callable[..., Loader], folder: Path, shape: DrawPlan, workers: int, world: int
) -> list[list[Ride]]:
    """Run the schedule on all ranks at once; with 0 `workers` a rank reads in its main process."""

    def ride(rank: Rank) -> list[Ride]:
        build_here = partial(build, rank.arguments)
        own = build_here if workers else lambda **overrides: build_here(**{**overrides, "num_workers": 0})
        return run_same_items(own, rank.folder, _on_rank(shape, rank.number), _Common)

    return run_ranks(world, folder, ride)


def _on_rank(shape: DrawPlan, rank: int) -> DrawPlan:
    """What one rank is asked: a generator is advanced in a worker of one rank only."""
    if shape.asked.advance is None:
        return shape
    path, (number, epoch) = shape.asked.advance
    owner, worker = divmod(number, shape.workers)
    own = (path, WorkerEpoch(worker, epoch)) if owner == rank else None
    return replace(shape, asked=replace(shape.asked, advance=own))


def read_rank_items(folder: Path, rides: list[list[Ride]] | None, shape: DrawPlan) -> WorkerDraws:
    """The draws of all ranks; worker w of rank r has number `r * shape.workers + w`.

    Raises Undecided when the budget cut the pass short.
    """
    if rides is None:
        raise Undecided("the budget ran out while ranks drew the same items")
    parts = [read_same_items(rank_folder(folder, rank), ride, shape) for rank, ride in enumerate(rides)]
    return WorkerDraws(
        seeded=_side_by_side([part.seeded for part in parts], shape.workers),
        as_is=_side_by_side([part.as_is for part in parts], shape.workers),
        workers=len(parts) * shape.workers,
        items=shape.items,
        draws=shape.draws,
        shown=parts[0].shown,
        censuses=tuple(
            replace(census, worker=(census.worker or 0) + rank * shape.workers)
            for rank, part in enumerate(parts)
            for census in part.censuses
        ),
    )


def rank_pairs(world: int, draws: WorkerDraws) -> list[Pair]:
    """Each worker with every worker of later ranks, in the first epoch; pairs with equal worker ids first."""
    each = draws.workers // world
    pairs = combinations([WorkerEpoch(worker, 0) for worker in range(draws.workers)], 2)
    across = [(one, two) for one, two in pairs if one.worker // each != two.worker // each]
    return sorted(across, key=lambda pair: (pair[1].worker - pair[0].worker) % each != 0)


def _side_by_side(parts: list[ByWorker], workers: int) -> ByWorker:
    """For each leaf, the groups of every worker; workers are numbered rank by rank."""
    paths = {path: None for part in parts for path in part}
    return {
        path: {
            (worker + rank * workers, epoch): groups
            for rank, part in enumerate(parts)
            for (worker, epoch), groups in part.get(path, {}).items()
        }
        for path in paths
    }


MOST_READ = 2048
"""Epochs of more samples take too long to be recognised by the content of each."""


class Ranks:
    """What several DDP ranks do with one loader; reading an attribute makes the observation."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def world(self) -> int:
        """How many ranks to run. Raises NotApplicable if the loader is meant for one process only."""
        return stream_observations.world(self._subject)

    @property
    def declared(self) -> bool:
        """Whether the loader itself shards by rank, or the settings request several ranks."""
        return stream_observations.is_declared(self._subject)

    def _same_items(self, effort: int = 0, **asked: Any) -> worker_draws.WorkerDraws:
        """Like `Randomness.same_items`, in all ranks; the workers of rank 1 are numbered after those of rank 0."""
        subject, world = self._subject, self.world
        subject.need_map("the ranks of a stream may have to draw the same numbers, to shard consistently")
        workers = min(subject.facts.num_workers, 1 if subject.facts.spawns else WORKERS)
        request = worker_draws.Request(effort, workers, **asked)
        shape = replace(worker_draws.shape_of(subject, request), epochs=1)
        return subject.vary(
            ("same items on ranks", request, world),
            lambda folder: run_rank_items(subject.build, folder, shape, workers, world),
            lambda folder, rides: read_rank_items(folder, rides, shape),
        )

    def shared_draws(self) -> SharedDraws:
        """Whether workers of different ranks draw the same random numbers.

        Raises Undecided when coincidence cannot be excluded, or each rank has its own dataset.
        """
        world = self.world
        pairs = partial(rank_pairs, world)
        comparison = compare_draws(self._same_items, pairs, quick=worker_draws.is_quick(self._subject))
        draw, draws = self._same_items, comparison.draws
        repeat = confirm_suspects(draw, comparison, self._subject.facts) or blame_library(draw, pairs, comparison)
        if repeat is None and draws.varied and self.declared and not self._have_one_dataset:
            raise Undecided("each rank has its own dataset: no item can be drawn on several ranks and compared")
        exercised = {"draws": draws.draws, "items": draws.items, "workers": draws.workers, "ranks": world}
        return SharedDraws(exercised, repeat, draws.shown)

    @property
    def _have_one_dataset(self) -> bool:
        shards = self.shards()
        return bool(shards.same_dataset) and not shards.within

    def _look(
        self, key: object, run: Callable[[Path], Any], read: Callable[[Path, Any], Any], *, unbounded: bool = False
    ) -> Any:
        """Observe ranks. A loader that only reads its rank, and fails on several, is meant for one process."""
        try:
            return self._subject.vary(key, run, read, unbounded=unbounded)
        except Undecided as why:
            if stream_observations.is_given(self._subject) or not isinstance(why.__cause__, LoaderFailed):
                raise
            raise NotApplicable(
                f"made for one process: with several ranks it raises {why.__cause__.incident.headline}"
            ) from why

    def shards(self, *, same_seed: bool = False) -> Shards:
        """What each rank reads in one epoch. With `same_seed`, the global generators of all ranks get one seed."""
        world = self.world
        if not self.declared:
            raise NotTested("the factory takes no rank, but a trainer may shard it (--ranks 2 tests it)")
        return self._dealt(world, same_seed) if self._subject.facts.kind == "map" else self._streamed(world)

    def unread(self, epochs: int) -> tuple[tuple[frozenset[Hashable], ...], int]:
        """The indices that one process reads in each of several epochs and no rank does, and how many orders differ.

        For a map-style loader whose epoch is short enough to be drawn repeatedly.
        """
        subject, world = self._subject, self.world
        alone = subject.vary("epochs", lambda _: shares.run_epochs(subject.build, subject.facts, epochs))
        run = shares.run_epochs_on_ranks
        ranks: list[shares.DealtEpochs] = self._look(
            ("epochs on ranks", world),
            lambda folder: run(subject.build, folder, world, subject.facts, epochs),
            lambda _, dealt: dealt,
        )
        drawn = [frozenset[Hashable]().union(*(rank[epoch][0] for rank in ranks)) for epoch in range(epochs)]
        orders = {tuple(rank[epoch][1] for rank in ranks) for epoch in range(epochs)}
        return tuple(one[0] - found for one, found in zip(alone, drawn, strict=True)), len(orders)

    def stream(self, *, same_seed: bool = False, **asked: Any) -> StreamTrace:
        """What each rank of a stream yields, with ranks in place of workers; `asked` are arguments of `Request`."""
        return shares.side_by_side(self._streams(self.world, same_seed, **{"count": not asked["seeded"], **asked}))

    def _dealt(self, world: int, same_seed: bool) -> Shards:
        subject = self._subject
        build = partial(subject.build, same_seed=same_seed)
        alone = subject.vary("dealt", lambda _: shares.run_dealing(subject.build, subject.facts))
        ranks = self._look(
            ("dealt on ranks", world, same_seed),
            lambda folder: shares.run_dealing_on_ranks(build, folder, world, subject.facts),
            lambda _, dealt: dealt,
        )
        found = shares.shards_of(alone, ranks)
        return found if found.same_dataset else self._by_content(found, world, same_seed)

    def _by_content(self, found: Shards, world: int, same_seed: bool) -> Shards:
        """The shares of ranks with datasets of their own, whose samples may be those of a single process."""
        subject = self._subject
        build = partial(subject.build, same_seed=same_seed)
        if found.alone.total > MOST_READ or not subject.reads_take_little(2 * found.alone.total):
            return found
        alone = subject.vary("contents in one process", lambda _: run_contents(subject.build, subject.facts))
        run = run_contents_on_ranks
        ranks = self._look(
            ("contents on ranks", world, same_seed),
            lambda folder: run(build, folder, world, subject.facts),
            lambda _, contents: contents,
        )
        return by_content(found, alone, ranks)

    def _streamed(self, world: int) -> Shards:
        ranks = self._streams(world, seeded=False, count=True)
        alone = Streams(self._subject).shares(self.workers_per_rank, seeded=False)
        return Shards(
            tuple(share_of(trace, self.workers_per_rank) for trace in ranks), share_of(alone, self.workers_per_rank)
        )

    def _streams(self, world: int, same_seed: bool = False, **asked: Any) -> tuple[StreamTrace, ...]:
        subject = self._subject
        streams = Streams(subject)
        request = streams.whole_if_asked(Request(self.workers_per_rank, key=subject.settings.key, **asked))
        samples, seconds = subject.facts.stream_sample_count(subject.settings.samples), streams.seconds_of(request)
        build = partial(subject.build, same_seed=same_seed)
        found: tuple[StreamTrace, ...] = self._look(
            ("streamed on ranks", request, world, same_seed),
            lambda folder: shares.run_streams_on_ranks(build, folder, request, world, samples, seconds),
            lambda folder, drives: shares.read_streams_on_ranks(folder, drives, request.depth),
            unbounded=request.whole,
        )
        return found

    @property
    def workers_per_rank(self) -> int:
        """The workers of each rank; only one if they are spawned, because each takes seconds to start."""
        facts = self._subject.facts
        return min(facts.num_workers, 1 if facts.spawns else worker_draws.MOST_WORKERS.get(facts.start_method, 2))
