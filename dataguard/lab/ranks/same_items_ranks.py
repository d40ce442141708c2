"""The same items drawn in the workers of several ranks, which exposes ranks that share RNG state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations, islice
from pathlib import Path
from typing import Any

from dataguard.lab.core.index_schedules import SameItems as Schedule
from dataguard.lab.core.records import WorkerEpoch
from dataguard.lab.randomness.same_items import DrawPlan, SameItems, read_same_items, run_same_items
from dataguard.lab.ranks.rank_processes import Rank, rank_folder, run_ranks
from dataguard.lab.rng.shared_states import Pair
from dataguard.lab.spy.drive import Ride
from dataguard.model import Undecided
from dataguard.stats.coincidence import Groups
from dataguard.targets.variants import Loader

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


def read_rank_items(folder: Path, rides: list[list[Ride]] | None, shape: DrawPlan) -> SameItems:
    """The draws of all ranks; worker w of rank r has number `r * shape.workers + w`.

    Raises Undecided when the budget cut the pass short.
    """
    if rides is None:
        raise Undecided("the budget ran out while ranks drew the same items")
    parts = [read_same_items(rank_folder(folder, rank), ride, shape) for rank, ride in enumerate(rides)]
    return SameItems(
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


def rank_pairs(world: int, draws: SameItems) -> list[Pair]:
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
