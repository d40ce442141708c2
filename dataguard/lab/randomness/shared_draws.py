"""Whether workers, or the epochs of a worker, draw the same random numbers, and if so, from which generator.

The search, from `find_shared_draws`: draw the same items everywhere and compare; test each suspect by advancing it in
one worker and epoch only; search for generators whose repeat is masked by other randomness, or by the different samples
that workers of a stream read: freezing all other RNGs shows which outputs depend on such a generator, and in a stream
the content has to depend on it, not only the order. Only when a generator is found are the lines observed that make it,
seed it and draw from it (`with_lines`): an ordinary scan pays nothing for them.

Beside it, numbers that are drawn once for each index and cached with its sample, see `find_cached_draws`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, groupby, islice
from typing import Literal

from dataguard.core.incident import observed_or_none
from dataguard.core.model import Location, Undecided
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.records import GeneratorState, WorkerEpoch
from dataguard.lab.dataset.dataset_observations import DatasetObservations, find_changed
from dataguard.lab.dataset.repeated_reads import Readings
from dataguard.lab.randomness.generator_lines import with_lines
from dataguard.lab.randomness.rng_dependence import Dependence, RngDependence, StreamDependence
from dataguard.lab.randomness.worker_draws import (
    GLANCE,
    Comparison,
    Draw,
    Repeat,
    Suspect,
    WorkerDraws,
    blame_library,
    compare_draws,
    differing_leaves,
    draws_often,
    draws_take_little,
    find_same_items,
)
from dataguard.lab.reading.experiment import FORKED, Experiment, Script, perform
from dataguard.lab.rng.frozen_rng import FrozenRngs
from dataguard.lab.rng.rng_discovery import SEED, Pair, cloned_generators, overlapping_generators
from dataguard.lab.streams.stream_observations import Streams
from dataguard.lab.streams.stream_trace import StreamTrace
from dataguard.lab.subject import Subject
from dataguard.settings.parsers import EVALUATION

MOST_SUSPECTS = 4
"""Most generators that are tested for each pair, one observation each."""

Between = Literal["workers", "epochs"]


@dataclass(frozen=True, slots=True)
class SharedDraws:
    """The first `repeat`, if there is one; how much was `exercised`, by unit; and the indices drawn, as text."""

    exercised: Mapping[str, int]
    repeat: Repeat | None
    shown: tuple[str, ...] = ()


def find_shared_draws(subject: Subject, between: Between) -> SharedDraws:
    """Compare every two workers in the first epoch, or each worker in two epochs; of a stream only workers 0 and 1.

    Raises Undecided when coincidence cannot be excluded, when draws repeat and no generator explains it, or when the
    leaves that may depend on a generator are uncontrolled.
    """
    shared = _search_stream(subject, between) if subject.facts.kind == "stream" else _search_items(subject, between)
    return replace(shared, repeat=shared.repeat and with_lines(subject, shared.repeat))


def _search_items(subject: Subject, between: Between) -> SharedDraws:
    if (readings := _equal_readings(subject)) is not None:
        return SharedDraws(readings.exercised, None)
    draw, pairs = partial(find_same_items, subject), _PAIRS[between]
    comparison = compare_draws(draw, pairs, often=draws_often(subject))
    draws = comparison.draws
    repeat = (
        confirm_suspects(draw, comparison, subject.facts)
        or blame_library(draw, pairs, comparison)
        or find_masked(subject, draws, pairs(draws))
    )
    exercised = {"draws": draws.draws, "items": draws.items, "workers": draws.workers}
    if between == "epochs":
        exercised |= {"draws": 2 * draws.draws, "epochs": 2}
    return SharedDraws(exercised, repeat, draws.shown)


def _equal_readings(subject: Subject) -> Readings | None:
    """Repeated reads of slow samples for evaluation, if none varies in any state: then workers draw nothing.

    A collate_fn of the user might draw beside them.
    """
    facts = subject.facts
    if facts.role not in EVALUATION or not facts.default_collate or draws_take_little(subject):
        return None
    readings = observed_or_none(lambda: DatasetObservations(subject).readings)
    return readings if readings is not None and readings.are_equal else None


def _search_stream(subject: Subject, between: Between) -> SharedDraws:
    trace = Streams(subject).stream(subject.facts.num_workers, seeded=False)
    repeat = find_in_stream(subject, trace, _FIRST[between])
    return SharedDraws({"samples": trace.total, between: 2}, repeat)


def find_latent_clone(subject: Subject) -> GeneratorState | None:
    """The generator from which two workers would draw the same numbers, if the loader has fewer (map-style only)."""
    if subject.facts.kind == "stream":
        return None
    draws = find_same_items(subject, GLANCE, num_workers=2, method="fork" if subject.facts.spawns else None)
    return next(iter(cloned_generators(draws.censuses, _FIRST["workers"])), None)


def confirm_suspects(draw: Draw, comparison: Comparison, facts: LoaderFacts) -> Repeat | None:
    """The first suspicious repeat with the suspects that it depends on; None if it depends on none of them.

    Equal draws prove nothing against a generator: they may come from state that the workers share because they read the
    same items. Forked workers are asked first, because others take long to start. Raises Undecided if there is too
    little time to test the suspects.
    """
    repeat = comparison.suspicious
    if repeat is None:
        return None
    for method in ("fork", None) if facts.spawns else (None,):
        redraw = partial(draw, comparison.effort, method=method)
        suspects = islice(_continuing(redraw, repeat), MOST_SUSPECTS)
        tested = (_tested(redraw, repeat, suspect) for suspect in suspects)
        proven = [suspect for suspect in tested if suspect.changes]
        if proven:
            proven.sort(key=lambda suspect: repeat.leaves.index(suspect.changes[0]))
            return replace(repeat, suspects=tuple(proven))
    return None


def _continuing(draw: Callable[..., WorkerDraws], repeat: Repeat) -> Iterator[Suspect]:
    """The suspects without those that each item creates again, in a state that depends on the item alone.

    Such a generator returns to its state when the item is read again. One that continues from draw to draw never does.
    """
    first = _states(draw(), repeat.one)
    made = {
        suspect.path: {states[suspect.path].made for states in first if suspect.path in states}
        for suspect in repeat.suspects
    }
    again = _states(draw(watch_item=True), repeat.one) if any(len(objects) > 1 for objects in made.values()) else []
    for suspect in repeat.suspects:
        seen = [state for state, _ in groupby(states[suspect.path].state for states in again if suspect.path in states)]
        if len(made[suspect.path]) < 2 or len(set(seen)) == len(seen):
            yield suspect


def _states(draws: WorkerDraws, where: WorkerEpoch) -> list[dict[str, GeneratorState]]:
    """The generators in one worker and epoch by path, fetch by fetch."""
    censuses = sorted((census for census in draws.censuses if census.where == where), key=lambda census: census.fetches)
    return [{state.path: state for state in census.generators} for census in censuses]


def _tested(draw: Callable[..., WorkerDraws], repeat: Repeat, suspect: Suspect) -> Suspect:
    """A suspect with the leaves that change if it is advanced in the second worker and epoch only."""
    as_is, advanced = (
        differing_leaves(draws, (repeat.one, repeat.two))
        for draws in (draw(), draw(advance=(suspect.path, repeat.two)))
    )
    return replace(suspect, changes=tuple(leaf for leaf in repeat.leaves if leaf in advanced - as_is))


def _worker_pairs(draws: WorkerDraws) -> Sequence[Pair]:
    """Every two workers in the first epoch."""
    return list(combinations([WorkerEpoch(worker, 0) for worker in range(draws.workers)], 2))


def _epoch_pairs(draws: WorkerDraws) -> Sequence[Pair]:
    """Each worker in two epochs."""
    return [(WorkerEpoch(worker, 0), WorkerEpoch(worker, 1)) for worker in range(draws.workers)]


_PAIRS = {"workers": _worker_pairs, "epochs": _epoch_pairs}
_FIRST: dict[Between, Pair] = {
    "workers": (WorkerEpoch(0, 0), WorkerEpoch(1, 0)),
    "epochs": (WorkerEpoch(0, 0), WorkerEpoch(0, 1)),
}


CHANGED, CHANGED_BEGINNING = 0.2, 0.98
"""The share of new samples above which content has changed: in a whole stream, and in the beginning of one.

