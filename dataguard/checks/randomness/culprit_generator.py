"""Which generator is to blame for a repeat: each suspect is moved on at one seat alone, to see whether leaves change.

Then the line is looked for that seeds it alike, where it is seeded in the workers. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from dataguard.checks.randomness.repeated_draws import Pairs, Repeat, Seat, find_repeat, parted
from dataguard.model import NotApplicable, Undecided

if TYPE_CHECKING:
    from dataguard.lab.core.records import Census, GeneratorState, Seeding
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.same_items import SameItems

MOST_SUSPECTS = 4
"""How many suspects are moved on, one observation each."""


def find_culprit(lab: Lab, pairs: Callable[[SameItems], Pairs]) -> tuple[SameItems, Repeat | None]:
    """Like `find_repeat` in the loader's own workers, with the generator to blame and the line that seeds it alike."""
    draws, repeat = find_repeat(lab.randomness.same_items, pairs, partial(_made_sure, lab))
    if repeat is None:
        return draws, None
    path = repeat.suspects[0].path if repeat.suspects else f"global {repeat.unreadable[0]}"
    seeding = find_seeding(lab, path, repeat.one, repeat.two, repeat.unreadable)
    return draws, replace(repeat, seeding=seeding, persistent=lab.facts.persistent)


def find_seeding(lab: Lab, path: str, one: Seat, two: Seat, libraries: tuple[str, ...] = ()) -> Seeding | None:
    """The line that gives one seed to the generator at a path at both seats, before the first batch is there.

    `libraries` are imported before workers start, so that their seeding is seen.
    """
    try:
        notes = lab.randomness.first_seeds(libraries)
    except (NotApplicable, Undecided):
        return None
    given = {(note.worker, note.epoch): {seeding.path: seeding for seeding in note.seeds} for note in notes}
    first, second = (given.get(seat, {}).get(path) for seat in (one, two))
    return first if first == second else None


def _made_sure(lab: Lab, repeat: Repeat) -> Repeat | None:
    """The repeat with the suspects that it hangs on, the one for its first leaf first; None when it is none of them.

    A single suspect is taken at its word, unless it starts over with each item. Those that time is too short for stay.
    """
    repeat = replace(repeat, suspects=tuple(_running_on(lab, repeat)))
    if not repeat.suspects and not repeat.unreadable:
        return None
    if len(repeat.suspects) + len(repeat.unreadable) < 2:
        return repeat
    tried = [(suspect, _hanging_on(suspect, lab, repeat)) for suspect in repeat.suspects[:MOST_SUSPECTS]]
    guilty = [(suspect, leaves) for suspect, leaves in tried if leaves]
    guilty.sort(key=lambda one: repeat.leaves.index(one[1][0]))
    unclear = [*(suspect for suspect, leaves in tried if leaves is None), *repeat.suspects[MOST_SUSPECTS:]]
    if not guilty and not unclear:
        return None
    found = (*(suspect for suspect, _ in guilty), *unclear)
    return replace(repeat, suspects=found, sure=_words(guilty, repeat) or None)


def _running_on(lab: Lab, repeat: Repeat) -> Iterator[GeneratorState]:
    """The suspects but for those that each item makes anew, in a state that follows from the item alone.

    Such a one is back in its state when the item is read again. A generator that runs on never is.
    """
    first = _states(lab.randomness.same_items(repeat.effort), repeat.one)
    remade = {
        suspect.path
        for suspect in repeat.suspects
        if len({states[suspect.path].made for states in first.values() if suspect.path in states}) > 1
    }
    again = _states(lab.randomness.same_items(repeat.effort, again=True), repeat.one) if remade else {}
    for suspect in repeat.suspects:
        met = [states[suspect.path].state for _, states in sorted(again.items()) if suspect.path in states]
        turns = [state for state, _ in groupby(met)]
        if suspect.path not in remade or len(set(turns)) == len(turns):
            yield suspect


def _states(draws: SameItems, seat: Seat) -> dict[int, dict[str, GeneratorState]]:
    """The generators at one seat, by path, after each number of fetches at which they were looked for."""
    censuses = (census for census in draws.censuses if (census.worker or 0, census.epoch) == seat)
    return {census.fetches: {state.path: state for state in census.generators} for census in censuses}


def _hanging_on(suspect: GeneratorState, lab: Lab, repeat: Repeat) -> list[str] | None:
    """The leaves that change when a suspect is moved on at the second seat alone; None when that cannot be told."""
    try:
        draws = lab.randomness.same_items(repeat.effort, apart=(suspect.path, repeat.two))
    except (NotApplicable, Undecided):
        return None
    changed = parted(draws, repeat.one, repeat.two)
    leaves = [leaf for leaf in repeat.leaves if leaf in changed]
    return leaves if leaves or _went_apart(draws.censuses, suspect.path, repeat) else None


def _words(guilty: list[tuple[GeneratorState, list[str]]], repeat: Repeat) -> str:
    seat = f"worker {repeat.two[0]}" if repeat.between == "worker" else f"epoch {repeat.two[1]}"
    names = ["it"] if len(guilty) == 1 else [suspect.path for suspect, _ in guilty]
    moves = zip(names, guilty, strict=True)
    return "; ".join(f"moving {name} on in {seat} alone changes {leaves[0]}" for name, (_, leaves) in moves)


def _went_apart(censuses: tuple[Census, ...], path: str, repeat: Repeat) -> bool:
    """Whether the generator at a path really was in other states at the two seats in the end."""
    ends: dict[Seat, bytes] = {}
    for census in sorted(censuses, key=lambda census: census.fetches):
        for state in census.generators:
            if state.path == path:
                ends[census.worker or 0, census.epoch] = state.state
    return ends.get(repeat.one) != ends.get(repeat.two)
