"""Observations of several ranks of one loader: `Ranks`, see `Lab.ranks`.

Ranks draw the same items, which exposes those that share RNG state; and each draws an epoch, which shows their shares.
Where each rank has a dataset of its own, its samples are recognised by content.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist

from dataguard.core.incident import LoaderFailed, is_library, observed_or_none
from dataguard.core.model import Location, NotApplicable, NotTested, Undecided
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.observation_cache import returned
from dataguard.lab.core.records import WorkerEpoch
from dataguard.lab.core.source_location import Place
from dataguard.lab.randomness import worker_draws
from dataguard.lab.randomness.generator_lines import seeds_the_same, with_rank_lines
from dataguard.lab.randomness.shared_draws import SharedDraws, confirm_suspects
from dataguard.lab.randomness.worker_draws import (
    WorkerDraws,
    blame_library,
    compare_draws,
    draws_of,
)
from dataguard.lab.ranks import shares
from dataguard.lab.ranks.rank_processes import Rank, rank_folder, run_ranks
from dataguard.lab.ranks.shares import SINGLE, DealtIndices, RankOverlap, Received, Shards, Share, content_of, share_of
from dataguard.lab.reading.experiment import Readings, readings_of, run, seconds_of
from dataguard.lab.reading.recorded_order import draw_epoch, recorder
from dataguard.lab.rng.frozen_rng import RngFreezer
from dataguard.lab.rng.rng_discovery import SEED, Pair
from dataguard.lab.rng.seed_watch import SeedWatch
from dataguard.lab.streams import stream_observations
from dataguard.lab.streams.stream_observations import Streams
from dataguard.lab.streams.stream_trace import Request, StreamTrace
from dataguard.lab.subject import Subject
from dataguard.targets.discovery import through_wrapper
from dataguard.targets.variants import Loader

T = TypeVar("T")

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
    def per_group(self) -> int:
        """How many consecutive ranks read the same batches, as the contract says: 1 if each has its own."""
        return stream_observations.ranks_per_group(self._subject)

    @property
    def declared(self) -> bool:
        """Whether the loader itself shards by rank, or the settings request several ranks."""
        if stream_observations.is_declared(self._subject):
            return not observed_or_none(self._are_fixed)
        return bool(observed_or_none(self._differ))

    def _are_fixed(self) -> bool:
        """Whether the samplers of a map-style loader divide their samples between one rank, whatever the group is."""
        return self._subject.facts.kind == "map" and all(dealt.replicas == 1 for dealt in self._indices(self.world))

    def _differ(self) -> bool:
        """Whether ranks of a map-style loader whose code asks for its rank read other samples than each other.

        The global generators of all ranks get one seed: a sampler that draws some samples by chance shards nothing.
        """
        subject = self._subject
        if subject.facts.kind != "map" or subject.target.is_made_once or subject.settings.ranks == 1:
            return False
        return stream_observations.asks(subject) is not None and self._dealt(self.world, same_seed=True).differ

    def shared_draws(self) -> SharedDraws:
        """Whether workers of different ranks draw the same random numbers.

        Raises Undecided when coincidence cannot be excluded, or each rank has its own dataset.
        """
        world = self.world
        if world == self.per_group:
            raise NotApplicable(f"{world} ranks read the same batches, as the contract says, with the same numbers")
        if self.hand_out:
            raise NotApplicable("one rank reads for all ranks")
        draw = partial(find_rank_items, self._subject, world)
        pairs = partial(rank_pairs, world, per_group=self.per_group)
        comparison = compare_draws(draw, pairs, often=worker_draws.draws_often(self._subject))
        draws = comparison.draws
        repeat = confirm_suspects(draw, comparison, self._subject.facts) or blame_library(draw, pairs, comparison)
        if repeat is None and draws.varied and self.declared and not self._have_one_dataset:
            raise Undecided("each rank has its own dataset: no item can be drawn on several ranks and compared")
        if repeat is not None:
            each = draws.workers // world
            if self._subject.target.is_object and not seeds_the_same(self._subject, repeat, each):
                raise NotTested("ranks are copies of the process that made the loader here, with its generators")
            repeat = with_rank_lines(self._subject, repeat, each)
        exercised = {"draws": draws.draws, "items": draws.items, "workers": draws.workers, "ranks": world}
        return SharedDraws(exercised, repeat, draws.shown)

    @property
    def _have_one_dataset(self) -> bool:
        shards = self.shards()
        return bool(shards.same_dataset) and not shards.within

    @property
    def _joined(self) -> bool:
        """Whether ranks are in their group before the loader is made: a script joins it itself."""
        return not self._subject.target.runs_once

    def _on_each(
        self, world: int, key: object, build: Callable[..., Loader], draw: Callable[[Callable[..., Loader]], T]
    ) -> list[T]:
        """What `draw` returns on each rank, called with what makes the rank's loader."""

        def run_all(folder: Path) -> list[T]:
            return run_ranks(world, folder, lambda rank: draw(partial(build, rank.arguments)), joined=self._joined)

        ranks: list[T] = self._observed((key, world), run_all)
        return ranks

    def _observed(
        self,
        key: object,
        run: Callable[[Path], Any],
        read: Callable[[Path, Any], Any] = returned,
        *,
        unbounded: bool = False,
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
        """What each rank reads in one epoch. With `same_seed`, the global generators of all ranks get one seed.

        Of several ranks that read the same batches, the first one counts, see `split_group`.
        """
        world = self.world
        if self._are_fixed():
            raise NotTested(f"num_replicas=1 is fixed, so each of {world} ranks would read all samples")
        if not stream_observations.is_declared(self._subject) and not self._differ():
            raise NotTested(f"each of {world} ranks reads all samples, but a trainer may shard them: --ranks {world}")
        self._require_groups()
        shards = self._of_each(world, same_seed).of_groups(self.per_group)
        holder, totals = self._subject.facts.holder, [share.total for share in shards.ranks]
        if holder and max(totals) == 0:
            raise Undecided(f"{holder} asks no rank for samples")
        return self._received(world, max(totals)) if holder and min(totals) == 0 else shards

    @property
    def seeded_apart(self) -> Location | None:
        """The line of the user's that gives each rank another seed while samples are dealt out (map-style only)."""
        subject = self._subject

        def seeds(rank: Rank) -> dict[Place, str]:
            recorded, schedule = recorder(subject.facts.length)
            watch = SeedWatch()
            with watch.watching(0) as given:
                loader = subject.build(rank.arguments, num_workers=0, schedule=schedule)
                draw_epoch(loader, recorded, 0)
            return {(one.file, one.line, one.function): one.seed for _, one in given if not is_library(one.file)}

        def on_ranks(folder: Path) -> list[dict[Place, str]]:
            return run_ranks(self.world, folder, seeds, joined=self._joined)

        first, *others = self._observed("seeds of ranks", on_ranks)
        place = next((at for at, seed in first.items() if all(other.get(at, seed) != seed for other in others)), None)
        return Location(*place) if place else None

    @property
    def hand_out(self) -> bool:
        """Whether training iterates a wrapper of this loader with which one rank reads for all."""
        return self._subject.facts.holder is not None and self.shards().received

    def _received(self, world: int, samples: int) -> Shards:
        """What each rank receives where one of them reads so many samples, for all."""
        subject, most = self._subject, MOST_READ
        self.need_single()
        subject.afford_reads("received on ranks", 2 * samples)

        def alone(folder: Path) -> Received:
            return shares.receive(lambda **others: through_wrapper(subject.build(**others)), folder, most)

        def on_ranks(folder: Path) -> list[Received]:
            def receive(rank: Rank) -> Received:
                return shares.receive(partial(subject.build, rank.arguments, wrapped=True), rank.folder)

            return run_ranks(world, folder, receive, joined=self._joined)

        single: Received = subject.observe("received in one process", alone) if samples < most else Received()
        if samples >= most or len(single.rows) >= most:
            raise NotTested(f"one rank reads for all, and an epoch has more than {most} samples")
        return shares.received_shards(single, self._observed(("received", world), on_ranks)).of_groups(self.per_group)

    def _of_each(self, world: int, same_seed: bool) -> Shards:
        is_map = self._subject.facts.kind == "map"
        return self._dealt(world, same_seed) if is_map else self._streamed(world, same_seed)

    def split_group(self) -> tuple[int, int] | None:
        """Two ranks that do not read the same batches although the contract says so; None if there are none.

        Raises Undecided if they do where the global generators of all ranks have one seed: a training script may well
        set it.
        """
        world, size = self.world, self.per_group
        pair = self._of_each(world, same_seed=False).split_group(size)
        if pair and not self._of_each(world, same_seed=True).split_group(size):
            raise Undecided(
                f"ranks {pair[0]} and {pair[1]} read the same batches only if their global RNGs have the same seed: "
                "seed the shuffle explicitly"
            )
        return pair

    def _require_groups(self) -> None:
        """Raise NotTested if ranks of one group read different batches, which DG202 reports."""
        if self.per_group > 1 and observed_or_none(lambda: self.split_group() is not None):
            raise NotTested("ranks that share a model read different batches: see DG202")

    def overlap_with(self, earlier: Subject) -> RankOverlap | None:
        """The samples of this split that another rank has in an earlier one; None if each rank has the same splits."""
        world, both = self.world, (Ranks(earlier), self)
        lengths = [ranks._subject.facts.length or 0 for ranks in both]
        if self._subject.target.is_object or max(lengths) > MOST_READ:
            return None
        if all(shares.have_one_dataset(ranks._indices(world)) for ranks in both):
            return None
        for ranks, length in zip(both, lengths, strict=True):
            ranks._subject.afford_reads("contents on ranks", 2 * length)
        training, evaluation = (ranks._contents(world) for ranks in both)
        overlap = shares.overlap_of(training, evaluation)
        if overlap is None:
            return None
        seeded = shares.overlap_of(*(ranks._contents(world, same_seed=True) for ranks in both))
        return replace(overlap, seeded=seeded is not None)

    def _contents(self, world: int, *, same_seed: bool = False) -> list[shares.DatasetContent]:
        read = partial(shares.dataset_contents, length=MOST_READ)
        build = partial(self._subject.build, same_seed=same_seed)
        return self._on_each(world, ("dataset contents", same_seed), build, read)

    def unread(self, epochs: int) -> tuple[tuple[frozenset[Hashable], ...], int]:
        """The indices that one process reads in each of several epochs and no rank does, and how many orders differ.

        For a map-style loader whose epoch is short enough to be drawn repeatedly.
        """
        subject, world = self._subject, self.world
        draw = partial(shares.draw_epochs, facts=subject.facts, epochs=epochs)
        single = subject.observe("epochs", lambda _: draw(subject.build))
        ranks = self._on_each(world, "epochs on ranks", partial(subject.build, wrapped=True), draw)
        drawn = [frozenset[Hashable]().union(*(rank[epoch][0] for rank in ranks)) for epoch in range(epochs)]
        orders = {tuple(rank[epoch][1] for rank in ranks) for epoch in range(epochs)}
        return tuple(indices - read for (indices, _), read in zip(single, drawn, strict=True)), len(orders)

    def stream(self, *, same_seed: bool = False, **asked: Any) -> StreamTrace:
        """What each rank of a stream yields, with ranks in place of workers; `asked` are arguments of `Request`."""
        self._require_groups()
        traces = self._streams(self.world, same_seed, **{"count": not asked["seeded"], **asked})
        return shares.side_by_side(traces[:: self.per_group])

    def need_single(self) -> None:
        """Raise NotTested if what a single process reads is unknown."""
        if self._is_always_one:
            raise NotTested("the script starts its ranks itself: what a single process reads is unknown")

    @property
    def _is_always_one(self) -> bool:
        """Whether the script starts its ranks itself, so that this process is one of them."""
        return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1

    def _dealt(self, world: int, same_seed: bool) -> Shards:
        subject = self._subject
        single = subject.observe("dealt", lambda _: shares.draw_shares(subject.build, subject.facts))
        shards = shares.shards_of(single, self._indices(world, same_seed))
        if self._is_always_one:
            return shards.covering
        return shards if shards.same_dataset else self._by_content(shards, world, same_seed)

    def _indices(self, world: int, same_seed: bool = False) -> list[DealtIndices]:
        """What the sampler of each rank yields."""
        draw = partial(shares.draw_shares, facts=self._subject.facts)
        build = partial(self._subject.build, same_seed=same_seed, wrapped=True)
        return self._on_each(world, ("dealt on ranks", same_seed), build, draw)

    def _by_content(self, shards: Shards, world: int, same_seed: bool) -> Shards:
        """The shares of ranks with datasets of their own, whose samples may be those of a single process."""
        subject = self._subject
        if shards.alone.total > MOST_READ or not subject.reads_take_little(2 * shards.alone.total):
            return shards
        read = partial(read_contents, facts=subject.facts)
        single = subject.observe("contents in one process", lambda _: read(subject.build))
        build = partial(subject.build, same_seed=same_seed)
        return by_content(shards, single, self._on_each(world, ("contents on ranks", same_seed), build, read))

    def _streamed(self, world: int, same_seed: bool) -> Shards:
        self.need_single()
        workers = self.workers_per_rank
        ranks = self._streams(world, same_seed, seeded=False, count=True)
        single = Streams(self._subject).shares(workers, seeded=False)
        return Shards(tuple(share_of(trace, workers) for trace in ranks), share_of(single, workers))

    def _streams(self, world: int, same_seed: bool = False, **asked: Any) -> tuple[StreamTrace, ...]:
        subject = self._subject
        streams = Streams(subject)
        request = streams.whole_if_asked(Request(self.workers_per_rank, key=subject.settings.key, **asked))
        samples, seconds = subject.facts.stream_sample_count(subject.settings.samples), streams.seconds_of(request)
        build = partial(subject.build, same_seed=same_seed, wrapped=True)
        traces: tuple[StreamTrace, ...] = self._observed(
            ("streamed on ranks", request, world, same_seed),
            lambda folder: shares.run_streams_on_ranks(
                build, folder, request, world, samples, seconds, joined=self._joined
            ),
            lambda folder, runs: shares.read_streams_on_ranks(folder, runs, request.depth),
            unbounded=request.whole,
        )
        return traces

    @property
    def workers_per_rank(self) -> int:
        """The workers of each rank; only one if they are spawned, because each takes seconds to start."""
        facts = self._subject.facts
        return min(facts.num_workers, 1 if facts.spawns else worker_draws.MOST_WORKERS.get(facts.start_method, 2))


WORKERS = 2
"""Workers of each rank at most."""


def find_rank_items(subject: Subject, world: int, effort: int = 0, **asked: Any) -> WorkerDraws:
    """Like `find_same_items`, in all ranks at once: worker w of rank r has number r times the workers of a rank, + w.

    A rank without workers reads in its main process.
    """
    subject.need_map("the ranks of a stream may have to draw the same numbers, to shard consistently")
    workers = min(subject.facts.num_workers, 1 if subject.facts.spawns else WORKERS)
    plan = replace(worker_draws.plan_of(subject, worker_draws.Request(effort, workers, **asked)), epochs=1)
    experiments = [worker_draws.of_run(plan, number, workers) for number in range(world)]
    subject.afford(("ranks", experiments[0]), seconds_of(subject, experiments[0]))

    def run_each(folder: Path) -> list[bool]:
        def run_rank(rank: Rank) -> bool:
            return run(partial(subject.build, rank.arguments), experiments[rank.number], rank.folder)

        return run_ranks(world, folder, run_rank, joined=not subject.target.runs_once)

    def read_each(folder: Path, ended: list[bool] | None) -> list[Readings]:
        return [
            readings_of(experiment, rank_folder(folder, rank), ended[rank] if ended else None)
            for rank, experiment in enumerate(experiments)
        ]

    readings = subject.observe(("ranks", *experiments), run_each, read_each)
    return worker_draws.side_by_side(plan, [draws_of(plan, read) for read in readings])


def rank_pairs(world: int, draws: WorkerDraws, *, per_group: int = 1) -> list[Pair]:
    """Each worker with every worker of later ranks, in the first epoch; pairs with equal worker ids first.

    Ranks of one group are to draw the same numbers.
    """
    each = draws.workers // world
    pairs = combinations([WorkerEpoch(worker, 0) for worker in range(draws.workers)], 2)
    own = each * per_group
    across = [(first, second) for first, second in pairs if first.worker // own != second.worker // own]
    return sorted(across, key=lambda pair: (pair[1].worker - pair[0].worker) % each != 0)


Contents = Sequence[Sequence[tuple[bytes, ...]]]
"""The digests of each sample of an epoch, by batch."""


def read_contents(build: Callable[..., Loader], facts: LoaderFacts) -> Contents:
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


def by_content(shards: Shards, single: Contents, ranks: Sequence[Contents]) -> Shards:
    """The shares with samples recognised by their content, which has to be that of one sample of a single process."""
    numbers = {content: number for number, content in enumerate(chain.from_iterable(single))}
    if len(numbers) < sum(map(len, single)) or not all(
        numbers.keys() >= set(chain.from_iterable(rank)) for rank in ranks
    ):
        return shards

    def named(share: Share, contents: Contents) -> Share:
        workers = len(share.by_worker)
        dealt = (chain.from_iterable(contents[worker::workers]) for worker in range(workers))
        return replace(share, by_worker=tuple(tuple(numbers[content] for content in worker) for worker in dealt))

    shares = tuple(map(named, shards.ranks, ranks))
    return Shards(shares, named(shards.alone, single), same_dataset=True, of=SINGLE)
