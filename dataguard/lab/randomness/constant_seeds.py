"""Seeds that are the same for every sample, and what depends on one generator: two questions that experiments answer.

Constant seeds: each item is drawn under different states of the global generators, over two epochs. Then generators
that always get the same seed skip some numbers, to see which values depend on them. The samples of a stream cannot be
drawn again: there, whole runs are compared, position by position. If seeds depend on the item alone, the same is done
with all generators that are seeded.

Dependence on one generator: it draws freely from its own seed, while all other RNGs are frozen. Each reading is made
twice with the same seed for that generator, and once with another. Leaves that differ between the first two are
uncontrolled: they depend on something that cannot be frozen. Leaves that differ only under the other seed depend on the
generator. Two workers read a map-style dataset, which shows whether a leaf also depends on the worker id; one process
reads a stream, because workers would read different samples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from dataguard.lab.core.records import Census, Seeding, Seedings
from dataguard.lab.randomness.worker_draws import batch_size
from dataguard.lab.reading.experiment import FORKED, Conditions, Experiment, Readings, Script, Series, perform
from dataguard.lab.rng.frozen_rng import FrozenRngs, SeededFetches, UnfrozenRng
from dataguard.lab.rng.rng_discovery import SEED, RngCensus
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
        return _find_in_stream(subject, (*changed, *one_by_one(subject)))
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

    def look(first: int, skipped: int) -> Readings:
        skips = tuple(skipped and skipped + fetch for fetch in range(STREAM_FETCHES))
        instruments = SeededFetches(tuple(range(first, first + STREAM_FETCHES))), SeedLog(skips)
        return perform(subject, Experiment(None, instruments, changed, (STREAM_FETCHES,) * EPOCHS))

    readings = look(SEED, 0)
    leaves = readings.joined()
    samples = max(map(len, leaves.values()), default=0)
    constant = _constant(readings.noted(Seedings))
    if not constant:
        return SeedTrace((), (), (), samples, 1)
    other, skipped = look(SEED + STREAM_FETCHES, 0).joined(), look(SEED, SKIPS[-1]).joined()
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
    found = []
    for items in by_place.values():
        always = len(items) == ITEMS and all(len(made) == EPOCHS * len(SKIPS) for made in items.values())
        seeds = [{seeding.seed for seeding in made} for made in items.values()]
        if always and all(len(own) == 1 for own in seeds) and len(set.union(*seeds)) == ITEMS:
            found.append(items[0][0])
    return tuple(found)


def _constant(fetches: Sequence[Seedings], size: int = 0) -> tuple[Seeding, ...]:
    """The seedings that most fetches of both epochs make, always with the same seed.

    Of several on one line, only the outermost: `default_rng(0)`, not the `PCG64(0)` inside. Fetches hold `size` items
    in turn, or whatever a stream yields.
    """
    found = _repeated(fetches, size)
    return tuple({(seeding.file, seeding.line, seeding.seed): seeding for seeding in found}.values())


def _repeated(fetches: Sequence[Seedings], size: int) -> Iterable[Seeding]:
    by_place: dict[tuple[object, ...], list[tuple[Seedings, Seeding]]] = defaultdict(list)
    for fetch in fetches:
        for seeding in fetch.seeds:
            by_place[seeding.place].append((fetch, seeding))
    for made in by_place.values():
        seeds, epochs = {seeding.seed for _, seeding in made}, {fetch.epoch for fetch, _ in made}
        times = len({(fetch.epoch, fetch.batch) for fetch, _ in made})  # a fetch may seed for each of its samples
        own = _is_of_one_item({fetch.batch % ITEMS for fetch, _ in made}, size)
        if len(seeds) == 1 and len(epochs) == EPOCHS and times > len(fetches) / 2 and not own:
            yield made[0][1]


def _is_of_one_item(places: Set[int], size: int) -> bool:
    """Whether one item is in all fetches at these places of a round: its index may be the seed."""
    return any(places <= {(item - before) % ITEMS for before in range(size)} for item in range(ITEMS))


def _changed(one: Draws, two: Draws) -> frozenset[bytes]:
    return frozenset(value for item, draws in two.items() for value in draws if value not in one[item])


def _differ(one: Draws, two: Draws) -> bool:
    return any(set(draws) != set(two.get(item, draws)) for item, draws in one.items())


WORKERS = 2
"""Workers, the fewest that can differ."""
TWO_FORKED: Conditions = (*FORKED, ("num_workers", WORKERS))
FROZEN_ITEMS, FROZEN_ROUNDS = 8, 8
"""Items that are read with all other RNGs frozen, and how often after the generator was seeded again.

