"""Whether workers, or the epochs of a worker, draw the same random numbers, and if so, from which generator.

The search: draw the same items everywhere and compare, test each suspect by advancing it in one worker and epoch only,
search for generators whose repeat is masked by other randomness, and for the line that seeds the generator found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, groupby, islice
from typing import Literal

from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.records import GeneratorState, WorkerEpoch
from dataguard.lab.randomness.masked_draws import MOST_SUSPECTS, find_in_stream, find_masked
from dataguard.lab.randomness.repeated_draws import (
    Comparison,
    Draw,
    Repeat,
    Suspect,
    blame_library,
    compare_draws,
    differing_leaves,
)
from dataguard.lab.randomness.same_items import GLANCE, SameItems, find_same_items, is_quick
from dataguard.lab.randomness.worker_init_seeds import find_first_uses
from dataguard.lab.rng.shared_states import Pair, cloned_generators
from dataguard.lab.streams.observations import Streams
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable, Undecided

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
    draw, pairs = partial(find_same_items, subject), _PAIRS[between]
    comparison = compare_draws(draw, pairs, quick=is_quick(subject))
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


def _search_stream(subject: Subject, between: Between) -> SharedDraws:
    trace = Streams(subject).stream(subject.facts.num_workers, seeded=False)
    repeat = find_in_stream(subject, trace, _FIRST[between])
    return SharedDraws({"samples": trace.total, between: 2}, repeat)


def find_latent_clone(subject: Subject) -> GeneratorState | None:
    """The generator from which two workers would draw the same numbers, if the loader has fewer (map-style only)."""
    if subject.facts.kind == "stream":
        return None
    effort = 0 if is_quick(subject) else GLANCE
    draws = find_same_items(subject, effort, num_workers=2, method="fork" if subject.facts.spawns else None)
    return next(iter(cloned_generators(draws.censuses, _FIRST["workers"])), None)


def with_lines(subject: Subject, repeat: Repeat) -> Repeat:
    """The repeat with the line that gives the first suspect the same seed in both, and the one that draws from it."""
    suspect = repeat.suspects[0].generator
    try:
        # Imported before workers start, so that seeding is seen even if worker_init_fn imports the library.
        uses = find_first_uses(subject, suspect.path, (suspect.library,) if suspect.library else ())
    except (NotApplicable, Undecided):
        return repeat
    given = {(note.worker, note.epoch): {seeding.path: seeding for seeding in note.seeds} for note in uses.seeds}
    first, second = (given.get(where, {}).get(suspect.path) for where in (repeat.one, repeat.two))
    return replace(repeat, seeding=first if first == second else None, drawn_at=uses.drawn)


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
        proven = [suspect for suspect in (_tested(redraw, repeat, one) for one in suspects) if suspect.changes]
        if proven:
            proven.sort(key=lambda suspect: repeat.leaves.index(suspect.changes[0]))
            return replace(repeat, suspects=tuple(proven))
    return None


def _continuing(draw: Callable[..., SameItems], repeat: Repeat) -> Iterator[Suspect]:
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


def _states(draws: SameItems, where: WorkerEpoch) -> list[dict[str, GeneratorState]]:
    """The generators in one worker and epoch by path, fetch by fetch."""
    censuses = sorted((census for census in draws.censuses if census.where == where), key=lambda one: one.fetches)
    return [{state.path: state for state in census.generators} for census in censuses]


def _tested(draw: Callable[..., SameItems], repeat: Repeat, suspect: Suspect) -> Suspect:
    """A suspect with the leaves that change if it is advanced in the second worker and epoch only."""
    as_is, advanced = (
        differing_leaves(draws, (repeat.one, repeat.two))
        for draws in (draw(), draw(advance=(suspect.path, repeat.two)))
    )
    return replace(suspect, changes=tuple(leaf for leaf in repeat.leaves if leaf in advanced - as_is))


def _worker_pairs(draws: SameItems) -> Sequence[Pair]:
    """Every two workers in the first epoch."""
    return list(combinations([WorkerEpoch(worker, 0) for worker in range(draws.workers)], 2))


def _epoch_pairs(draws: SameItems) -> Sequence[Pair]:
    """Each worker in two epochs."""
    return [(WorkerEpoch(worker, 0), WorkerEpoch(worker, 1)) for worker in range(draws.workers)]


_PAIRS = {"workers": _worker_pairs, "epochs": _epoch_pairs}
_FIRST: dict[Between, Pair] = {
    "workers": (WorkerEpoch(0, 0), WorkerEpoch(1, 0)),
    "epochs": (WorkerEpoch(0, 0), WorkerEpoch(0, 1)),
}
