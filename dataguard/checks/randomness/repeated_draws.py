"""Two seats (a worker in an epoch) that draw the same random numbers: whether they do, and which generator is to blame.

The verdict is behavioural; the generators found in the workers confirm it and name the place. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dataguard.checks.randomness import rng_fixes
from dataguard.model import Location, Undecided, known
from dataguard.stats.coincidence import Agreement, Groups, agreement, log_odds

if TYPE_CHECKING:
    from dataguard.lab.core.records import Census, GeneratorState, Seeding
    from dataguard.lab.randomness.same_items import SameItems

Seat = tuple[int, int]
"""A worker and an epoch."""
Pairs = list[tuple[Seat, Seat]]

EFFORTS = 3
"""How often four times as many draws are made before coincidence is left open."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Leaves that two seats drew alike, with the draws of the first leaf and the generators that were equal there.

    `effort` is that of the draws. `sure` tells how the first suspect was made sure of, `seeding` the line that seeds it
    alike at both seats, and `persistent` whether the workers are; None as long as nobody has looked.
    """

    one: Seat
    two: Seat
    leaves: tuple[str, ...]
    groups: Groups
    suspects: tuple[GeneratorState, ...]
    unreadable: tuple[str, ...]
    effort: int = 0
    sure: str | None = None
    seeding: Seeding | None = None
    persistent: bool | None = None

    @property
    def count(self) -> int:
        """How many draws agreed."""
        return sum(map(len, self.groups))

    @property
    def between(self) -> str:
        """What tells the two seats apart."""
        return "worker" if self.one[0] != self.two[0] else "epoch"

    @property
    def at(self) -> Location | None:
        """Where the generator is seeded alike, else where the first suspect is held."""
        if self.seeding:
            return rng_fixes.seeded_at(self.seeding)
        return rng_fixes.place_of(self.suspects[0]) if self.suspects else None

    @property
    def fix(self) -> str | None:
        """What to write instead."""
        if self.seeding:
            return rng_fixes.fix_of_seeding(self.seeding, self.one[0] if self.between == "epoch" else None)
        if self.suspects:
            return rng_fixes.fix_of_generator(self.suspects[0])
        return rng_fixes.fix_of_library(self.unreadable[0])

    @property
    def evidence(self) -> dict[str, object]:
        """Numbers, every suspect with its type, how it was made sure of, and the fix for the first."""
        shown = {state.path: state.kind for state in self.suspects[:6]}
        return known(
            {
                "leaves": list(self.leaves),
                "drawn by": "the dataset" if self.leaves[0].startswith("sample") else "collate_fn",
                "values drawn": len({digest for group in self.groups for digest in group}),
                "odds of coincidence": f"10^{log_odds(self.groups):.0f}",
                "generators": shown or {f"global {name}": "cannot be read" for name in self.unreadable},
                "made sure": self.sure,
                "fix here": self.fix,
                "later epochs": None if self.persistent is None else rng_fixes.later_epochs(persistent=self.persistent),
            }
        )


def find_repeat(
    draw: Callable[..., SameItems],
    pairs: Callable[[SameItems], Pairs],
    made_sure: Callable[[Repeat], Repeat | None] = lambda repeat: repeat,
) -> tuple[SameItems, Repeat | None]:
    """The first pair of seats that draws alike, or None; with the draws behind the answer.

    `draw` makes the draws, as `Lab.same_items` does. `made_sure` gives a repeat back with the suspects that are to
    blame, None when it is none of them.
    Raises Undecided when coincidence cannot be excluded, or when samples change alike and no generator explains it.
    """
    for effort in range(EFFORTS):
        draws = draw(effort)
        repeats, unsure = _compare(draws, pairs(draws), effort)
        if repeats:
            suspicious = next((repeat for repeat in repeats if repeat.suspects), None)
            found = made_sure(suspicious) if suspicious else None
            return draws, found or _settled(draw, effort, pairs)
        if not unsure:
            return draws, None
    raise Undecided(f"draws of {', '.join(unsure)} agree, but {draws.draws} of them do not exclude coincidence")


def _compare(draws: SameItems, pairs: Pairs, effort: int) -> tuple[list[Repeat], list[str]]:
    """What each pair certainly drew alike, and the leaves in which agreement may be chance."""
    repeats: list[Repeat] = []
    unsure: list[str] = []
    for one, two in pairs:
        alike: dict[str, Groups] = {}
        for path, groups, verdict in _verdicts(draws, one, two):
            if verdict is Agreement.CERTAIN:
                alike.setdefault(path, groups)
            elif verdict is Agreement.UNSURE:
                unsure.append(path)
        leaves = [path for path in alike if path.startswith("sample")] or list(alike)
        if leaves:
            found = tuple(suspects(draws.censuses, one, two))
            unreadable = {name for census in draws.censuses for name in census.unreadable}
            repeats.append(Repeat(one, two, tuple(leaves), alike[leaves[0]], found, tuple(sorted(unreadable)), effort))
    return repeats, unsure


def _verdicts(draws: SameItems, one: Seat, two: Seat) -> Iterator[tuple[str, Groups, Agreement]]:
    """For each leaf, pinned and as it is, the draws at the first seat and how those at the second compare."""
    for run in (draws.pinned, draws.as_is):
        for path, by in run.items():
            yield path, by.get(one, ()), agreement(by.get(one, ()), by.get(two, ()))


def parted(draws: SameItems, one: Seat, two: Seat) -> set[str]:
    """The leaves that two seats draw apart, pinned or as they are, and nowhere certainly alike."""
    found: dict[Agreement, set[str]] = {verdict: set() for verdict in Agreement}
    for path, _, verdict in _verdicts(draws, one, two):
        found[verdict].add(path)
    return found[Agreement.DIFFERENT] - found[Agreement.CERTAIN]


def _settled(draw: Callable[..., SameItems], effort: int, pairs: Callable[[SameItems], Pairs]) -> Repeat | None:
    """A repeat that a library's unreadable generator explains; None when there was only an artefact of pinning.

    A generator that comes to life late may be made from a pinned one, and look cloned: the rounds are made again in the
    other order. A library whose generator cannot be read is convicted when seeding it apart takes the agreement away.
    """
    draws = draw(effort, settled=True)
    settled, _ = _compare(draws, pairs(draws), effort)
    if not settled:
        return None
    unreadable = settled[0].unreadable
    if unreadable:
        apart = draw(effort, settled=True, reseed=unreadable)
        if not _compare(apart, pairs(apart), effort)[0]:
            sure = f"seeding {' and '.join(unreadable)} apart changes {settled[0].leaves[0]}"
            return replace(settled[0], suspects=(), sure=sure)
    raise Undecided(
        f"{settled[0].leaves[0]} changes from draw to draw alike, and no generator is found that it hangs on: "
        "a counter, a cache, or a generator inside a library"
    )


def suspects(censuses: Iterable[Census], one: Seat, two: Seat) -> list[GeneratorState]:
    """The generators that were equal at two seats and moved while samples were drawn.

    States are compared after the first fetch, when generators that are rightly made in the worker have come to life;
    where none is equal then (the first fetch may draw a different number of times), before it.
    """
    table = {
        ((census.worker or 0, census.epoch), census.fetches): {state.path: state for state in census.generators}
        for census in censuses
    }
    last = max((fetches for _, fetches in table), default=0)
    for moment in (1, 0):
        first, second = table.get((one, moment), {}), table.get((two, moment), {})
        end = table.get((one, last), {})
        equal = [
            state
            for path, state in first.items()
            if path in second
            and second[path].state == state.state
            and (path not in end or end[path].state != state.state)
        ]
        if equal:
            return equal
    return []
