"""Observations of several ranks of one loader: `Ranks`, see `Lab.ranks`.

Ranks draw the same items, which exposes those that share RNG state; and each draws an epoch, which shows their shares.
Where each rank has a dataset of its own, its samples are recognised by content.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from dataguard.core.incident import LoaderFailed
from dataguard.core.model import NotApplicable, NotTested, Undecided
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.records import WorkerEpoch
from dataguard.lab.randomness import worker_draws
from dataguard.lab.randomness.shared_draws import SharedDraws, confirm_suspects
from dataguard.lab.randomness.worker_draws import (
    DrawPlan,
    WorkerDraws,
    blame_library,
    compare_draws,
    draws_of,
)
from dataguard.lab.ranks import shares
from dataguard.lab.ranks.rank_processes import Rank, rank_folder, run_ranks
from dataguard.lab.ranks.shares import SINGLE, Shards, Share, content_of, share_of
from dataguard.lab.reading.experiment import Experiment, Readings, readings_of, run, seconds_of
from dataguard.lab.reading.recorded_order import draw_epoch, recorder
from dataguard.lab.rng.frozen_rng import RngFreezer
from dataguard.lab.rng.rng_discovery import SEED, Pair
from dataguard.lab.streams import stream_observations
from dataguard.lab.streams.stream_observations import Streams
from dataguard.lab.streams.stream_trace import Request, StreamTrace
from dataguard.lab.subject import Subject
from dataguard.stats.coincidence import Groups
from dataguard.targets.variants import Loader

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

    def shared_draws(self) -> SharedDraws:
        """Whether workers of different ranks draw the same random numbers.

        Raises Undecided when coincidence cannot be excluded, or each rank has its own dataset.
        """
        world = self.world
        draw, pairs = partial(find_rank_items, self._subject, world), partial(rank_pairs, world)
        comparison = compare_draws(draw, pairs, quick=worker_draws.is_quick(self._subject))
        draws = comparison.draws
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
            return self._subject.observe(key, run, read, unbounded=unbounded)
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
        alone = subject.observe("epochs", lambda _: shares.run_epochs(subject.build, subject.facts, epochs))
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
        alone = subject.observe("dealt", lambda _: shares.run_dealing(subject.build, subject.facts))
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
        alone = subject.observe("contents in one process", lambda _: run_contents(subject.build, subject.facts))
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


WORKERS = 2
"""Workers of each rank at most."""

ByWorker = Mapping[str, Mapping[tuple[int, int], Groups]]


def find_rank_items(subject: Subject, world: int, effort: int = 0, **asked: Any) -> WorkerDraws:
    """Like `find_same_items`, in all ranks at once: worker w of rank r has number r times the workers of a rank, + w.

    A rank without workers reads in its main process.
    """
    subject.need_map("the ranks of a stream may have to draw the same numbers, to shard consistently")
    workers = min(subject.facts.num_workers, 1 if subject.facts.spawns else WORKERS)
    shape = replace(worker_draws.shape_of(subject, worker_draws.Request(effort, workers, **asked)), epochs=1)
    experiments = [_on_rank(shape, number, workers) for number in range(world)]
    subject.afford(("ranks", experiments[0]), seconds_of(subject, experiments[0]))

    def run_each(folder: Path) -> list[bool]:
        def run_rank(rank: Rank) -> bool:
            return run(partial(subject.build, rank.arguments), experiments[rank.number], rank.folder)

        return run_ranks(world, folder, run_rank)

    def read_each(folder: Path, ended: list[bool] | None) -> list[Readings]:
        return [
            readings_of(experiment, rank_folder(folder, rank), ended[rank] if ended else None)
            for rank, experiment in enumerate(experiments)
        ]

    readings = subject.observe(("ranks", *experiments), run_each, read_each)
    return _side_by_side(shape, [draws_of(shape, read) for read in readings])


def _on_rank(shape: DrawPlan, rank: int, workers: int) -> Experiment:
    """What one rank reads: the first indices of the whole dataset, and not of its share, so that all read the same.

    A generator is advanced in a worker of one rank only.
    """
    if shape.asked.advance is not None:
        path, (number, epoch) = shape.asked.advance
        owner, worker = divmod(number, shape.workers)
        own = (path, WorkerEpoch(worker, epoch)) if owner == rank else None
        shape = replace(shape, asked=replace(shape.asked, advance=own))
    experiment = shape.experiment
    assert experiment.script is not None
    script = replace(experiment.script, share=True)
    return replace(experiment, script=script, changed=(*experiment.changed, ("num_workers", workers)))


def _side_by_side(shape: DrawPlan, ranks: Sequence[WorkerDraws]) -> WorkerDraws:
    """The draws of all ranks; workers are numbered rank by rank."""

    def merged(parts: Sequence[ByWorker]) -> ByWorker:
        return {
            path: {
                (worker + rank * shape.workers, epoch): groups
                for rank, part in enumerate(parts)
                for (worker, epoch), groups in part.get(path, {}).items()
            }
            for path in dict.fromkeys(chain.from_iterable(parts))
        }

    return WorkerDraws(
        seeded=merged([draws.seeded for draws in ranks]),
        as_is=merged([draws.as_is for draws in ranks]),
        workers=len(ranks) * shape.workers,
        items=shape.items,
        draws=shape.draws,
        shown=ranks[0].shown,
        censuses=tuple(
            replace(census, worker=(census.worker or 0) + rank * shape.workers)
            for rank, draws in enumerate(ranks)
            for census in draws.censuses
        ),
    )


def rank_pairs(world: int, draws: WorkerDraws) -> list[Pair]:
    """Each worker with every worker of later ranks, in the first epoch; pairs with equal worker ids first."""
    each = draws.workers // world
    pairs = combinations([WorkerEpoch(worker, 0) for worker in range(draws.workers)], 2)
    across = [(one, two) for one, two in pairs if one.worker // each != two.worker // each]
    return sorted(across, key=lambda pair: (pair[1].worker - pair[0].worker) % each != 0)


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
