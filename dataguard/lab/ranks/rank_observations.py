"""Observations of several ranks of one loader; see `Lab.ranks`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataguard.incident import LoaderFailed
from dataguard.lab.randomness import same_items
from dataguard.lab.ranks import rank_awareness, same_items_ranks, shares
from dataguard.lab.ranks.shares import Shards, share_of
from dataguard.lab.streams import stream_trace
from dataguard.lab.streams.stream_trace import StreamTrace
from dataguard.model import Location, NotApplicable, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

MOST = 4
"""How many ranks are run at most."""
DEFAULT = 2


class Ranks:
    """What several real ranks do with one loader; touching an observation makes it, as with `Lab`."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    @property
    def world(self) -> int:
        """How many ranks to look at: as many as the settings ask for, else two where the loader knows of ranks.

        Raises NotApplicable where one process is all that the loader knows of.
        """
        asked = self._lab.settings.ranks
        if asked == 1:
            raise NotApplicable("ranks is set to 1")
        if asked:
            return min(asked, MOST)
        if self.told or self.asking:
            return DEFAULT
        raise NotApplicable("the loader does not use ranks (--ranks 2 tests it with two)")

    @property
    def told(self) -> bool:
        """Whether the settings ask for several ranks, or the factory takes one."""
        lab = self._lab
        return (lab.settings.ranks or 0) > 1 or lab.target.takes("rank", "world_size")

    @property
    def asking(self) -> Location | None:
        """Where the user's code asks torch.distributed or the environment for its rank, if it does."""
        build = self._lab.build
        place: Location | None
        (place,) = self._lab.vary("asking", lambda folder: (rank_awareness.watch_for_asking(build, folder),), _as_it_is)
        return place

    def same_items(self, effort: int = 0, **asked: Any) -> same_items.SameItems:
        """Like `Lab.same_items`, in all ranks; the workers of rank 1 are counted on from those of rank 0, and so on."""
        lab, world = self._lab, self.world
        lab.need_map("the ranks of a stream may have to draw the same numbers, to shard consistently")
        seats = min(lab.facts.num_workers, 1 if lab.facts.spawns else same_items_ranks.WORKERS)
        request = same_items.Request(effort, seats, **asked)
        shape = replace(lab.shape(request), epochs=1)
        return lab.vary(
            ("same items on ranks", request, world),
            lambda folder: same_items_ranks.run_rank_items(lab.build, folder, shape, seats, world),
            lambda folder, rides: same_items_ranks.read_rank_items(folder, rides, shape),
        )

    @property
    def declared(self) -> bool:
        """Whether the loader is meant for several ranks as it stands, or is asked about them.

        Code that asks for its rank tells this of a stream only: a trainer may put a sampler for ranks into any other.
        """
        lab = self._lab
        if lab.settings.ranks == 1:
            return False
        return self.told or bool(lab.facts.kind == "stream" and self.asking)

    def _look(
        self, key: object, run: Callable[[Path], Any], read: Callable[[Path, Any], Any], *, whole: bool = False
    ) -> Any:
        """Observe ranks. A loader that only asks for its rank, and fails on several, is made for one process."""
        lab = self._lab
        try:
            return lab.vary(key, run, read, whole=whole)
        except Undecided as why:
            if self.told or not isinstance(why.__cause__, LoaderFailed):
                raise
            raise NotApplicable(
                f"the loader is made for a single process: on several ranks it raises {why.__cause__.incident.headline}"
            ) from why

    def shards(self, *, alike: bool = False) -> Shards:
        """What each rank reads in one epoch. With `alike`, the global generators of all ranks begin with one seed."""
        world = self.world
        if not self.declared:
            raise NotApplicable(
                "the factory takes no rank: a trainer may add a DistributedSampler (--ranks 2 tests it with two)"
            )
        return self._dealt(world, alike) if self._lab.facts.kind == "map" else self._streamed(world)

    def stream(self, *, alike: bool = False, **asked: Any) -> StreamTrace:
        """What each rank of a stream yields, as if ranks were workers; other arguments are those of `Lab.stream`."""
        return shares.side_by_side(self._streams(self.world, alike, **{"count": not asked["pin"], **asked}))

    def _dealt(self, world: int, alike: bool) -> Shards:
        lab = self._lab
        build = partial(lab.build, alike=alike)
        alone = lab.vary("dealt", lambda _: shares.run_dealing(lab.build, lab.facts), _as_it_is)
        ranks = self._look(
            ("dealt on ranks", world, alike),
            lambda folder: shares.run_dealing_on_ranks(build, folder, world, lab.facts),
            _as_it_is,
        )
        return shares.shards_of(alone, ranks)

    def _streamed(self, world: int) -> Shards:
        ranks = self._streams(world, pin=False, count=True)
        alone = self._lab.shares(self.seats, pin=False)
        return Shards(tuple(share_of(trace, self.seats) for trace in ranks), share_of(alone, self.seats))

    def _streams(self, world: int, alike: bool = False, **asked: Any) -> tuple[StreamTrace, ...]:
        lab = self._lab
        request = lab.whole_if_asked(stream_trace.Request(self.seats, key=lab.settings.key, **asked))
        samples, seconds = lab.facts.stretch(lab.settings.samples), lab.seconds_of(request)
        build = partial(lab.build, alike=alike)
        found: tuple[StreamTrace, ...] = self._look(
            ("streamed on ranks", request, world, alike),
            lambda folder: shares.run_streams_on_ranks(build, folder, request, world, samples, seconds),
            lambda folder, drives: shares.read_streams_on_ranks(folder, drives, request.depth),
            whole=request.whole,
        )
        return found

    @property
    def seats(self) -> int:
        """The workers of each rank; where they are spawned, which takes seconds for each, one has to do."""
        facts = self._lab.facts
        return min(facts.num_workers, 1 if facts.spawns else same_items.MOST_WORKERS.get(facts.start_method, 2))


def _as_it_is(_: Path, answer: Any) -> Any:
    """What an observation returned, where the budget let it; the spools tell nothing more."""
    if answer is None:
        raise Undecided("the budget ran out: raise --budget")
    return answer
