"""The order in which a loader requests its samples, and that of a stream: epoch by epoch, in one process.

Indices are drawn without reading samples. Generators that were seeded with a constant skip some numbers in one more
epoch: if the order changes then, that seed decides it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import iter_leaves, leaves_of
from dataguard.lab.core.records import Index, LeafRecord, Seeding, plain_index, streamed
from dataguard.lab.core.source_location import Place
from dataguard.lab.culprit.line_trace import line_of_change
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.recorded_order import Recorded, draw_epoch, recorder
from dataguard.lab.reading.sample_reader import emulate_worker
from dataguard.lab.rng.rng_discovery import SEED, Source, find_generators, seeded, skip
from dataguard.lab.rng.seed_watch import SeedWatch
from dataguard.lab.spy.drive import announce_epoch, begin_epoch
from dataguard.targets.variants import Loader

EPOCHS = 3
"""Epochs that are drawn: of two equal orders, one may be a coincidence of few indices."""
SKIPPED_NUMBERS = 5
"""How many numbers a generator skips after it was seeded with a constant, in the last epoch."""


@dataclass(frozen=True, slots=True)
class Orders:
    """The indices of three epochs, the constant `seeds` used while they were drawn, and an epoch drawn differently.

    There is only one epoch if it has no end.

    `marks` are digests of the custom index objects of each epoch, which are None in `epochs`. In `advanced`, generators
    skipped some numbers after each constant seed, and those that the sampler holds before the epoch; `reset` are the
    paths of those that it then left in the same state as before, so that it seeds them in each epoch. `batches` counts
    those planned in each epoch; `whole`: all epochs were drawn to their end. `refills`: the sampler yields one object
    for all batches, and changes it.
    """

    epochs: tuple[tuple[Index, ...], ...]
    marks: tuple[tuple[bytes, ...], ...]
    seeds: tuple[Seeding, ...]
    advanced: tuple[Index, ...]
    batches: tuple[int, ...]
    whole: bool
    reset: tuple[str, ...] = ()
    refills: bool = False

    @property
    def replayed(self) -> bool:
        """Whether every epoch has the same order."""
        return len({*self.epochs}) == len({*self.marks}) == 1

    @property
    def ascending(self) -> bool:
        """Whether the first epoch reads the dataset in ascending order; a last index may be padding."""
        order = [index for index in self.epochs[0] if isinstance(index, int)]
        rising = all(index < following for index, following in pairwise(order[:-1]))
        return rising and len(order) == len(self.epochs[0])


MOST_INDICES = 100_000
"""Most indices of an epoch that are compared."""
MOST_INDEX_OBJECTS = 100
"""Most custom index objects of an epoch that are compared, which may be large."""


def draw_orders(build: Callable[..., Loader], length: int | None) -> Orders:
    """Iterate the loader itself, as its own `__iter__` may change the order, without yielding any batch.

    `length` is that of the dataset.
    """
    recorded, schedule = recorder(length, MOST_INDICES)
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
            return Orders((drawn,), (objects,), (), drawn, (batches[0],), whole, refills=recorded[0].refills)
    constant = (seed for seed in seeds[0] if all(seed in given for given in seeds))
    orders = Orders(tuple(epochs), tuple(marks), tuple(constant), (), tuple(batches), whole)
    held = _held(recorded[0]) if orders.replayed and not orders.ascending else []
    left = [source.state() for source in held]
    for source in held:
        skip(source.generator, SKIPPED_NUMBERS)
    advanced, _, _ = _draw(loader, recorded, watch, EPOCHS - 1, SKIPPED_NUMBERS)
    reset = tuple(source.path for source, state in zip(held, left, strict=True) if source.state() == state)
    return replace(orders, advanced=advanced, reset=reset, refills=any(schedule.refills for schedule in recorded))


def line_of_reset(build: Callable[..., Loader], length: int | None, path: str) -> Place | None:
    """The first line of the user's code in a second epoch after which the state of this generator differs."""
    recorded, schedule = recorder(length, MOST_INDICES)
    loader = build(num_workers=0, schedule=schedule)
    draw_epoch(loader, recorded, 0)
    held = next((source for source in _held(recorded[0]) if source.path == path), None)
    return line_of_change(lambda: draw_epoch(loader, recorded, 1), held.state) if held else None


def _held(order: Recorded) -> list[Source]:
    """The generators that the user's sampler holds."""
    return find_generators({"batch_sampler" if order.batched else "sampler": order.inner})


def _draw(
    loader: Loader, recorded: list[Recorded], watch: SeedWatch, epoch: int, skipped: int
) -> tuple[tuple[Index, ...], tuple[bytes, ...], list[Seeding]]:
    with gate("sampler"), watch.watching(skipped) as seeds:
        draw_epoch(loader, recorded, epoch)
    flat = list(islice(chain.from_iterable(batch for schedule in recorded for batch in schedule.batches), MOST_INDICES))
    plain = tuple(map(plain_index, flat))
    objects = (index for index, number in zip(flat, plain, strict=True) if number is None)
    marks = tuple(leaf.digest for index in islice(objects, MOST_INDEX_OBJECTS) for leaf in leaves_of(index))
    return plain, marks, [seeding for _, seeding in seeds]


