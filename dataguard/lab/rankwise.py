"""Observations of several ranks of one loader; see `Lab.ranks`."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataguard.lab import asking, rank_items, shards, streams, workers
from dataguard.lab.shards import Shards, Share
from dataguard.lab.streams import StreamTrace
from dataguard.model import Location, NotApplicable, Undecided

if TYPE_CHECKING:
    from dataguard.lab import Lab

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
            raise NotApplicable("one rank was asked for")
        if asked:
            return min(asked, MOST)
        if self._lab.target.takes("rank", "world_size") or self.asking:
            return DEFAULT
        raise NotApplicable("nothing here asks for its rank: one process is all it knows of (--ranks 2 tries two)")

    @property
    def asking(self) -> Location | None:
        """Where the user's code asks torch.distributed or the environment for its rank, if it does."""
        build = self._lab.build
        place: Location | None
        (place,) = self._lab.vary("asking", lambda folder: (asking.watch_for_asking(build, folder),), _as_it_is)
        return place

    def same_items(self, effort: int = 0, **asked: Any) -> workers.SameItems:
        """Like `Lab.same_items`, in all ranks; the workers of rank 1 are counted on from those of rank 0, and so on."""
        lab, world = self._lab, self.world
        lab.need_map("ranks of a stream may have to draw alike, to agree on who reads what")
        seats = min(lab.facts.num_workers, 1 if lab.facts.spawns else rank_items.WORKERS)
        request = workers.Request(effort, seats, **asked)
        shape = replace(lab.shape(request), epochs=1)
        return lab.vary(
            ("same items on ranks", request, world),
            lambda folder: rank_items.run_rank_items(lab.build, folder, shape, seats, world),
            lambda folder, rides: rank_items.read_rank_items(folder, rides, shape),
        )

    @property
    def declared(self) -> bool:
        """Whether the loader is meant for several ranks as it stands, or is asked about them.

        Code that asks for its rank tells this of a stream only: a trainer may put a sampler for ranks into any other.
        """
        lab = self._lab
        told = lab.settings.ranks or lab.target.takes("rank", "world_size")
        return bool(told or (lab.facts.kind == "stream" and self.asking))

    def shards(self) -> Shards:
        """What each rank reads in one epoch. A stream's samples are recognised under pinned generators."""
        world = self.world
        if not self.declared:
            raise NotApplicable("the factory takes no rank: a trainer may deal its samples out (--ranks 2 tries it)")
        return self._dealt(world) if self._lab.facts.kind == "map" else self._streamed(world)

    def stream(self, *, pin: bool) -> StreamTrace:
        """What each rank of a stream yields, as if ranks were workers."""
        shares = self._shares(self.world, pin=pin)
        flat: list[Any] = [tuple(chain.from_iterable(share.by_worker)) for share in shares]
        return StreamTrace(tuple(flat), all(share.ended for share in shares))

    def _dealt(self, world: int) -> Shards:
        lab = self._lab
        alone = lab.vary("dealt", lambda _: shards.run_dealing(lab.build()), _as_it_is)
        ranks = lab.vary(
            ("dealt on ranks", world), lambda folder: shards.run_dealing_on_ranks(lab.build, folder, world), _as_it_is
        )
        return shards.shards_of(alone, ranks)

    def _streamed(self, world: int) -> Shards:
        trace = self._lab.stream(self.seats, pin=True)
        return Shards(self._shares(world, pin=True), Share(trace.by_worker, 0, trace.ended))

    def _shares(self, world: int, *, pin: bool) -> tuple[Share, ...]:
        lab, request = self._lab, streams.Request(self.seats, pin)
        samples, seconds = lab.settings.samples, 0.1 * lab.settings.budget
        found: tuple[Share, ...] = lab.vary(
            ("streamed on ranks", request, world),
            lambda folder: shards.run_streams_on_ranks(lab.build, folder, request, world, samples, seconds),
            lambda folder, rides: shards.read_streams_on_ranks(folder, rides, request.num_workers),
        )
        return found

    @property
    def seats(self) -> int:
        """The workers of each rank."""
        facts = self._lab.facts
        return min(facts.num_workers, workers.MOST_WORKERS.get(facts.start_method, 2))


def _as_it_is(_: Path, answer: Any) -> Any:
    """What an observation returned, where the budget let it; the spools tell nothing more."""
    if answer is None:
        raise Undecided("the budget ran out: raise --budget")
    return answer
