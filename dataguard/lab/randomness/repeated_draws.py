"""Equal random draws in two workers, or in two epochs of one worker, and the generators that explain them.

The draws decide; the generators found in the workers confirm the verdict and give the location.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dataguard.lab.core.records import GeneratorState, Seeding, WorkerEpoch
from dataguard.lab.randomness.same_items import AMOUNTS, GLANCE, PLAIN, SameItems
from dataguard.lab.rng.shared_states import Pair, cloned_generators, overlapping_generators
from dataguard.model import Undecided
from dataguard.stats import coincidence
from dataguard.stats.coincidence import Agreement, Groups, agreement

Draw = Callable[..., SameItems]
"""Makes the draws, like `find_same_items`."""
Pairs = Callable[[SameItems], Sequence[Pair]]
"""The pairs to compare, among the workers and epochs that drew."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A generator that may cause a repeat; `changes` are the leaves that changed when it alone was advanced."""

    generator: GeneratorState
    changes: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The path of the generator."""
        return self.generator.path


@dataclass(frozen=True, slots=True)
class Repeat:
    """Two workers, or two epochs of one worker, that draw the same random numbers.

    `leaves` are the outputs that repeat or, if the repeat is `masked` by other randomness, that depend on the first
    suspect; a stream has none, because its samples are not compared. `groups` are the equal draws of the first leaf.
    `suspects` are the generators that explain them, first the one for the first leaf. `libraries` are imported and have
    a generator whose state cannot be read. `changed` is the share of a stream's samples that change with the suspect,
    `seeding` the line that gives it the same seed in both, `drawn_at` the user's first line that draws from it.
    """

    one: WorkerEpoch
    two: WorkerEpoch
    suspects: tuple[Suspect, ...]
    leaves: tuple[str, ...] = ()
    groups: Groups = ()
    libraries: tuple[str, ...] = ()
    masked: bool = False
    changed: float | None = None
    seeding: Seeding | None = None
    drawn_at: tuple[str, int] | None = None

    @property
    def count(self) -> int:
        """How many draws are equal."""
        return sum(map(len, self.groups))

    @property
    def distinct(self) -> int:
        """How many different values the equal draws have."""
        return len({digest for group in self.groups for digest in group})

    @property
    def log_odds(self) -> float:
        """log10 of the odds that the draws are equal by coincidence."""
        return coincidence.log_odds(self.groups)

    @property
    def across_epochs(self) -> bool:
        """Whether one worker repeats its own draws in two epochs."""
        return self.one.worker == self.two.worker


@dataclass(frozen=True, slots=True)
class Comparison:
    """The draws that decided whether any pair repeats, their `effort`, and every pair that certainly does."""

    draws: SameItems
    effort: int
    repeats: tuple[Repeat, ...]

    @property
    def suspicious(self) -> Repeat | None:
        """The first repeat with a suspect."""
        return next((repeat for repeat in self.repeats if repeat.suspects), None)


def compare_draws(draw: Draw, pairs: Pairs, *, quick: bool) -> Comparison:
    """Draw the same items, more often as long as equal draws may be coincidence, and compare each pair.

    Unless that is `quick`, a glance comes first, and a few draws if that looks suspicious. They are enough if draws
    differ and no generator repeats its state, or if they certainly repeat and a generator explains it. Raises Undecided
    when coincidence cannot be excluded.
    """
    for effort in () if quick else (GLANCE, PLAIN):
        draws = draw(effort)
        repeats, unsure = _compare(draws, pairs(draws))
        explained = any(repeat.suspects for repeat in repeats)
        if explained or not (repeats or unsure or _may_repeat(draws, pairs(draws))):
            return Comparison(draws, effort, tuple(repeats))
    for effort in range(len(AMOUNTS)):
        draws = draw(effort)
        repeats, unsure = _compare(draws, pairs(draws))
        if repeats or not unsure:
            return Comparison(draws, effort, tuple(repeats))
    raise Undecided(f"draws of {', '.join(unsure)} agree, but {draws.draws} of them do not exclude coincidence")


def _may_repeat(draws: SameItems, pairs: Sequence[Pair]) -> bool:
    """Whether a pair shares a generator, a library has one that cannot be read, or draws are equal only for a pair.

    A leaf that is equal everywhere is not random, unless such a generator makes it.
    """
    if any(census.unreadable for census in draws.censuses):
        return True
    if any(True for pair in pairs for _ in overlapping_generators(draws.censuses, pair)):
        return True
    varying = [by for by in draws.as_is.values() if len(set(by.values())) > 1]
    return any(by.get(one) == by.get(two) for by in varying for one, two in pairs)


def blame_library(draw: Draw, pairs: Pairs, comparison: Comparison) -> Repeat | None:
    """A repeat caused by the unreadable generator of a library; None if our seeding alone made the draws equal.

    A generator that is created late may be seeded from a global one that we seeded, and look cloned: so the unseeded
    rounds come first here. The library is the cause if the draws differ once each worker and epoch seeds it
    differently. Raises Undecided when the draws are equal as they are, and no generator explains it; draws that are
    equal only with our seeds may well come from what was read before, which is the same for every worker here.
    """
    if not comparison.repeats:
        return None
    draws = draw(comparison.effort, as_is_first=True)
    repeats, _ = _compare(draws, pairs(draws))
    if not repeats:
        return None
    repeat = repeats[0]
    if repeat.libraries:
        reseeded = draw(comparison.effort, as_is_first=True, reseed=repeat.libraries)
        if not _compare(reseeded, pairs(reseeded))[0]:
            return replace(repeat, suspects=_library_suspects(repeat.libraries, repeat.leaves[:1]))
    as_is = draws.as_is[repeat.leaves[0]]
    if agreement(as_is.get(repeat.one, ()), as_is.get(repeat.two, ())) is Agreement.DIFFERENT:
        return None
    raise Undecided(
        f"the values of {repeat.leaves[0]} repeat, but no generator was found that causes it: "
        "they may come from a counter, a cache or a generator inside a library"
    )


def _library_suspects(libraries: Sequence[str], changes: tuple[str, ...]) -> tuple[Suspect, ...]:
    """The unreadable generators of libraries, as suspects."""
    return tuple(Suspect(GeneratorState(f"global {name}", name, b"", None), changes) for name in libraries)


def differing_leaves(draws: SameItems, pair: Pair) -> set[str]:
    """The leaves whose draws differ, seeded or as they are, and are certainly equal in neither."""
    found: dict[Agreement, set[str]] = {verdict: set() for verdict in Agreement}
    for path, _, verdict in _verdicts(draws, pair):
        found[verdict].add(path)
    return found[Agreement.DIFFERENT] - found[Agreement.CERTAIN]


def _compare(draws: SameItems, pairs: Sequence[Pair]) -> tuple[list[Repeat], list[str]]:
    """The pairs that certainly repeat, and the leaves whose equality may be coincidence."""
    repeats: list[Repeat] = []
    unsure: list[str] = []
    libraries = tuple(sorted({name for census in draws.censuses for name in census.unreadable}))
    for pair in pairs:
        equal: dict[str, Groups] = {}
        for path, groups, verdict in _verdicts(draws, pair):
            if verdict is Agreement.CERTAIN:
                equal.setdefault(path, groups)
            elif verdict is Agreement.UNSURE:
                unsure.append(path)
        leaves = tuple(path for path in equal if path.startswith("sample")) or tuple(equal)
        if leaves:
            suspects = tuple(map(Suspect, cloned_generators(draws.censuses, pair)))
            repeats.append(Repeat(*pair, suspects, leaves, equal[leaves[0]], libraries))
    return repeats, unsure


def _verdicts(draws: SameItems, pair: Pair) -> Iterator[tuple[str, Groups, Agreement]]:
    """For each leaf, seeded and as it is, the draws of the first and how those of the second compare."""
    for series in (draws.seeded, draws.as_is):
        for path, by in series.items():
            one, two = (by.get(where, ()) for where in pair)
            yield path, one, agreement(one, two)