PROBED_SAMPLES = 6
"""How many samples are read to see whether an index gives the same sample in every epoch, or on every rank."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Which samples a few indices give: whether all give the `same`, and whether it `varies` by epoch.

    `hook` is the method of the dataset that was called between the epochs, if it has no `set_epoch`.
    """

    same: bool
    varies: bool
    hook: str | None = None


def read_contents(loader: Loader, order: Sequence[Index]) -> Contents:
    """Read a few samples of the order with seeded generators, twice in the first epoch and twice in the second."""
    chosen = evenly(order, PROBED_SAMPLES)
    readings, hook = [], None
    for epoch in (0, 1):
        hook = begin_epoch(loader, epoch)
        readings += [[content(loader.dataset, index) for index in chosen] for _ in range(2)]
    first, again, second, _ = readings
    return Contents(same=len(set(first)) == 1, varies=first == again and first != second, hook=hook)


@dataclass(frozen=True, slots=True)
class Apart:
    """A number that sets the samples that no epoch has apart from all others: a `value`, or the size of an axis.

    `left` and `drawn` are its smallest and largest in either.
    """

    path: str
    axis: int | None
    left: tuple[int, int]
    drawn: tuple[int, int]


LEFT_READS = 16
"""How many samples are read of those that no epoch has, and of the others: by chance, none of 16 is larger than all of
16 others with odds of 1 in 10^8."""


def read_apart(dataset: Any, left: Sequence[int], drawn: Sequence[int]) -> Apart | None:
    """What sets some samples apart: an axis that is longer or shorter in all, or an integer, as of a class."""
    groups = [[_sizes(dataset, index) for index in evenly(indices, LEFT_READS)] for indices in (left, drawn)]
    if min(map(len, groups)) < LEFT_READS // 2:
        return None
    for path, axis in groups[0][0]:
        numbers = [[sizes.get((path, axis)) for sizes in group] for group in groups]
        outside, inside = ([number for number in group if number is not None] for group in numbers)
        if len(outside) + len(inside) < sum(map(len, groups)):
            continue
        apart = min(outside) > max(inside) or max(outside) < min(inside)
        if apart or (axis is None and len({*outside}) == 1 and outside[0] not in inside):
            return Apart(path, axis, (min(outside), max(outside)), (min(inside), max(inside)))
    return None


_ITEM = re.compile(r"(.*)\[(\d+)\]")
"""The path of an item of a list."""


def _sizes(dataset: Any, index: int) -> dict[tuple[str, int | None], int]:
    """The sizes of all axes of the leaves of a sample, and integers."""
    sizes: dict[tuple[str, int | None], int] = {}
    with gate("sample"), seeded(SEED):
        for path, leaf in iter_leaves(dataset[index]):
            shape = (len(leaf),) if isinstance(leaf, str | bytes | list | tuple) else getattr(leaf, "shape", ())
            sizes |= {(path, axis): int(size) for axis, size in enumerate(shape)}
            if item := _ITEM.fullmatch(path):
                sizes[item[1], 0] = int(item[2]) + 1  # of a short list, whose items are leaves
            number = leaf.item() if not shape and hasattr(leaf, "item") else leaf
            if isinstance(number, int):
                sizes[path, None] = number
    return sizes


def content(dataset: Any, index: Any) -> tuple[bytes, ...]:
    """The digests of one sample's leaves with seeded global generators."""
    with gate("sample"), seeded(SEED):
        return tuple(leaf.digest for leaf in leaves_of(dataset[index]))


@dataclass(frozen=True, slots=True)
class StreamOrder:
    """A stream of so many `samples`, of which each epoch has the same order: the `seed` that it depends on, if any.

    It then has another order where generators skip some numbers after they were seeded with a constant, or once
    `set_epoch` is called: `awaits_epoch`. `correlation` is that of the places of samples in two epochs of different
    order, if most of the samples are in both.
    """

    samples: int
    replayed: bool
    seed: Seeding | None
    correlation: float | None = None
    awaits_epoch: bool = False


MOST_STREAM_SAMPLES = 400
"""The most samples of an epoch that are read: descents of shuffled and of interleaved orders are far apart then."""


