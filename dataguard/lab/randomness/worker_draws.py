"""Equal random draws of the same items in two workers, or in two epochs of one worker, and the generators behind them.

Every worker reads the same script over two epochs: first one draw as it is, which creates the generators that are
correctly created in the worker; then rounds in which the global generators of python, numpy and torch are seeded, so
that only the user's own generators still vary; then rounds as they are. The draws decide whether any two workers or
epochs repeat; the generators found in the workers confirm the verdict and give the location.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from dataguard.core.model import Undecided
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.records import Census, GeneratorState, Seeding, WorkerEpoch
from dataguard.lab.core.source_location import Place
from dataguard.lab.reading.experiment import Conditions, Experiment, Readings, Script, Series, perform, seconds_of
from dataguard.lab.rng.frozen_rng import AdvancedRng, SeededFetches, SeededLibraries
from dataguard.lab.rng.held_clock import SameSecond
from dataguard.lab.rng.rng_discovery import SEED, Pair, RngCensus, cloned_generators, overlapping_generators
from dataguard.lab.subject import Subject
from dataguard.settings.parsers import EVALUATION
from dataguard.stats import coincidence
from dataguard.stats.coincidence import Agreement, Groups, agreement

EPOCHS = 2
"""Epochs, the fewest in which one can replay another."""
MOST_WORKERS = {"fork": 4, "spawn": 2, "forkserver": 2}
"""Most workers that are compared; a worker that imports torch takes seconds to start."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is drawn: `items` indices, each in so many seeded `states`, `repeats` times each, and so often `as_is`.

    The first of three repeats may fill a cache, and two others show whether the item is random.
    """

    items: int
    states: int
    repeats: int
    as_is: int


FIRST, GLANCE, PLAIN = -3, -2, -1
"""Efforts that settle most loaders: what they find suspicious is drawn more often.

The `FIRST` settles a healthy loader: draws of each item differ everywhere, and those with one seed nowhere. A `GLANCE`
does so for slow samples, without seeded draws and in two workers. There, a `PLAIN` bug is settled by ten different
draws that repeat, which excludes coincidence, see `stats.coincidence.log_odds`."""
UNSEEDED = (GLANCE, PLAIN)
AMOUNTS = {
    FIRST: Amount(3, 1, 2, 2),
    GLANCE: Amount(3, 0, 0, 1),
    PLAIN: Amount(2, 0, 0, 5),
    0: Amount(4, 2, 3, 4),
    1: Amount(8, 2, 3, 4),
    2: Amount(16, 8, 3, 16),
    3: Amount(16, 32, 3, 64),
}
"""How much to draw, by effort.

Four items whose values all differ in four draws as they are repeat by chance with odds below 1e-13. Coin flips of 4
items repeat with odds of 1e-6 so, which is not enough to accuse; those of 8 items with odds of 1e-12. The last two
efforts are for values that vary less often than that.
"""
LATE_FETCH = 4
"""The fetch after which generators are searched again, because some are created late."""
MIXED = 4
"""Samples of a batch if the user's collate_fn may draw random numbers to mix them."""


@dataclass(frozen=True, slots=True)
class Request:
    """What an observer requests. Each step of `effort` draws more: see `AMOUNTS`.

    `as_is_first` puts the rounds as they are before the seeded ones, so that generators that are created late do not
    depend on our seeds. `reseed` names libraries whose generator gets a different seed in each worker and epoch. If
    None, `persistent` and the start `method` are the user's own. `announce` calls `set_epoch`. `advance` is the path of
    a generator, and the only worker and epoch in which it is advanced after the first fetch. `watch_item` searches for
    generators each time the first item was read, not only at the start.
    """

    effort: int = 0
    num_workers: int | None = None
    as_is_first: bool = False
    reseed: tuple[str, ...] = ()
    persistent: bool | None = None
    method: str | None = None
    announce: bool = True
    advance: tuple[str, WorkerEpoch] | None = None
    watch_item: bool = False


