"""The order in which a loader requests its samples, epoch by epoch, without reading them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from typing import Any

from dataguard.lab.core.index import Index, plain_index
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import Seeding
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.recorded_order import Recorded, draw_epoch, recorder
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.lab.rng.rng_discovery import Source, find_generators, skip
from dataguard.lab.rng.seed_watch import SeedWatch
from dataguard.lab.spy.drive import announce_epoch
from dataguard.targets.variants import Loader

EPOCHS = 3
MOST = 100_000
"""Most indices of an epoch that are compared."""
MOST_OBJECTS = 100
"""Most custom index objects of an epoch that are compared, which may be large."""
PROBES = 6
"""How many samples are read to see whether an index gives the same sample in every epoch, or on every rank."""
BURN = 5
"""How many numbers a generator skips after it was seeded with a constant, in the last epoch."""


@dataclass(frozen=True, slots=True)
class Orders:
    """The indices of three epochs, the constant `seeds` used while they were drawn, and an epoch drawn differently.

    There is only one epoch if it has no end.

    `marks` are digests of the custom index objects of each epoch, which are None in `epochs`. In `advanced`, generators
    skipped some numbers after each constant seed, and those that the sampler holds before the epoch; `reset` are the
    paths of those that it then left in the same state as before, so that it seeds them in each epoch. `batches` counts
    those planned in each epoch; `whole`: all epochs were drawn to their end.
    """

    epochs: tuple[tuple[Index, ...], ...]
    marks: tuple[tuple[bytes, ...], ...]
    seeds: tuple[Seeding, ...]
    advanced: tuple[Index, ...]
    batches: tuple[int, ...]
    whole: bool
    reset: tuple[str, ...] = ()

    @property
    def replayed(self) -> bool:
        """Whether every epoch has the same order."""
        return len({*self.epochs}) == len({*self.marks}) == 1

    @property
    def ascending(self) -> bool:
        """Whether the first epoch reads the dataset in ascending order; a last index may be padding."""
        order = [index for index in self.epochs[0] if isinstance(index, int)]
        rising = all(one < two for one, two in pairwise(order[:-1]))
        return rising and len(order) == len(self.epochs[0])


@dataclass(frozen=True, slots=True)
class Contents:
    """Which samples a few indices give: whether all give the `same`, and whether it `varies` by epoch."""

    same: bool
    varies: bool


def run_orders(build: Callable[..., Loader], length: int | None) -> Orders:
    """Iterate the loader itself, as its own `__iter__` may change the order, without yielding any batch.

    `length` is that of the dataset.
    """
    recorded, schedule = recorder(length, MOST)
    loader = build(num_workers=0, schedule=schedule)
    watch = SeedWatch()
    epochs, marks, seeds, batches, whole = [], [], [], [], True
    for epoch in range(EPOCHS):
        drawn, objects, given = _draw(loader, recorded, watch, epoch, 0)
        epochs.append(drawn)
        marks.append(objects)
        seeds.append(given)
        batches.append(sum(schedule.count for schedule in recorded))
        whole = whole and all(schedule.whole for schedule in recorded)
        if not whole:  # it never ends, and may not survive being stopped
            return Orders((drawn,), (objects,), (), drawn, (batches[0],), whole)
    constant = (seed for seed in seeds[0] if all(seed in given for given in seeds))
    orders = Orders(tuple(epochs), tuple(marks), tuple(constant), (), tuple(batches), whole)
    held = _held(recorded[0]) if orders.replayed and not orders.ascending else []
    left = [source.state() for source in held]
    for source in held:
        skip(source.generator, BURN)
    advanced, _, _ = _draw(loader, recorded, watch, EPOCHS - 1, BURN)
    reset = tuple(source.path for source, state in zip(held, left, strict=True) if source.state() == state)
    return replace(orders, advanced=advanced, reset=reset)


def _held(order: Recorded) -> list[Source]:
    """The generators that the user's sampler holds."""
    return find_generators({"batch_sampler" if order.batched else "sampler": order.inner})


def run_contents(loader: Loader, order: Sequence[Index]) -> Contents:
    """Read a few samples of the order with seeded generators, twice in the first epoch and twice in the second."""
    chosen = evenly(order, PROBES)
    readings = []
    for epoch in (0, 1):
        announce_epoch(loader, epoch)
        readings += [[content(loader.dataset, index) for index in chosen] for _ in range(2)]
    first, again, second, _ = readings
    return Contents(same=len(set(first)) == 1, varies=first == again and first != second)


def content(dataset: Any, index: Any) -> tuple[bytes, ...]:
    """The digests of one sample's leaves with seeded global generators."""
    with gate("sample"), seeded(SEED):
        return tuple(leaf.digest for leaf in leaves_of(dataset[index]))


def _draw(
    loader: Loader, recorded: list[Recorded], watch: SeedWatch, epoch: int, skipped: int
) -> tuple[tuple[Index, ...], tuple[bytes, ...], list[Seeding]]:
    with gate("sampler"), watch.watching(skipped) as seeds:
        draw_epoch(loader, recorded, epoch)
    flat = list(islice(chain.from_iterable(batch for schedule in recorded for batch in schedule.batches), MOST))
    plain = tuple(map(plain_index, flat))
    objects = (index for index, number in zip(flat, plain, strict=True) if number is None)
    marks = tuple(leaf.digest for index in islice(objects, MOST_OBJECTS) for leaf in leaves_of(index))
    return plain, marks, [seeding for _, seeding in seeds]
