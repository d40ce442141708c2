"""Random numbers that are the same for every sample, because their generator is seeded with a constant each time.

Each item is drawn under different states of the global generators, over two epochs. Then generators that always get the
same seed skip some numbers, to see which values depend on them. The samples of a stream cannot be drawn again: there,
whole runs are compared, position by position. If seeds depend on the item alone, the same is done with all generators
that are seeded.

Which outputs depend on one generator: it draws freely from its own seed, while all other RNGs are frozen.

Each reading is made twice with the same seed for that generator, and once with another. Leaves that differ between the
first two are uncontrolled: they depend on something that cannot be frozen. Leaves that differ only under the other seed
depend on the generator. Two workers read a map-style dataset, which shows whether a leaf also depends on the worker id;
one process reads a stream, because workers would read different samples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dataguard.core.model import Undecided
from dataguard.lab.core.index_schedules import EveryWorkerReads
from dataguard.lab.core.records import BatchRecord, Census, SampleRecord, Seeding, Seedings, named_leaves
from dataguard.lab.process.incidents import read_spools
from dataguard.lab.randomness.worker_draws import batch_size
from dataguard.lab.reading.sample_reader import FORKED, Readings, Series, read_trials, run_trials
from dataguard.lab.rng.frozen_rng import FrozenRngs, SeededFetches, UnfrozenRng
from dataguard.lab.rng.rng_discovery import SEED, RngCensus
from dataguard.lab.rng.seed_watch import SeedLog
from dataguard.lab.spy.drive import Ride, drive
from dataguard.lab.spy.recording import Records
from dataguard.lab.spy.worker_spy import Plan
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

WORKERS = 2
TWO: dict[str, Any] = {**FORKED, "num_workers": WORKERS}
DEPENDENCE_ITEMS, ROUNDS = 8, 8
FIRST = 1 + DEPENDENCE_ITEMS
"""The fetch before which the generator is seeded: by then caches are filled, and generators exist."""
SCRIPT = (0, *(tuple(range(1, FIRST)) * (1 + ROUNDS)))
SEEDS = tuple(SEED + fetch for fetch in range(len(SCRIPT)))
ONE, OTHER = SEED - 1, SEED - 2
"""Seeds of the generator; no other RNG gets them."""

MAPPED = (
    ((0, ONE), (FIRST, ONE)),
    ((0, ONE), (FIRST, ONE)),
    ((0, ONE), (FIRST, OTHER)),
    ((0, OTHER), (FIRST, ONE), (len(SCRIPT) - 1, ONE)),
)
"""The epochs: two equal ones, one with another seed, and one with another first seed, seeded again at its end."""
READS = len(MAPPED) * WORKERS * len(SCRIPT)

STARTING = 8
"""Fetches of each epoch, where only the start of a stream is read."""
STARTS = (((0, ONE),), ((0, ONE),), ((0, OTHER), (STARTING - 1, ONE)))
"""The epochs: two equal ones, and one with another first seed, seeded again at its end."""
DEPENDENCE_STREAMED = 256
"""Fetches of a stream that are each frozen with a different seed."""

Leaves = Mapping[str, Series]
Run = tuple[Leaves, bool]
"""Every leaf of a stream, and whether it ended."""
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
        subject, size = self._subject, batch_size(self._subject.facts)
        subject.afford_reads(("dependence", path), READS * size)
        scripts = [[SCRIPT] * WORKERS] * len(MAPPED)
        build, unfrozen, census = partial(subject.build, **TWO), UnfrozenRng(path, MAPPED), RngCensus((1, len(SCRIPT)))
        return subject.vary(
            ("dependence", path),
            lambda folder: run_trials(build, folder, scripts, [SEEDS], size, unfrozen=unfrozen, instruments=(census,)),
            lambda folder, complete: _dependence(read_trials(scripts, folder, complete), _states(folder, path)),
        )

    def at_start(self, path: str) -> tuple[bool, bool]:
        """Whether a generator `keeps_state` and `is_used`, as in `Dependence`, where a stream begins."""

        def run(folder: Path) -> list[Ride]:
            instruments = (RngCensus((1, STARTING)), FrozenRngs((SEEDS,), UnfrozenRng(path, STARTS)), Records())
            plan = Plan(folder, instruments, keep_going=True, announce=False)
            loader = self._subject.build(**self._one_by_one, **TWO)
            return drive(loader, plan, batches=(STARTING * WORKERS,) * len(STARTS))

        def read(folder: Path, _: object) -> tuple[bool, bool]:
            states = _states(folder, path)
            is_used = states.get((0, 0, STARTING)) != states.get((0, 2, STARTING))
            return _keeps_state(states, same=(0, 1), other=2), is_used

        return self._subject.vary(("start", path), run, read)

    def of_stream(self, path: str, *, varied: bool) -> StreamDependence:
        """What depends on the generator at a path, in a stream.

        Without `varied`, all fetches are frozen with the same seed.
        """
        subject = self._subject
        seeds = tuple(SEED + fetch for fetch in range(DEPENDENCE_STREAMED)) if varied else (SEED,)
        batches, seconds = (subject.settings.samples,), 0.05 * subject.settings.budget

        def look(seed: int, number: int) -> Run:
            frozen = FrozenRngs((seeds,), UnfrozenRng(path, (((0, ONE), (1, seed)),)))

            def run(folder: Path) -> bool:
                plan = Plan(folder, (frozen, Records()), keep_going=True, announce=False)
                loader = subject.build(num_workers=0, **self._one_by_one)
                return drive(loader, plan, batches=batches, seconds=seconds)[0].ended

            return subject.vary(("dependence", path, varied, seed, number), run, _read_dependent_stream)

        return _stream_dependence(look(ONE, 0), look(ONE, 1), look(OTHER, 0))

    @property
    def _one_by_one(self) -> dict[str, Any]:
        return {"batch_size": 1} if self._subject.facts.batched else {}


def _dependence(readings: Readings, states: States) -> Dependence:
    late = {path: {where: one[FIRST:] for where, one in by.items()} for path, by in readings.items()}
    ends = {states.get((0, epoch, len(SCRIPT))) for epoch in (0, 2, 3)}
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


def _states(folder: Path, path: str) -> States:
    return {
        (*census.where, census.fetches): census.states[path].state
        for census in read_spools(folder)
        if isinstance(census, Census) and path in census.states
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


def _stream_dependence(one_run: Run, again_run: Run, other_run: Run) -> StreamDependence:
    """Compare two equal runs with one in which the generator gets another seed."""
    (one, ended), (again, _), (other, other_ended) = one_run, again_run, other_run
    uncontrolled = tuple(path for path, series in one.items() if not _agree(series, again.get(path, ())))
    stable = {path: series for path, series in one.items() if path not in uncontrolled}
    kept = [path for path, series in stable.items() if _agree(series, other.get(path, ()))]
    return StreamDependence(
        changed={path: _new(series, other.get(path, ())) for path, series in stable.items() if path not in kept},
        uncontrolled=uncontrolled,
        reordered=not any(len(set(one[path])) > len(one[path]) / 2 for path in kept),
        ended=ended and other_ended,
    )


def _new(one: Series, other: Series) -> float:
    """The share of values in the other run that this one does not have."""
    known = set(one)
    return sum(value not in known for value in other) / max(len(other), 1)


def _agree(one: Series, other: Series) -> bool:
    """Whether a leaf is equal in two runs, up to the end of the shorter one."""
    length = min(len(one), len(other))
    return length > 0 and one[:length] == other[:length]


def _read_dependent_stream(folder: Path, ended: bool | None) -> Run:
    """Every leaf, sample by sample. Raises Undecided when the budget cut it short."""
    if ended is None:
        raise Undecided("the budget ran out while a stream was read again")
    leaves: dict[str, list[bytes]] = defaultdict(list)
    for record in read_spools(folder):
        if isinstance(record, SampleRecord | BatchRecord):
            for path, leaf in named_leaves(record):
                leaves[path].append(leaf.digest)
    return {path: tuple(series) for path, series in leaves.items()}, ended


ITEMS = 6
SKIPS = (0, 0, 3, 9)
"""For each round over the items, how many numbers a generator skips after it was seeded with a constant.