What a generator changes in one read of sixteen shows in 64 reads with a probability of 98 %; more take longer.
"""
RESEEDED = 1 + FROZEN_ITEMS
"""The fetch before which the generator is seeded: by then caches are filled, and generators exist."""
ORDER = (0, *(tuple(range(1, RESEEDED)) * (1 + FROZEN_ROUNDS)))
SEEDS = tuple(SEED + fetch for fetch in range(len(ORDER)))
ONE, OTHER = SEED - 1, SEED - 2
"""Seeds of the generator; no other RNG gets them."""

ITEM_EPOCHS = (
    ((0, ONE), (RESEEDED, ONE)),
    ((0, ONE), (RESEEDED, ONE)),
    ((0, ONE), (RESEEDED, OTHER)),
    ((0, OTHER), (RESEEDED, ONE), (len(ORDER) - 1, ONE)),
)
"""The epochs: two equal ones, one with another seed, and one with another first seed, seeded again at its end."""

START_FETCHES = 8
"""Fetches of each epoch, where only the start of a stream is read."""
START_EPOCHS = (((0, ONE),), ((0, ONE),), ((0, OTHER), (START_FETCHES - 1, ONE)))
"""The epochs: two equal ones, and one with another first seed, seeded again at its end."""
FROZEN_FETCHES = 256
"""Fetches of a stream that are each frozen with a different seed."""

States = Mapping[tuple[int, int, int], bytes]
"""The states of one generator by worker, epoch and number of fetches."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """`leaves` depend on the generator, `uncontrolled` ones on something that cannot be frozen.

    `keeps_state`: the first fetch does not seed the generator: it draws from the earlier state, or does not use it.
    `is_used`: later fetches draw from the generator.
    """

    leaves: tuple[str, ...]
    uncontrolled: tuple[str, ...]
    keeps_state: bool
    is_used: bool


@dataclass(frozen=True, slots=True)
class StreamDependence:
    """`changed`: the leaves that change with the generator, each with its share of new values.

    `reordered`: the order of a leaf that identifies samples changes, or there is no such leaf.
    """

    changed: dict[str, float]
    uncontrolled: tuple[str, ...]
    reordered: bool
    ended: bool


class RngDependence:
    """Which outputs depend on each generator of one loader; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def of_items(self, path: str) -> Dependence:
        """What depends on the generator at a path, in a map-style dataset."""
        script = Script(((ORDER,) * WORKERS,) * len(ITEM_EPOCHS), batch_size(self._subject.facts))
        instruments = RngCensus((1, len(ORDER))), FrozenRngs((SEEDS,), UnfrozenRng(path, ITEM_EPOCHS))
        readings = perform(self._subject, Experiment(script, instruments, TWO_FORKED))
        return _dependence(readings, _states(readings, path))

    def at_start(self, path: str) -> tuple[bool, bool]:
        """Whether a generator `keeps_state` and `is_used`, as in `Dependence`, where a stream begins."""
        instruments = RngCensus((1, START_FETCHES)), FrozenRngs((SEEDS,), UnfrozenRng(path, START_EPOCHS))
        changed, batches = (*one_by_one(self._subject), *TWO_FORKED), (START_FETCHES * WORKERS,) * len(START_EPOCHS)
        experiment = Experiment(None, instruments, changed, batches, announced="never")
        states = _states(perform(self._subject, experiment), path)
        is_used = states.get((0, 0, START_FETCHES)) != states.get((0, 2, START_FETCHES))
        return _keeps_state(states, same=(0, 1), other=2), is_used

    def of_stream(self, path: str, *, varied: bool) -> StreamDependence:
        """What depends on the generator at a path, in a stream.

        Without `varied`, all fetches are frozen with the same seed.
        """
        subject = self._subject
        seeds = tuple(SEED + fetch for fetch in range(FROZEN_FETCHES)) if varied else (SEED,)

        def look(seed: int, repeat: int) -> Readings:
            experiment = Experiment(
                None,
                (FrozenRngs((seeds,), UnfrozenRng(path, (((0, ONE), (1, seed)),))),),
                (("num_workers", 0), *one_by_one(subject)),
                (subject.settings.samples,),
                announced="never",
                seconds=0.05 * subject.settings.budget,
                repeat=repeat,
            )
            return perform(subject, experiment)

        return _stream_dependence(look(ONE, 0), look(ONE, 1), look(OTHER, 0))


