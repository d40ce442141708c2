"""The same items in every worker: what tells cloned and replayed random numbers from healthy ones.

Every worker gets the same schedule over two epochs: one unpinned draw first, which lets generators that are rightly
made in the worker come to life; then rounds in which the global generators of python, numpy and torch are pinned, so
that only generators of the user's own still vary; then rounds as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dataguard.lab.drive import Ride, drive
from dataguard.lab.pins import PIN
from dataguard.lab.records import BatchRecord, SampleRecord, read_spools
from dataguard.lab.schedules import SameItems as Schedule
from dataguard.lab.spy import Plan
from dataguard.model import Undecided
from dataguard.odds import Groups
from dataguard.variants import Loader

EPOCHS = 2
REPEATS = 3
"""Draws of each item under one pinned state."""
PINNED_STATES = 2
DRAWS_AS_IS = 4
MOST_WORKERS = {"fork": 4, "spawn": 2, "forkserver": 2}
"""Workers that are compared; a worker that imports torch takes seconds to start."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How much one observation draws: `items` indices, and as many rounds as `scale` times the constants above."""

    workers: int
    items: int
    scale: int

    @property
    def rounds(self) -> tuple[int, ...]:
        """How many items each round reads; the first is the single draw that wakes generators up."""
        return (1, *([self.items] * (self.scale * (PINNED_STATES * REPEATS + DRAWS_AS_IS))))

    @property
    def pins(self) -> tuple[int | None, ...]:
        """The seed for each fetch of an epoch."""
        states = [PIN + state for state in range(PINNED_STATES * self.scale) for _ in range(self.items * REPEATS)]
        return (None, *states)

    @property
    def draws(self) -> int:
        """Fetches of one worker in one epoch."""
        return sum(self.rounds)

    def pinned_groups(self, digests: Mapping[int, bytes]) -> Groups:
        """Group the pinned fetches by pinned state and item."""
        states = PINNED_STATES * self.scale
        return tuple(
            tuple(digests.get(1 + (state * REPEATS + draw) * self.items + item, b"") for draw in range(REPEATS))
            for state in range(states)
            for item in range(self.items)
        )

    def free_groups(self, digests: Mapping[int, bytes]) -> Groups:
        """Group the fetches as they are by item."""
        start = len(self.pins)
        return tuple(
            tuple(digests.get(start + draw * self.items + item, b"") for draw in range(DRAWS_AS_IS * self.scale))
            for item in range(self.items)
        )


@dataclass(frozen=True, slots=True)
class SameItems:
    """`pinned` and `as_is`: leaf path -> (worker, epoch) -> groups of draws. `shown` are the items' indices in words.

    `draws` counts the fetches of one worker in one epoch.
    """

    pinned: Mapping[str, Mapping[tuple[int, int], Groups]]
    as_is: Mapping[str, Mapping[tuple[int, int], Groups]]
    workers: int
    items: int
    draws: int
    shown: tuple[str, ...]


def shape_of(effort: int, num_workers: int, start_method: str, seconds_per_sample: float, left: float) -> Shape:
    """Choose how much to draw so that it fits into a third of the seconds that are left.

    Raises Undecided when even the least that could settle a verdict does not fit.
    """
    workers = min(num_workers, MOST_WORKERS.get(start_method, 2))
    wanted = Shape(workers, 8 if effort == 0 else 16, 4**effort)
    least = Shape(workers, 4, 1)
    for shape in (wanted, least) if effort == 0 else (wanted,):
        if shape.draws * EPOCHS * seconds_per_sample <= max(left, 0) / 3:
            return shape
    raise Undecided(
        f"a sample takes {seconds_per_sample:.2g} s, and {left:.0f} s of the budget are left: raise --budget"
    )


def run_same_items(build: Callable[..., Loader], folder: Path, shape: Shape) -> list[Ride]:
    """Run the schedule, keeping the user's persistence, generator, worker_init_fn and start method."""
    loader = build(
        num_workers=shape.workers,
        in_order=True,
        schedule=lambda inner, batched: Schedule(inner, shape.workers, shape.items, shape.rounds, batched=batched),
    )
    return drive(loader, Plan(folder, pins=shape.pins, keep_going=True), epochs=EPOCHS)


def read_same_items(folder: Path, rides: list[Ride] | None, shape: Shape) -> SameItems:
    """Sort every draw by leaf, worker and epoch. Raises Undecided when the budget cut the pass short."""
    if rides is None:
        raise Undecided("the budget ran out while the same items were drawn in every worker: raise --budget")
    digests: dict[str, dict[tuple[int, int], dict[int, bytes]]] = defaultdict(lambda: defaultdict(dict))
    shown: dict[int, str] = {}
    for record in read_spools(folder):
        if isinstance(record, SampleRecord | BatchRecord):
            root = "sample" if isinstance(record, SampleRecord) else "batch"
            for leaf in record.leaves:
                digests[root + leaf.path][record.worker or 0, record.epoch][record.batch] = leaf.digest
        if isinstance(record, SampleRecord) and record.shown is not None:
            shown.setdefault(record.batch, record.shown)
    return SameItems(
        pinned={path: {who: shape.pinned_groups(one) for who, one in by.items()} for path, by in digests.items()},
        as_is={path: {who: shape.free_groups(one) for who, one in by.items()} for path, by in digests.items()},
        workers=shape.workers,
        items=shape.items,
        draws=shape.draws,
        shown=tuple(text for fetch, text in sorted(shown.items()) if 0 < fetch <= shape.items),
    )
