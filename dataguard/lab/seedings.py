"""Which random numbers come out the same for every sample, because their generator is seeded with a constant there.

Each item is drawn under different states of the global generators, over two epochs. Then generators that are always
given the same seed are made to skip some numbers, to see which values hang on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataguard.lab.drive import Ride, drive
from dataguard.lab.pins import PIN
from dataguard.lab.records import BatchRecord, SampleRecord, Seeding, Seedings, read_spools
from dataguard.lab.schedules import SameItems
from dataguard.lab.spy import Plan
from dataguard.model import Undecided
from dataguard.variants import Loader

ITEMS = 6
BURNS = (0, 0, 3, 8)
"""For each round over the items, how many numbers a generator skips after it was seeded with a constant."""
EPOCHS = 2
DRAWS = ITEMS * len(BURNS)
"""Fetches of an epoch."""

Draws = dict[int, list[bytes]]
"""For each item, the digests of one leaf."""


@dataclass(frozen=True, slots=True)
class SeedTrace:
    """What is seeded alike for every sample, and what hangs on it.

    `constant` are the seedings that happen for most samples with one and the same seed; `steered` are the leaves that
    an index always gives alike, and that change when the numbers after such a seed do. `plain` are leaves that are
    single values which differ from item to item, as labels are. `draws` were compared for each of `items`.
    """

    constant: tuple[Seeding, ...]
    steered: tuple[str, ...]
    plain: tuple[str, ...]
    items: int = ITEMS
    draws: int = EPOCHS * len(BURNS)


def run_seedings(build: Callable[..., Loader], folder: Path, workers: int, size: int) -> list[Ride]:
    """Draw the items in one process: a worker, where the user has any."""

    def schedule(inner: object, batched: bool) -> SameItems:
        return SameItems(inner, 1, ITEMS, (ITEMS,) * len(BURNS), size, batched=batched)

    # Workers that are forked anew hear of every epoch and start at once, whatever the user's start.
    fork = {"num_workers": 1, "persistent_workers": False, "multiprocessing_context": "fork"} if workers else {}
    loader = build(**fork, schedule=schedule)
    plan = Plan(
        folder,
        pins=tuple(PIN + number for number in range(DRAWS)),
        keep_going=True,
        length=DRAWS,
        burns=tuple(burn for burn in BURNS for _ in range(ITEMS)),
    )
    return drive(loader, plan, batches=(DRAWS,) * EPOCHS)


def read_seedings(folder: Path, rides: list[Ride] | None) -> SeedTrace:
    """Compare the draws leaf by leaf. Raises Undecided when the budget cut them short."""
    records = list(read_spools(folder))
    as_is: dict[str, Draws] = defaultdict(lambda: defaultdict(list))
    skipped: dict[str, Draws] = defaultdict(lambda: defaultdict(list))
    fetched = set()
    plain = {}
    for record in records:
        if not isinstance(record, SampleRecord | BatchRecord):
            continue
        root, first = ("sample", record.position == 0) if isinstance(record, SampleRecord) else ("batch", True)
        fetched.add((record.epoch, record.batch))
        for leaf in record.leaves if first else ():
            draws = skipped if BURNS[record.batch // ITEMS] else as_is
            draws[root + leaf.path][record.batch % ITEMS].append(leaf.digest)
            plain[root + leaf.path] = not leaf.shape
    if rides is None or len(fetched) < EPOCHS * DRAWS:
        raise Undecided("too few samples could be drawn again and again: raise --budget")
    frozen = tuple(path for path, items in as_is.items() if all(len(set(draws)) == 1 for draws in items.values()))
    return SeedTrace(
        constant=tuple(_constant([record for record in records if isinstance(record, Seedings)])),
        steered=tuple(path for path in frozen if _differ(as_is[path], skipped[path])),
        plain=tuple(path for path in frozen if plain[path] and len({draws[0] for draws in as_is[path].values()}) > 1),
    )


def _constant(fetches: Sequence[Seedings]) -> Iterable[Seeding]:
    """The seedings that most fetches of both epochs make, always with the same seed."""
    by_place: dict[tuple[object, ...], list[tuple[int, Seeding]]] = defaultdict(list)
    for fetch in fetches:
        for seeding in fetch.seeds:
            by_place[seeding.place].append((fetch.epoch, seeding))
    for made in by_place.values():
        seeds, epochs = {seeding.seed for _, seeding in made}, {epoch for epoch, _ in made}
        if len(seeds) == 1 and len(epochs) == EPOCHS and len(made) > len(fetches) / 2:
            yield made[0][1]


def _differ(one: Draws, two: Draws) -> bool:
    return any(set(draws) != set(two.get(item, draws)) for item, draws in one.items())
