"""Two seats (a worker in an epoch) that draw the same random numbers: whether they do, and which generator is to blame.

The verdict is behavioural; the generators found in the workers confirm it and name the place. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataguard.model import Location, Undecided, known
from dataguard.odds import Agreement, Groups, agreement, log_odds

if TYPE_CHECKING:
    from dataguard.lab.records import Census, GeneratorState
    from dataguard.lab.workers import SameItems

Seat = tuple[int, int]
"""A worker and an epoch."""
Pairs = list[tuple[Seat, Seat]]

EFFORTS = 3
"""How often four times as many draws are made before coincidence is left open."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Leaves that two seats drew alike, with the draws of the first leaf and the generators that were equal there."""

    one: Seat
    two: Seat
    leaves: tuple[str, ...]
    groups: Groups
    suspects: tuple[GeneratorState, ...]
    unreadable: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many draws agreed."""
        return sum(map(len, self.groups))

    @property
    def at(self) -> Location | None:
        """Where the first suspect is held."""
        return place_of(self.suspects[0]) if self.suspects else None

    @property
    def evidence(self) -> dict[str, object]:
        """Numbers, every suspect with its type, and the fix for the first."""
        shown = {state.path: state.kind for state in self.suspects[:6]}
        fix = fix_for(self.suspects[0]) if self.suspects else _UNREADABLE.get(self.unreadable[0])
        return known(
            {
                "leaves": list(self.leaves),
                "drawn by": "the dataset" if self.leaves[0].startswith("sample") else "collate_fn",
                "values drawn": len({digest for group in self.groups for digest in group}),
                "odds of coincidence": f"10^{log_odds(self.groups):.0f}",
                "generators": shown or {f"global {name}": "cannot be read" for name in self.unreadable},
                "fix here": fix,
            }
        )


def find_repeat(draw: Callable[..., SameItems], pairs: Callable[[SameItems], Pairs]) -> tuple[SameItems, Repeat | None]:
    """The first pair of seats that draws alike, or None; with the draws behind the answer.

    `draw` makes the draws, as `Lab.same_items` does.
    Raises Undecided when coincidence cannot be excluded, or when samples change alike and no generator explains it.
    """
    for effort in range(EFFORTS):
        draws = draw(effort)
        repeats, unsure = _compare(draws, pairs(draws))
        if repeats:
            return draws, _confirmed(draw, repeats, effort, pairs)
        if not unsure:
            return draws, None
    raise Undecided(f"draws of {', '.join(unsure)} agree, but {draws.draws} of them do not exclude coincidence")


def _compare(draws: SameItems, pairs: Pairs) -> tuple[list[Repeat], list[str]]:
    """What each pair certainly drew alike, and the leaves in which agreement may be chance."""
    repeats: list[Repeat] = []
    unsure: list[str] = []
    for one, two in pairs:
        alike: dict[str, Groups] = {}
        for run in (draws.pinned, draws.as_is):
            for path, by in run.items():
                verdict = agreement(by.get(one, ()), by.get(two, ()))
                if verdict is Agreement.CERTAIN:
                    alike.setdefault(path, by[one])
                elif verdict is Agreement.UNSURE:
                    unsure.append(path)
        leaves = [path for path in alike if path.startswith("sample")] or list(alike)
        if leaves:
            found = tuple(suspects(draws.censuses, one, two))
            unreadable = {name for census in draws.censuses for name in census.unreadable}
            repeats.append(Repeat(one, two, tuple(leaves), alike[leaves[0]], found, tuple(sorted(unreadable))))
    return repeats, unsure


def _confirmed(
    draw: Callable[..., SameItems], repeats: list[Repeat], effort: int, pairs: Callable[[SameItems], Pairs]
) -> Repeat | None:
    """The first repeat that a generator explains; None when it was an artefact of pinning.

    A generator that comes to life late may be made from a pinned one, and look cloned: where no suspect was there from
    the beginning, the rounds are made again in the other order. A library whose generator cannot be read is convicted
    when seeding it apart takes the agreement away.
    """
    for repeat in repeats:
        if repeat.suspects:
            return repeat
    draws = draw(effort, settled=True)
    settled, _ = _compare(draws, pairs(draws))
    if not settled:
        return None
    unreadable = settled[0].unreadable
    if unreadable:
        apart = draw(effort, settled=True, reseed=unreadable)
        if not _compare(apart, pairs(apart))[0]:
            return settled[0]
    raise Undecided(
        f"{settled[0].leaves[0]} changes from draw to draw alike, and no generator is found that moves: "
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


def place_of(suspect: GeneratorState) -> Location:
    """Where a generator is held."""
    file, line = suspect.at or (None, None)
    return Location(file, line, suspect.path)


def fix_for(suspect: GeneratorState) -> str | None:
    """What to write instead, for a generator of this kind; None when the general advice is all there is."""
    path, (holder, _, name) = suspect.path, suspect.path.rpartition(".")
    if path.startswith("global "):
        return f"worker_init_fn seeds {path.removeprefix('global ')} alike: leave it out, or seed torch.initial_seed()"
    if suspect.reseed:
        seed = "torch.initial_seed() % 2**32"
        return f"in worker_init_fn: get_worker_info().{holder}.{suspect.reseed}({seed})"
    made = _MAKE.get(suspect.kind)
    return f"make {name} when the worker first needs it: {made}" if made else None


_UNREADABLE = {"cv2": "in worker_init_fn: cv2.setRNGSeed(torch.initial_seed() % 2**31)"}
_MAKE = {
    "numpy.random.Generator": "numpy.random.default_rng(torch.initial_seed())",
    "numpy.random.RandomState": "numpy.random.RandomState(torch.initial_seed() % 2**32)",
    "random.Random": "random.Random(torch.initial_seed())",
    "torch.Generator": "torch.Generator().manual_seed(torch.initial_seed())",
}