def one_by_one(subject: Subject) -> Conditions:
    """Batches of one sample, where torch makes the batches of a stream."""
    return (("batch_size", 1),) if subject.facts.batched else ()


def _dependence(readings: Readings, states: States) -> Dependence:
    late = {path: {where: one[RESEEDED:] for where, one in by.items()} for path, by in readings.leaves.items()}
    ends = {states.get((0, epoch, len(ORDER))) for epoch in (0, 2, 3)}
    return Dependence(
        leaves=tuple(path for path, by in late.items() if _depends(by)),
        uncontrolled=tuple(path for path, by in late.items() if by.get((0, 0)) != by.get((0, 1))),
        keeps_state=_keeps_state(states, same=(0, 1, 2), other=3),
        is_used=len(ends) == 3,
    )


def _depends(by: Mapping[tuple[int, int], Series]) -> bool:
    """Whether a leaf changes with the generator alone: it is equal in two workers."""
    one, again, other, beside = (by.get(where, ()) for where in ((0, 0), (0, 1), (0, 2), (1, 0)))
    return one == again == beside != other


def _states(readings: Readings, path: str) -> States:
    return {
        (*census.where, census.fetches): census.states[path].state
        for census in readings.noted(Census)
        if path in census.states
    }


def _keeps_state(states: States, same: Sequence[int], other: int) -> bool:
    """Whether states after the first fetch follow from those before it, which are equal in all epochs except `other`.

    They may differ, because the number of draws may vary; but if each is new, the fetch seeds the generator.
    Workers may outlive their first epoch, and seed it only then.
    """
    after = {epoch: [states.get((worker, epoch, 1)) for worker in range(WORKERS)] for epoch in (*same, other)}
    expected = [state for epoch in same for state in after[epoch]]
    follows = any(expected.count(state) > 1 for state in after[same[0]] if state is not None)
    return follows and not set(expected) & set(after[other])


def _stream_dependence(as_is: Readings, repeated: Readings, reseeded: Readings) -> StreamDependence:
    """Compare two equal runs with one in which the generator gets another seed."""
    one, again, other = as_is.joined(), repeated.joined(), reseeded.joined()
    uncontrolled = tuple(path for path, series in one.items() if not _agree(series, again.get(path, ())))
    stable = {path: series for path, series in one.items() if path not in uncontrolled}
    kept = [path for path, series in stable.items() if _agree(series, other.get(path, ()))]
    return StreamDependence(
        changed={path: _new(series, other.get(path, ())) for path, series in stable.items() if path not in kept},
        uncontrolled=uncontrolled,
        reordered=not any(len(set(one[path])) > len(one[path]) / 2 for path in kept),
        ended=as_is.ended and reseeded.ended,
    )


def _new(one: Series, other: Series) -> float:
    """The share of values in the other run that this one does not have."""
    known = set(one)
    return sum(value not in known for value in other) / max(len(other), 1)


def _agree(one: Series, other: Series) -> bool:
    """Whether a leaf is equal in two runs, up to the end of the shorter one."""
    length = min(len(one), len(other))
    return length > 0 and one[:length] == other[:length]
