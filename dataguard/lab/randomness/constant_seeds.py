"""Generators that get the same seed for every sample, and what depends on them.

Each item is drawn under different states of the global generators, over two epochs. Then generators that always get the
same seed skip some numbers, to see which values depend on them. The samples of a stream cannot be drawn again: there,
whole runs are compared, position by position. If seeds depend on the item alone, the same is done with all generators
that are seeded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from dataguard.lab.core.records import Seeding, Seedings
from dataguard.lab.randomness.worker_draws import batch_size, one_by_one
from dataguard.lab.reading.experiment import FORKED, Conditions, Experiment, Readings, Script, perform
from dataguard.lab.rng.frozen_rng import SeededFetches
from dataguard.lab.rng.rng_discovery import SEED
from dataguard.lab.rng.seed_watch import SeedLog
from dataguard.lab.subject import Subject

ITEMS = 6
"""Items that are read in each round: a seed that does not vary among them does not depend on the item."""
SKIPS = (0, 0, 3, 9)
"""For each round over the items, how many numbers a generator skips after it was seeded with a constant.

Each item skips one more than the last: a coin flip may give the same result a few times.
"""
EPOCHS = 2
"""Epochs: a seed that is the same in both does not depend on the epoch."""
FETCHES = ITEMS * len(SKIPS)
"""Fetches of an epoch."""
STREAM_FETCHES = 16
"""Fetches of an epoch of a stream, of one sample each where torch makes the batches."""

Draws = dict[int, list[bytes]]
"""For each item, the digests of one leaf."""


@dataclass(frozen=True, slots=True)
class SeedTrace:
    """Which generators get the same seed for every sample, and which leaves depend on it.

    `constant` are the seedings that happen for most samples with the same seed; `dependent` are the leaves that never
    vary for an index, and that change when the numbers after such a seed do. `plain` are leaves with single values that
    differ between items, like labels. `draws` were compared for each of `items`. `indexed` are the seedings that give
    each item its own seed in all draws of two epochs; `derived`: such seeds follow from a constant one. `libraries`
    drew by themselves, if that was observed. `changed` holds the new values of the dependent leaves.
    """

    constant: tuple[Seeding, ...]
    dependent: tuple[str, ...]
    plain: tuple[str, ...]
    items: int = ITEMS
    draws: int = EPOCHS * len(SKIPS)
    indexed: tuple[Seeding, ...] = ()
    derived: bool = False
    libraries: frozenset[str] = frozenset()
    changed: Mapping[str, frozenset[bytes]] = field(default_factory=dict)


def find_constant_seeds(subject: Subject, *, always: bool = False) -> SeedTrace:
    """Read in one process: a worker, where the user has any. Raises Undecided when the budget cuts it short.

    With `always`, the leaves of a map-style dataset may depend on any seed, not only on a constant one.
    """
    # New forked workers receive every epoch and start quickly, whatever the user's start method.
    changed = FORKED if subject.facts.num_workers else ()
    if subject.facts.kind == "stream":
        return _find_in_stream(subject, (*changed, *one_by_one(subject.facts)))
    size = batch_size(subject.facts)
    skips = tuple(skipped and skipped + item for skipped in SKIPS for item in range(ITEMS))
    instruments = SeededFetches(tuple(SEED + fetch for fetch in range(FETCHES))), SeedLog(skips, always)
    script = Script(((tuple(range(ITEMS)) * len(SKIPS),),) * EPOCHS, size, mixed=True, spread=True)
    readings = perform(subject, Experiment(script, instruments, changed))
    as_is, skipped = (_draws(readings, skips=skips) for skips in (False, True))
    frozen = tuple(path for path, items in as_is.items() if all(len(set(draws)) == 1 for draws in items.values()))
    seedings = readings.noted(Seedings)
    dependent = tuple(path for path in frozen if _differ(as_is[path], skipped[path]))
    varied = [path for path in frozen if len({draws[0] for draws in as_is[path].values()}) > 1]
    return SeedTrace(
        constant=_constant(seedings, size),
        dependent=dependent,
        indexed=_indexed(seedings),
        derived=_derived(seedings),
        libraries=frozenset(name for fetch in seedings for name in fetch.libraries),
        changed={path: _changed(as_is[path], skipped[path]) for path in dependent},
        plain=tuple(path for path in varied if path in readings.single),
    )


def _draws(readings: Readings, *, skips: bool) -> dict[str, Draws]:
    """The draws of each leaf in the rounds in which generators skip numbers, or in the others."""
    rounds = [number for number, skipped in enumerate(SKIPS) if bool(skipped) == skips]
    return {
        path: {
            item: [series[number * ITEMS + item] for series in by.values() for number in rounds]
            for item in range(ITEMS)
        }
        for path, by in readings.leaves.items()
    }


def _find_in_stream(subject: Subject, changed: Conditions) -> SeedTrace:
    """Which leaves ignore the global generators, but change when numbers are skipped after the constant seeds."""

    def read(first: int, skipped: int) -> Readings:
        skips = tuple(skipped and skipped + fetch for fetch in range(STREAM_FETCHES))
        instruments = SeededFetches(tuple(range(first, first + STREAM_FETCHES))), SeedLog(skips)
        return perform(subject, Experiment(None, instruments, changed, (STREAM_FETCHES,) * EPOCHS))

    readings = read(SEED, 0)
    leaves = readings.joined()
    samples = max(map(len, leaves.values()), default=0)
    constant = _constant(readings.noted(Seedings))
    if not constant:
        return SeedTrace((), (), (), samples, 1)
    other, skipped = read(SEED + STREAM_FETCHES, 0).joined(), read(SEED, SKIPS[-1]).joined()
    frozen = [path for path, series in leaves.items() if other.get(path) == series]
    dependent = tuple(path for path in frozen if skipped.get(path) != leaves[path])
    plain = tuple(path for path in frozen if path in readings.single and len(set(leaves[path])) > 1)
    return SeedTrace(constant, dependent, plain, samples, 3)


def _derived(fetches: Sequence[Seedings]) -> bool:
    """Whether a line gives each item its own seed, and another one when numbers are skipped after a constant."""
    as_is: dict[tuple[object, ...], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    skipped: dict[tuple[object, ...], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for fetch in fetches:
        seeds = skipped if SKIPS[fetch.batch // ITEMS] else as_is
        for seeding in fetch.seeds:
            seeds[seeding.place][fetch.batch % ITEMS].add(seeding.seed)
    return any(
        all(len(seeds) == 1 for seeds in items.values())
        and len(set.union(*items.values())) > 1
        and any(seeds.isdisjoint(skipped[place][item]) for item, seeds in items.items())
        for place, items in as_is.items()
    )


def _indexed(fetches: Sequence[Seedings]) -> tuple[Seeding, ...]:
    """The seedings that give each item its own seed, whatever the epoch and the state of the global generators."""
    by_place: dict[tuple[object, ...], dict[int, list[Seeding]]] = defaultdict(lambda: defaultdict(list))
    for fetch in fetches:
        for place, seeding in {seeding.place: seeding for seeding in fetch.seeds}.items():  # of a batch, the last one
            by_place[place][fetch.batch % ITEMS].append(seeding)
    indexed = []
    for items in by_place.values():
        always = len(items) == ITEMS and all(len(made) == EPOCHS * len(SKIPS) for made in items.values())
        seeds = [{seeding.seed for seeding in made} for made in items.values()]
        if always and all(len(item_seeds) == 1 for item_seeds in seeds) and len(set.union(*seeds)) == ITEMS:
            indexed.append(items[0][0])
    return tuple(indexed)


def _constant(fetches: Sequence[Seedings], size: int = 0) -> tuple[Seeding, ...]:
    """The seedings that most fetches of both epochs make, always with the same seed.

    Of several on one line, only the outermost: `default_rng(0)`, not the `PCG64(0)` inside. Fetches hold `size` items
    in turn, or whatever a stream yields.
    """
    repeated = _repeated(fetches, size)
    return tuple({(seeding.file, seeding.line, seeding.seed): seeding for seeding in repeated}.values())


def _repeated(fetches: Sequence[Seedings], size: int) -> Iterable[Seeding]:
    by_place: dict[tuple[object, ...], list[tuple[Seedings, Seeding]]] = defaultdict(list)
    for fetch in fetches:
        for seeding in fetch.seeds:
            by_place[seeding.place].append((fetch, seeding))
    for made in by_place.values():
        seeds, epochs = {seeding.seed for _, seeding in made}, {fetch.epoch for fetch, _ in made}
        times = len({(fetch.epoch, fetch.batch) for fetch, _ in made})  # a fetch may seed for each of its samples
        one_item = _is_of_one_item({fetch.batch % ITEMS for fetch, _ in made}, size)
        if len(seeds) == 1 and len(epochs) == EPOCHS and times > len(fetches) / 2 and not one_item:
            yield made[0][1]


def _is_of_one_item(places: Set[int], size: int) -> bool:
    """Whether one item is in all fetches at these places of a round: its index may be the seed."""
    return any(places <= {(item - before) % ITEMS for before in range(size)} for item in range(ITEMS))


def _changed(before: Draws, after: Draws) -> frozenset[bytes]:
    return frozenset(value for item, draws in after.items() for value in draws if value not in before[item])


def _differ(before: Draws, after: Draws) -> bool:
    return any(set(draws) != set(after.get(item, draws)) for item, draws in before.items())
