"""Generators that run alike at two seats where no two values are equal: other random numbers lie over what they give.

What hangs on such a generator shows when all others are held still. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataguard.checks.randomness import rng_fixes
from dataguard.checks.randomness.culprit_generator import MOST_SUSPECTS, find_seeding
from dataguard.checks.randomness.repeated_draws import Pairs, Seat
from dataguard.model import Location, Undecided, known

if TYPE_CHECKING:
    from dataguard.lab.core.records import Census, GeneratorState, Seeding
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.rng_dependence import Hanging
    from dataguard.lab.randomness.same_items import SameItems


@dataclass(frozen=True, slots=True)
class Masked:
    """A generator that runs alike at two seats, and the leaves that hang on it.

    `seeding` is the line that seeds it alike at both, if it is seeded there.
    """

    one: Seat
    two: Seat
    suspect: GeneratorState
    leaves: tuple[str, ...]
    seeding: Seeding | None
    persistent: bool

    @property
    def at(self) -> Location:
        """Where the generator is seeded alike, else where it is held."""
        return rng_fixes.place_of(self.suspect, self.seeding)

    @property
    def evidence(self) -> dict[str, object]:
        """The generator, the leaves, how they are known to hang on it, and the fix."""
        replayer = self.one[0] if self.one[0] == self.two[0] else None
        return known(
            {
                "leaves": list(self.leaves),
                "drawn by": "the dataset" if self.leaves[0].startswith("sample") else "collate_fn",
                "generators": {self.suspect.path: self.suspect.kind},
                "made sure": f"with all others held still, another seed for it alone changes {self.leaves[0]}",
                "fix here": rng_fixes.fix_of(self.suspect, self.seeding, replayer),
                "later epochs": rng_fixes.later_epochs(persistent=self.persistent),
            }
        )


def find_masked(lab: Lab, draws: SameItems, pairs: Callable[[SameItems], Pairs]) -> Masked | None:
    """The first generator that runs alike at two seats and that a leaf hangs on.

    Raises Undecided when all that may hang on one varies even while every generator that is found is held still.
    """
    unclear = None
    for one, two in pairs(draws):
        for suspect, early in list(running_alike(draws.censuses, one, two))[:MOST_SUSPECTS]:
            hanging = _hanging(lab, suspect)
            if hanging is None or (early and not hanging.runs_on):
                continue
            if not (hanging.leaves or (hanging.wild and hanging.drawn)) or not _settled(lab, draws, suspect, one, two):
                continue
            if hanging.leaves:
                leaves = [leaf for leaf in hanging.leaves if leaf.startswith("sample")] or hanging.leaves
                seeding = find_seeding(lab, suspect.path, one, two, _library(suspect))
                return Masked(one, two, suspect, tuple(leaves), seeding, lab.facts.persistent)
            unclear = unclear or (suspect, hanging.wild[0])
    if unclear:
        raise Undecided(f"{unclear[0].path} runs alike, and may decide {unclear[1]}, which more numbers decide as well")
    return None


def _hanging(lab: Lab, suspect: GeneratorState) -> Hanging | None:
    """What hangs on a suspect; None where there is too little time to see whether a library's is used at all."""
    try:
        return lab.randomness.dependence.of_items(suspect.path)
    except Undecided:
        if _library(suspect):
            return None
        raise


def _settled(lab: Lab, draws: SameItems, suspect: GeneratorState, one: Seat, two: Seat) -> bool:
    """Whether a suspect runs alike as well where nothing is pinned until it is there.

    One that comes to life late may be made from a pinned generator, and look cloned.
    """
    begun = [
        census for census in draws.censuses if not census.fetches and (census.worker or 0, census.epoch) in (one, two)
    ]
    if all(any(state.path == suspect.path for state in (*census.generators, *census.probed)) for census in begun):
        return True
    settled = lab.randomness.same_items(settled=True)
    return any(state.path == suspect.path for state, _ in running_alike(settled.censuses, one, two))


def _library(suspect: GeneratorState) -> tuple[str, ...]:
    return (suspect.kind,) if rng_fixes.fix_of_library(suspect.kind) else ()


def running_alike(censuses: Iterable[Census], one: Seat, two: Seat) -> Iterator[tuple[GeneratorState, bool]]:
    """The generators that are in one state at two seats, be it at other times, and move there.

    Each with whether that was before the first fetch only, in which one that is rightly held may still be seeded.
    """
    states: dict[Seat, dict[str, dict[int, bytes]]] = {}
    named: dict[str, GeneratorState] = {}
    for census in censuses:
        for state in (*census.generators, *census.probed):
            states.setdefault((census.worker or 0, census.epoch), {}).setdefault(state.path, {})[census.fetches] = (
                state.state
            )
            named[state.path] = state
    first, second = states.get(one, {}), states.get(two, {})
    for path in (path for path in first if path in second):
        begun, late = _moving(first[path], draws_on=one[0] == two[0])
        other_begun, other_late = _moving(second[path])
        if late & other_late:
            yield named[path], False
        elif begun is not None and begun == other_begun and late | other_late:
            yield named[path], True


def _moving(states: dict[int, bytes], *, draws_on: bool = False) -> tuple[bytes | None, set[bytes]]:
    """The state before the first fetch, and those after it; nothing of a generator that does not move.

    A worker that lives on `draws_on` in its next epoch from the last state of this one: that says nothing.
    """
    if len(set(states.values())) < 2:
        return (None, set()) if draws_on else (states.get(0), set())
    last = states[max(states)] if draws_on else None
    return states.get(0), {state for fetches, state in states.items() if fetches and state != last}
