"""In which order a loader asks for its samples, epoch by epoch; none of them is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from dataguard.lab.drive import announce_epoch
from dataguard.lab.passes import gate
from dataguard.lab.records import Index, Seeding, plain_index
from dataguard.lab.schedules import Recorded
from dataguard.lab.seeds import SeedWatch
from dataguard.variants import Loader

EPOCHS = 3
MOST = 100_000
"""How many indices of an epoch are compared."""
BURN = 5
"""How many numbers a generator skips after it was seeded with a constant, in the last epoch."""


@dataclass(frozen=True, slots=True)
class Orders:
    """The indices of three epochs, the seeds that were given while they were drawn, and an epoch drawn differently.

    In `moved`, generators skipped some numbers after being seeded with the constant that they always get.
    """

    epochs: tuple[tuple[Index, ...], ...]
    seeds: tuple[Seeding, ...]
    moved: tuple[Index, ...]

    @property
    def replayed(self) -> bool:
        """Whether every epoch has the same order."""
        return all(epoch == self.epochs[0] for epoch in self.epochs)

    @property
    def ascending(self) -> bool:
        """Whether the first epoch goes through the dataset in its own order."""
        return self.epochs[0] == tuple(range(len(self.epochs[0])))


def run_orders(build: Callable[..., Loader]) -> Orders:
    """Iterate the loader itself, as its own `__iter__` may have a say, without any batch coming out."""
    recorded: list[Recorded] = []

    def schedule(inner: Any, batched: bool) -> Recorded:
        recorded.append(Recorded(inner, batched=batched))
        return recorded[-1]

    loader = build(num_workers=0, schedule=schedule)
    watch = SeedWatch()
    epochs, seeds = [], []
    for epoch in range(EPOCHS):
        drawn, given = _draw(loader, recorded, watch, epoch, 0)
        epochs.append(drawn)
        seeds.append(given)
    moved, _ = _draw(loader, recorded, watch, EPOCHS - 1, BURN)
    constant = (seed for seed in seeds[0] if all(seed in given for given in seeds))
    return Orders(tuple(epochs), tuple(constant), moved)


def _draw(
    loader: Loader, recorded: list[Recorded], watch: SeedWatch, epoch: int, burn: int
) -> tuple[tuple[Index, ...], list[Seeding]]:
    with gate("sampler"), watch.watching(burn) as seeds:
        announce_epoch(loader, epoch)
        for _ in loader:
            pass
    flat = chain.from_iterable(schedule.drawn for schedule in recorded)
    return tuple(plain_index(index) for index in islice(flat, MOST)), [seeding for _, seeding in seeds]