Each item skips one more than the last: a coin flip may give the same result a few times.
"""
EPOCHS = 2
DRAWS = ITEMS * len(SKIPS)
"""Fetches of an epoch."""
STREAMED = 16
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
    facts = subject.facts
    build_one = partial(subject.build, **FORKED) if facts.num_workers else subject.build
    if facts.kind == "stream":
        return _observe_stream(subject, partial(build_one, batch_size=1) if facts.batched else build_one)
    size = batch_size(facts)
    return subject.vary(
        ("seedings", "any" if always else "constant"),
        lambda folder: run_seedings(build_one, folder, size, always=always),
        partial(read_seedings, size=size),
    )


def run_seedings(build: Callable[..., Loader], folder: Path, size: int, *, always: bool) -> list[Ride]:
    """Draw the items in one process."""

    def schedule(inner: object, batched: bool) -> EveryWorkerReads:
        return EveryWorkerReads(inner, 1, ITEMS, (ITEMS,) * len(SKIPS), size, batched=batched, spread=True)

    skips = tuple(skipped and skipped + item for skipped in SKIPS for item in range(ITEMS))
    plan = Plan(
        folder,
        (SeededFetches(tuple(SEED + number for number in range(DRAWS))), SeedLog(skips, always), Records()),
        length=DRAWS,
        keep_going=True,
    )
    return drive(build(schedule=schedule), plan, batches=(DRAWS,) * EPOCHS)


def read_seedings(folder: Path, rides: list[Ride] | None, size: int) -> SeedTrace:
    """Compare the draws leaf by leaf; a fetch holds `size` items. Raises Undecided when the budget cut them short."""
    records = list(read_spools(folder))
    as_is: dict[str, Draws] = defaultdict(lambda: defaultdict(list))
    skipped: dict[str, Draws] = defaultdict(lambda: defaultdict(list))
    fetched = set()
    plain = {}
    for record in records:
        if not isinstance(record, SampleRecord | BatchRecord):
            continue
        first = isinstance(record, BatchRecord) or record.position == 0
        fetched.add((record.epoch, record.batch))
        for path, leaf in named_leaves(record) if first else ():
            draws = skipped if SKIPS[record.batch // ITEMS] else as_is
            draws[path][record.batch % ITEMS].append(leaf.digest)
            plain[path] = not leaf.shape
    if rides is None or len(fetched) < EPOCHS * DRAWS:
        raise Undecided("the budget ran out while samples were drawn repeatedly")
    frozen = tuple(path for path, items in as_is.items() if all(len(set(draws)) == 1 for draws in items.values()))
    seedings = [record for record in records if isinstance(record, Seedings)]
    dependent = tuple(path for path in frozen if _differ(as_is[path], skipped[path]))
    return SeedTrace(
        constant=_constant(seedings, size),
        dependent=dependent,
        indexed=_indexed(seedings),
        derived=_derived(seedings),
        libraries=frozenset(name for fetch in seedings for name in fetch.libraries),
        changed={path: _changed(as_is[path], skipped[path]) for path in dependent},
        plain=tuple(path for path in frozen if plain[path] and len({draws[0] for draws in as_is[path].values()}) > 1),
    )


@dataclass(frozen=True, slots=True)
class _Streamed:
    """The seeds used in two epochs of a stream, and every leaf, sample by sample; `plain` as in `SeedTrace`."""

    seedings: tuple[Seedings, ...]
    leaves: Mapping[str, Sequence[bytes]]
    plain: frozenset[str]


def _observe_stream(subject: Subject, build: Callable[..., Loader]) -> SeedTrace:
    """Which leaves ignore the global generators, but change when numbers are skipped after the constant seeds."""

    def look(first: int, skipped: int) -> _Streamed:
        def run(folder: Path) -> list[Ride]:
            skips = [skipped and skipped + fetch for fetch in range(STREAMED)]
            instruments = (SeededFetches(range(first, first + STREAMED)), SeedLog(skips), Records())
            return drive(build(), Plan(folder, instruments, keep_going=True), batches=(STREAMED,) * EPOCHS)

        return subject.vary(("seedings", first, skipped), run, _read_stream)

    one = look(SEED, 0)
    samples = max(map(len, one.leaves.values()), default=0)
    constant = _constant(one.seedings)
    if not constant:
        return SeedTrace((), (), (), samples, 1)
    other, skipped = look(SEED + STREAMED, 0), look(SEED, SKIPS[-1])
    frozen = [path for path, series in one.leaves.items() if other.leaves.get(path) == series]
    dependent = tuple(path for path in frozen if skipped.leaves.get(path) != one.leaves[path])
    return SeedTrace(constant, dependent, tuple(path for path in frozen if path in one.plain), samples, 3)


def _read_stream(folder: Path, rides: list[Ride] | None) -> _Streamed:
    """Concatenate the samples of both epochs. Raises Undecided when the budget cut them short."""
    if rides is None:
        raise Undecided("the budget ran out while the stream was read")
    leaves: dict[str, list[bytes]] = defaultdict(list)
    single = set()
    records = list(read_spools(folder))
    for record in records:
        # A worker prefetches, and not always the same number of batches.
        if isinstance(record, SampleRecord | BatchRecord) and record.batch < STREAMED:
            for path, leaf in named_leaves(record):
                leaves[path].append(leaf.digest)
                single |= set() if leaf.shape else {path}
    plain = frozenset(path for path in single if len(set(leaves[path])) > 1)
    return _Streamed(tuple(record for record in records if isinstance(record, Seedings)), leaves, plain)


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
