"""Observations of several ranks of one loader; see `Lab.ranks`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dataguard.incident import LoaderFailed
from dataguard.lab.randomness import same_items
from dataguard.lab.randomness.repeated_draws import blame_library, compare_draws
from dataguard.lab.randomness.shared_draws import SharedDraws, confirm_suspects
from dataguard.lab.ranks import own_datasets, same_items_ranks, shares
from dataguard.lab.ranks.shares import Shards, share_of
from dataguard.lab.streams import rank_awareness
from dataguard.lab.streams.observations import Streams
from dataguard.lab.streams.stream_trace import Request, StreamTrace
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable, NotTested, Undecided

MOST_READ = 2048
"""Epochs of more samples take too long to be recognised by the content of each."""


class Ranks:
    """What several DDP ranks do with one loader; reading an attribute makes the observation."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def world(self) -> int:
        """How many ranks to run. Raises NotApplicable if the loader is meant for one process only."""
        return rank_awareness.world(self._subject)

    @property
    def declared(self) -> bool:
        """Whether the loader itself shards by rank, or the settings request several ranks."""
        return rank_awareness.is_declared(self._subject)

    def _same_items(self, effort: int = 0, **asked: Any) -> same_items.SameItems:
        """Like `Randomness.same_items`, in all ranks; the workers of rank 1 are numbered after those of rank 0."""
        subject, world = self._subject, self.world
        subject.need_map("the ranks of a stream may have to draw the same numbers, to shard consistently")
        workers = min(subject.facts.num_workers, 1 if subject.facts.spawns else same_items_ranks.WORKERS)
        request = same_items.Request(effort, workers, **asked)
        shape = replace(same_items.shape_of(subject, request), epochs=1)
        return subject.vary(
            ("same items on ranks", request, world),
            lambda folder: same_items_ranks.run_rank_items(subject.build, folder, shape, workers, world),
            lambda folder, rides: same_items_ranks.read_rank_items(folder, rides, shape),
        )

    def shared_draws(self) -> SharedDraws:
        """Whether workers of different ranks draw the same random numbers.

        Raises Undecided when coincidence cannot be excluded, or each rank has its own dataset.
        """
        world = self.world
        pairs = partial(same_items_ranks.rank_pairs, world)
        comparison = compare_draws(self._same_items, pairs, quick=same_items.is_quick(self._subject))
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
            if rank_awareness.is_given(self._subject) or not isinstance(why.__cause__, LoaderFailed):
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
        alone = subject.vary(
            "contents in one process", lambda _: own_datasets.run_contents(subject.build, subject.facts)
        )
        run = own_datasets.run_contents_on_ranks
        ranks = self._look(
            ("contents on ranks", world, same_seed),
            lambda folder: run(build, folder, world, subject.facts),
            lambda _, contents: contents,
        )
        return own_datasets.by_content(found, alone, ranks)

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
        return min(facts.num_workers, 1 if facts.spawns else same_items.MOST_WORKERS.get(facts.start_method, 2))