Advancing the generator of a shuffle buffer moves some new samples into the beginning of a stream, but far from all.
"""


def find_masked(subject: Subject, draws: WorkerDraws, pairs: Sequence[Pair]) -> Repeat | None:
    """The first generator that a pair shares and that a leaf depends on.

    Raises Undecided when all leaves that may depend on one are uncontrolled: they vary while all RNGs are frozen.
    """
    unclear: list[str] = []
    for pair in pairs:
        for generator, at_start in islice(overlapping_generators(draws.censuses, pair), MOST_SUSPECTS):
            dependence = _dependence(subject, generator, at_start=at_start)
            if dependence is None or not _is_shared_as_is(subject, draws, generator, pair):
                continue
            if dependence.leaves:
                leaves = tuple(leaf for leaf in dependence.leaves if leaf.startswith("sample")) or dependence.leaves
                return Repeat(*pair, (Suspect(generator, leaves),), leaves, masked=True)
            unclear.append(_unclear(generator, dependence.uncontrolled[0]))
    if unclear:
        raise Undecided(unclear[0])
    return None


def find_in_stream(subject: Subject, trace: StreamTrace, pair: Pair) -> Repeat | None:
    """The first generator that a pair shares and that changes the content of a stream's samples.

    Raises Undecided when the generators were not observed long enough, or when the leaves that may depend on one are
    uncontrolled.
    """
    if len({census.fetches for census in trace.censuses if census.fetches}) < 2:
        raise Undecided("each worker yields too few batches to watch its generators: lower the batch size")
    rng_dependence = RngDependence(subject)
    unclear: list[str] = []
    for generator, at_start in islice(overlapping_generators(trace.censuses, pair), MOST_SUSPECTS):
        if at_start and not rng_dependence.at_start(generator.path)[0]:
            continue
        dependence = rng_dependence.of_stream(generator.path, varied=True)
        changed = _changed_content(rng_dependence, generator, dependence)
        if changed:
            return Repeat(*pair, (Suspect(generator),), changed=changed)
        if dependence.uncontrolled and not dependence.reordered and rng_dependence.at_start(generator.path)[1]:
            unclear.append(_unclear(generator, dependence.uncontrolled[0]))
    if unclear:
        raise Undecided(unclear[0])
    return None


def _unclear(generator: GeneratorState, leaf: str) -> str:
    return f"{generator.path} repeats its state; {leaf} may depend on it, but varies even when all RNGs are frozen"


def _dependence(subject: Subject, generator: GeneratorState, *, at_start: bool) -> Dependence | None:
    """What depends on a generator; None if nothing does, or if it is equal `at_start` and the first fetch seeds it."""
    try:
        dependence = RngDependence(subject).of_items(generator.path)
    except Undecided:
        if generator.library:  # too little time to see whether the library is used at all
            return None
        raise
    if at_start and not dependence.keeps_state:
        return None
    return dependence if dependence.leaves or (dependence.uncontrolled and dependence.is_used) else None


def _is_shared_as_is(subject: Subject, draws: WorkerDraws, generator: GeneratorState, pair: Pair) -> bool:
    """Whether a generator is also shared if nothing is seeded before it is created.

    One that is created late may be seeded from a global generator that we seeded, and look cloned.
    """
    starts = [census.states for census in draws.censuses if not census.fetches and census.where in pair]
    if all(generator.path in states for states in starts):
        return True
    as_is = find_same_items(subject, as_is_first=True)
    return any(other.path == generator.path for other, _ in overlapping_generators(as_is.censuses, pair))


def _changed_content(rng_dependence: RngDependence, generator: GeneratorState, dependence: StreamDependence) -> float:
    """The share of new values in a leaf whose content depends on this generator; 0 if only its order does."""
    frozen = rng_dependence.of_stream(generator.path, varied=False) if dependence.reordered else dependence
    new = max(frozen.changed.values(), default=0.0)
    enough = 0.0 if frozen.ended else CHANGED_BEGINNING  # the leaf that kept its order may be a mere counter
    return new if new > (CHANGED if dependence.reordered and frozen.ended else enough) else 0.0


CACHE_ITEMS = range(1, 9)
"""Positions of the items; item 0 is read first, with one seed in all processes, because some state is created late."""
CACHE_ROUNDS = 3
"""Reads of each item in a process: the first may fill a cache, and two others show whether it is used."""
CACHE_READS = 3 * (1 + CACHE_ROUNDS * len(CACHE_ITEMS))
WARM_UP_SEED, FIRST_SEED, OTHER_SEED, LATER_SEED = SEED, SEED + 100, SEED + 200, SEED + 300
"""Seeds. The first reads share one seed between two items, so that purely random images are equal in pairs."""

Values = Mapping[int, bytes]
"""The digest of a leaf that is the same at every read of an item."""


@dataclass(frozen=True, slots=True)
class CachedDraws:
    """`leaves` hold numbers drawn at the first read of their index; `changed` are attributes that reading changes.

    Of those in `once`, only the first read of an index holds numbers that are drawn, and all later ones hold others.
    """

    leaves: tuple[str, ...] = ()
    changed: tuple[Location, ...] = ()
    once: tuple[str, ...] = ()


def find_cached_draws(subject: Subject) -> CachedDraws:
    """Read in two processes; in the third one only if those differ."""
    changed = FORKED if subject.facts.num_workers else ()

    def values(seed: int, items: Sequence[int]) -> tuple[dict[str, Values], dict[str, tuple[Values, Values]]]:
        order = (0, *items, *CACHE_ITEMS, *CACHE_ITEMS)
        seeds = (
            WARM_UP_SEED,
            *(seed + (item - 1) // 2 for item in items),
            *range(LATER_SEED, LATER_SEED + 2 * len(CACHE_ITEMS)),
        )
        readings = perform(subject, Experiment(Script(((order,),)), (FrozenRngs((seeds,)),), changed))
        series = {path: by.get((0, 0), ()) for path, by in readings.leaves.items() if path.startswith("sample")}
        first, later = 1 + len(items), len(order)
        parts = {
            path: (_values(order[:first], draws[:first]), _values(order[first:later], draws[first:later]))
            for path, draws in series.items()
        }
        known = {path: (one, other) for path, (one, other) in parts.items() if one and other}
        return {path: one for path, (one, other) in known.items() if one == other}, known

    (first, parts), (second, other_parts) = values(FIRST_SEED, CACHE_ITEMS), values(OTHER_SEED, CACHE_ITEMS)
    once = [
        path
        for path, (one, later) in parts.items()
        if path in other_parts
        and later == other_parts[path][1]
        and all(len({one[item], other_parts[path][0][item], later[item]}) == 3 for item in CACHE_ITEMS)
        and not _is_synthetic(one)
    ]
    drawn = [
        path for path in first if path in second and first[path] != second[path] and not _is_synthetic(first[path])
    ]
    if drawn:
        reverse, _ = values(FIRST_SEED, CACHE_ITEMS[::-1])
        drawn = [path for path in drawn if reverse.get(path) == first[path]]
    return CachedDraws(tuple(drawn), find_changed(subject) if drawn or once else (), tuple(once))


def _values(order: Sequence[int], series: Sequence[bytes]) -> Values | None:
    """The value of each item; None if any item varies."""
    values: dict[int, set[bytes]] = {item: set() for item in CACHE_ITEMS}
    for item, digest in zip(order, series, strict=False):
        if item:
            values[item].add(digest)
    if any(len(digests) != 1 for digests in values.values()):
        return None
    return {item: next(iter(digests)) for item, digests in values.items()}


def _is_synthetic(values: Values) -> bool:
    """Whether items read with one seed are equal, so that they depend on the seed alone."""
    return all(values[item] == values[item + 1] for item in CACHE_ITEMS[::2])