@dataclass(frozen=True, slots=True)
class DrawPlan:
    """How much one observation draws.

    A batch holds `size` samples, more than one if the user's collate_fn may mix them.
    """

    asked: Request
    workers: int
    size: int
    epochs: int = EPOCHS

    @property
    def amount(self) -> Amount:
        """How much of each item."""
        return AMOUNTS[self.asked.effort]

    @property
    def items(self) -> int:
        """How many indices are drawn."""
        return self.amount.items

    @property
    def census(self) -> tuple[int, ...]:
        """The numbers of fetches after which generators are searched."""
        first_item = (2, 2 + self.items, 2 + 2 * self.items) if self.asked.watch_item else ()
        return (0, 1, *first_item, LATE_FETCH, self.draws)

    @property
    def seeded_fetches(self) -> int:
        """How many fetches are seeded."""
        return self.amount.states * self.amount.repeats * self.items

    @property
    def free_fetches(self) -> int:
        """How many fetches are as they are, without the first one."""
        return self.amount.as_is * self.items

    @property
    def draws(self) -> int:
        """Fetches of one worker in one epoch; the first creates generators that do not exist yet."""
        return 1 + self.seeded_fetches + self.free_fetches

    @property
    def experiment(self) -> Experiment:
        """Every worker reads the same items, with the user's persistence, generator and worker_init_fn."""
        asked = self.asked
        order = (0, *tuple(range(self.items)) * ((self.draws - 1) // self.items))
        instruments = (
            SameSecond(),
            SeededLibraries(asked.reseed),
            RngCensus(self.census),
            *([AdvancedRng(*asked.advance)] if asked.advance else []),
            SeededFetches(self.seeds),
        )
        chosen = ("persistent_workers", asked.persistent), ("multiprocessing_context", asked.method)
        return Experiment(
            Script(((order,) * self.workers,) * self.epochs, self.size, mixed=True),
            instruments,
            (("num_workers", self.workers), *((name, value) for name, value in chosen if value is not None)),
            announced="each" if asked.announce else "never",
        )

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """The seed for each fetch of an epoch; items get different ones, because the results may be cached."""
        states = [
            SEED + state * self.items + item
            for state in range(self.amount.states)
            for _ in range(self.amount.repeats)
            for item in range(self.items)
        ]
        return (None, *([None] * self.free_fetches if self.asked.as_is_first else []), *states)

    def seeded_groups(self, series: Series) -> Groups:
        """Group the seeded fetches by seed and item."""
        start, repeats = 1 + (self.free_fetches if self.asked.as_is_first else 0), self.amount.repeats
        return tuple(
            tuple(series[start + (state * repeats + draw) * self.items + item] for draw in range(repeats))
            for state in range(self.amount.states)
            for item in range(self.items)
        )

    def free_groups(self, series: Series) -> Groups:
        """Group the fetches as they are by item."""
        start = 1 + (0 if self.asked.as_is_first else self.seeded_fetches)
        return tuple(
            tuple(series[start + draw * self.items + item] for draw in range(self.amount.as_is))
            for item in range(self.items)
        )


@dataclass(frozen=True, slots=True)
class WorkerDraws:
    """`seeded` and `as_is`: leaf path -> (worker, epoch) -> groups of draws. `shown` are the items' indices as text.

    `draws` counts the fetches of one worker in one epoch; `censuses` list the generators of a worker before its first
    fetch of an epoch, after it, and after the last one.
    """

    seeded: Mapping[str, Mapping[tuple[int, int], Groups]]
    as_is: Mapping[str, Mapping[tuple[int, int], Groups]]
    workers: int
    items: int
    draws: int
    shown: tuple[str, ...]
    censuses: tuple[Census, ...]

    @property
    def varied(self) -> bool:
        """Whether any two draws of one item differed, in one worker and epoch."""
        series = (groups for leaf in self.as_is.values() for groups in leaf.values())
        return any(len(set(group)) > 1 for groups in series for group in groups)


def find_same_items(subject: Subject, effort: int = 0, num_workers: int | None = None, **asked: Any) -> WorkerDraws:
    """Draw the same items in every worker over two epochs; the arguments are those of `Request`."""
    subject.need_map("the workers of a stream read different samples, so their draws cannot be compared item by item")
    plan = plan_of(subject, Request(effort, num_workers, **asked))
    return draws_of(plan, perform(subject, plan.experiment))


def plan_of(subject: Subject, request: Request) -> DrawPlan:
    """Choose how much to draw."""
    facts = subject.facts
    number = facts.num_workers if request.num_workers is None else request.num_workers
    # The same number under another start method, so that the same workers get the same batches.
    workers = max(1, min(number, MOST_WORKERS.get(facts.start_method, 2)))
    workers = min(workers, 2) if request.effort in UNSEEDED else workers
    epochs = request.advance[1].epoch + 1 if request.advance else EPOCHS
    return DrawPlan(request, workers, batch_size(facts), epochs)


def draws_often(subject: Subject) -> bool:
    """Whether to draw as often as usual at once: that takes little of the budget, and the loader is for training.

    What is rarely random in evaluation does little harm: a glance that finds nothing suspicious is enough.
    """
    return subject.facts.role not in EVALUATION and draws_take_little(subject)


def draws_take_little(subject: Subject) -> bool:
    """Whether the usual draws take little of the budget."""
    facts = subject.facts
    workers = max(1, min(facts.num_workers, MOST_WORKERS.get(facts.start_method, 2)))
    plan = DrawPlan(Request(), workers, batch_size(facts))
    return subject.cache.takes_little(seconds_of(subject, plan.experiment))


def batch_size(facts: LoaderFacts) -> int:
    """How many samples a batch of repeated draws holds: several if the user's collate_fn may mix them."""
    return min(MIXED, facts.batch_size or 1) if facts.batched and not facts.default_collate else 1


def one_by_one(facts: LoaderFacts) -> Conditions:
    """Batches of one sample, where torch makes the batches of a stream."""
    return (("batch_size", 1),) if facts.batched else ()


def draws_of(plan: DrawPlan, readings: Readings) -> WorkerDraws:
    """All draws by leaf, worker and epoch."""

    def grouped(groups: Callable[[Series], Groups]) -> dict[str, dict[tuple[int, int], Groups]]:
        return {path: {where: groups(series) for where, series in by.items()} for path, by in readings.leaves.items()}

    return WorkerDraws(
        seeded=grouped(plan.seeded_groups),
        as_is=grouped(plan.free_groups),
        workers=plan.workers,
        items=plan.items,
        draws=plan.draws,
        shown=tuple(text for fetch, text in sorted(readings.shown.items()) if 0 < fetch <= plan.items),
        censuses=tuple(readings.noted(Census)),
    )


ByWorker = Mapping[str, Mapping[tuple[int, int], Groups]]


def of_run(plan: DrawPlan, number: int, workers: int) -> Experiment:
    """What one of several runs reads, such as a rank, with so many workers or, without any, in its main process.

    All read the same: the first indices of the whole dataset, and not those of the share or order of a run. A generator
    is advanced in a worker of one run only.
    """
    if plan.asked.advance is not None:
        path, (worker, epoch) = plan.asked.advance
        owner, own_worker = divmod(worker, plan.workers)
        advance = (path, WorkerEpoch(own_worker, epoch)) if owner == number else None
        plan = replace(plan, asked=replace(plan.asked, advance=advance))
    experiment = plan.experiment
    assert experiment.script is not None
    script = replace(experiment.script, share=True)
    return replace(experiment, script=script, changed=(*experiment.changed, ("num_workers", workers)))


def side_by_side(plan: DrawPlan, runs: Sequence[WorkerDraws]) -> WorkerDraws:
    """The draws of several runs as those of one: worker w of run r has number r times the workers of a run, + w."""

    def merged(parts: Sequence[ByWorker]) -> ByWorker:
        return {
            path: {
                (worker + number * plan.workers, epoch): groups
                for number, part in enumerate(parts)
                for (worker, epoch), groups in part.get(path, {}).items()
            }
            for path in dict.fromkeys(chain.from_iterable(parts))
        }

    return WorkerDraws(
        seeded=merged([draws.seeded for draws in runs]),
        as_is=merged([draws.as_is for draws in runs]),
        workers=len(runs) * plan.workers,
        items=plan.items,
        draws=plan.draws,
        shown=runs[0].shown,
        censuses=tuple(
            replace(census, worker=(census.worker or 0) + number * plan.workers)
            for number, draws in enumerate(runs)
            for census in draws.censuses
        ),
    )


Draw = Callable[..., WorkerDraws]
"""Makes the draws, like `find_same_items`."""
Pairs = Callable[[WorkerDraws], Sequence[Pair]]
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
    `seeding` the line that gives it the same seed in both, `made_at` the one that makes what both inherit, by the
    function that it spells as `made_by`; `drawn_at` the user's first line that draws from it.
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
    made_at: Place | None = None
    made_by: str | None = None
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

    draws: WorkerDraws
    effort: int
    repeats: tuple[Repeat, ...]

    @property
    def suspicious(self) -> Repeat | None:
        """The first repeat with a suspect."""
        return next((repeat for repeat in self.repeats if repeat.suspects), None)


def compare_draws(draw: Draw, pairs: Pairs, *, often: bool) -> Comparison:
    """Draw the same items, more often as long as equal draws may be coincidence, and compare each pair.

    A few draws come first; unless it draws `often`, these are a glance, and more if that looks suspicious. They are
    enough if draws differ and no generator repeats its state, or if they certainly repeat and a generator explains it.
    Raises Undecided when coincidence cannot be excluded.
    """
    for effort in (FIRST,) if often else (GLANCE, PLAIN):
        draws = draw(effort)
        repeats, unsure = _compare(draws, pairs(draws))
        explained = any(repeat.suspects for repeat in repeats)
        if explained or not (repeats or unsure or _may_repeat(draws, pairs(draws))):
            return Comparison(draws, effort, tuple(repeats))
    for effort in sorted(effort for effort in AMOUNTS if effort >= 0):
        draws = draw(effort)
        repeats, unsure = _compare(draws, pairs(draws))
        if repeats or not unsure:
            return Comparison(draws, effort, tuple(repeats))
    raise Undecided(f"draws of {', '.join(unsure)} agree, but {draws.draws} of them do not exclude coincidence")


def _may_repeat(draws: WorkerDraws, pairs: Sequence[Pair]) -> bool:
    """Whether a pair shares a generator, a library has one that cannot be read, or draws are equal only for a pair.

    A leaf that is equal everywhere is not random, unless such a generator makes it.
    """
    if any(census.unreadable for census in draws.censuses):
        return True
    if any(True for pair in pairs for _ in overlapping_generators(draws.censuses, pair)):
        return True
    varying = [by for by in draws.as_is.values() if len(set(by.values())) > 1]
    return any(by.get(first) == by.get(second) for by in varying for first, second in pairs)


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


def differing_leaves(draws: WorkerDraws, pair: Pair) -> set[str]:
    """The leaves whose draws differ, seeded or as they are, and are certainly equal in neither."""
    by_verdict: dict[Agreement, set[str]] = {verdict: set() for verdict in Agreement}
    for path, _, verdict in _verdicts(draws, pair):
        by_verdict[verdict].add(path)
    return by_verdict[Agreement.DIFFERENT] - by_verdict[Agreement.CERTAIN]


def _compare(draws: WorkerDraws, pairs: Sequence[Pair]) -> tuple[list[Repeat], list[str]]:
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


def _verdicts(draws: WorkerDraws, pair: Pair) -> Iterator[tuple[str, Groups, Agreement]]:
    """For each leaf, seeded and as it is, the draws of the first and how those of the second compare."""
    for series in (draws.seeded, draws.as_is):
        for path, by in series.items():
            first, second = (by.get(worker_epoch, ()) for worker_epoch in pair)
            yield path, first, agreement(first, second)