def find_stream_order(build: Callable[..., Loader], folder: Path, *, announce: bool = True) -> StreamOrder:
    """Read several epochs of a stream, each under another global seed, and one with constant seeds changed.

    If the loader has workers, this disposable process emulates the only one of each epoch. Unless epochs are
    `announce`d, `set_epoch` is called once, before another epoch at the end.
    """
    loader, recorder = build(), FlightRecorder(folder)
    watch = SeedWatch()
    epochs, seeds = [], []
    late = [] if announce else [(EPOCHS, 0)]
    for epoch, skipped in [*((number, 0) for number in range(EPOCHS)), (EPOCHS - 1, SKIPPED_NUMBERS), *late]:
        if announce or epoch == EPOCHS:
            announce_epoch(loader, epoch)
        torch.manual_seed(SEED + epoch)
        if loader.num_workers:
            emulate_worker(loader, recorder, 1)
        with gate("sample"), seeded(SEED + epoch), watch.watching(skipped) as given:
            samples = islice(streamed(loader.dataset), MOST_STREAM_SAMPLES)
            known = leaves_of if loader.batch_size else _leaves_and_rows
            epochs.append([known(sample) for sample in samples])
        seeds.append([seeding for _, seeding in given])
        if len(epochs) == 2 and not any(_replayed(_digests_of(path, epochs)) for path in _paths_in(epochs[0])):
            break  # the others would show what decides a replayed order
    constant = [seed for seed in seeds[0] if all(seed in given for given in seeds[:EPOCHS])]
    replayed, awaits = [], []
    correlations: list[float] = []
    for path in _paths_in(epochs[0]):
        orders = _digests_of(path, epochs)
        first = orders[0]
        if _replayed(orders[:EPOCHS]):
            replayed.append(_is_shuffled(first, orders[EPOCHS]))
            awaits.append(not announce and _is_shuffled(first, orders[-1]))
        elif len(set(first)) == len(first):
            correlations += _correlation(first, orders[1])
    # A seed near which the code names an epoch may be another one where training sets that.
    certain = constant if not (announce and any(seed.epochs for seed in constant)) else []
    seed = certain[0] if certain and any(replayed) else None
    return StreamOrder(len(epochs[0]), bool(replayed), seed, max(correlations, default=None), any(awaits))


def _leaves_and_rows(batch: Any) -> list[LeafRecord]:
    """The leaves of what may be a batch, and the rows of its arrays, whose order another seed changes."""
    arrays = {path: leaf for path, leaf in iter_leaves(batch) if isinstance(leaf, np.ndarray | torch.Tensor)}
    rows = ({f"row{path}": row} for path, array in arrays.items() if array.ndim for row in array[:MOST_ROWS])
    return [*leaves_of(batch), *chain.from_iterable(map(leaves_of, rows))]


MOST_ROWS = 64
"""Rows of a batch whose order is compared."""


Epoch: TypeAlias = Sequence[Sequence[LeafRecord]]
"""The leaves of each sample of an epoch."""


def _paths_in(epoch: Epoch) -> list[str]:
    return list(dict.fromkeys(leaf.path for sample in epoch for leaf in sample))


def _digests_of(path: str, epochs: Sequence[Epoch]) -> list[list[bytes]]:
    """A leaf, sample by sample, in each epoch."""
    return [[leaf.digest for sample in epoch for leaf in sample if leaf.path == path] for epoch in epochs]


def _replayed(orders: Sequence[Sequence[bytes]]) -> bool:
    """Whether all of these orders are the same, of samples that differ."""
    first, *others = orders
    return len(set(first)) == len(first) and all(order == first for order in others)


COMMON_SHARE = 0.5
"""The least share of samples that two orders have in common."""
FEWEST_COMMON = 32
"""The fewest of them whose places correlate by more than 0.9 by no coincidence."""


def _correlation(order: Sequence[bytes], other: Sequence[bytes]) -> list[float]:
    """The correlation of the places of samples in two orders; none if too few samples are in both."""
    positions = {identity: position for position, identity in enumerate(order)}
    pairs = [(positions[identity], position) for position, identity in enumerate(other) if identity in positions]
    if len(pairs) < max(COMMON_SHARE * len(order), FEWEST_COMMON):
        return []
    return [float(np.corrcoef(np.array(pairs).T)[0, 1])]


MOST_SOURCES = 5
"""So many sources, each read in its order, may be interleaved by chance: that is no shuffling."""
DESCENT_PER_ROOT = 0.75
"""The longest descent of a shuffled order is about twice the square root of its length; that of sources is theirs.

Of 20,000 random orders of 32 samples, 7 have one of 5 or less; of 20,000 of 100 samples, the shortest is 12 (bound:
7.5), and of 3,000 of 400 samples 29 (bound: 15).

"""


def _is_shuffled(order: Sequence[bytes], other: Sequence[bytes]) -> bool:
    """Whether two orders of the same samples differ by more than how a few sources are interleaved."""
    positions = {identity: position for position, identity in enumerate(order)}
    common = [positions[identity] for identity in other if identity in positions]
    return len(common) >= COMMON_SHARE * len(order) and _longest_descent(common) > max(
        MOST_SOURCES, DESCENT_PER_ROOT * len(common) ** 0.5
    )


def _longest_descent(positions: Sequence[int]) -> int:
    """The length of the longest falling subsequence: no fewer rising ones hold all of the sequence (Dilworth)."""
    ends: list[int] = []  # of the falling subsequence of each length that ends highest, by patience sorting
    for position in positions:
        at = bisect_left(ends, -position)
        ends[at : at + 1] = [-position]
    return len(ends)
