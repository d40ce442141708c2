"""The lines of the user's code that make, seed and draw from the generator that a repeat is blamed on.

They are observed only for a finding: forked workers start for one batch each, which shows the seeds that generators get
there and the first draw; and the factory is called once more, from newly imported modules, which shows what makes the
generators that workers inherit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.core.loader_facts import worker_roots
from dataguard.lab.core.records import GeneratorState, Seeding, Seedings
from dataguard.lab.core.source_location import Place, called_at, is_own
from dataguard.lab.randomness.worker_draws import EPOCHS, MOST_WORKERS, Repeat
from dataguard.lab.reading.experiment import Experiment, Script, perform
from dataguard.lab.rng.held_clock import SameSecond
from dataguard.lab.rng.rng_discovery import Source, find_generators
from dataguard.lab.rng.seed_watch import DrawPlace, FirstDraw, FirstSeeds, SeedWatch
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader


def with_lines(subject: Subject, repeat: Repeat) -> Repeat:
    """The repeat with the line that gives the first suspect the same seed in both, makes it, and draws from it."""
    suspect = repeat.suspects[0].generator
    uses = find_first_uses(subject, suspect)
    given = {(note.worker, note.epoch): {seeding.path: seeding for seeding in note.seeds} for note in uses.seeds}
    first, second = (given.get(where, {}).get(suspect.path) for where in (repeat.one, repeat.two))
    seeding = first if first == second else None
    return _placed(repeat, uses, seeding, None if seeding else find_construction(subject, suspect))


def with_rank_lines(subject: Subject, repeat: Repeat, workers: int) -> Repeat:
    """The same for ranks with so many workers each, which are numbered rank by rank.

    The lines are those of one process. What workers seed themselves they seed there as well; the seeds of all others
    follow from the loader's generator, or from torch's in the main process.
    """
    suspect = repeat.suspects[0].generator
    uses = find_first_uses(subject, suspect)
    seeding = next(_seedings_on_ranks(uses, repeat, workers), None)
    inherited = bool(subject.facts.num_workers)
    return _placed(repeat, uses, seeding, None if seeding else find_construction(subject, suspect, inherited=inherited))


def seeds_the_same(subject: Subject, repeat: Repeat, workers: int) -> bool:
    """Whether a worker gives the generator one seed in each of two epochs: it does so on any rank, too.

    A seed that follows from that of the epoch may differ between ranks.
    """
    uses = find_first_uses(subject, repeat.suspects[0].generator)
    seeds = [seeding.seed for seeding in _seedings_on_ranks(uses, repeat, workers)]
    return len(seeds) > 1 and len(set(seeds)) == 1


def _seedings_on_ranks(uses: FirstUses, repeat: Repeat, workers: int) -> Iterator[Seeding]:
    """How the first suspect is seeded in the first worker of a repeat, if each rank has so many workers."""
    path, worker = repeat.suspects[0].generator.path, repeat.one.worker % max(workers, 1)
    given = (seeding for note in uses.seeds if note.worker == worker for seeding in note.seeds)
    return (seeding for seeding in given if seeding.path == path)


def _placed(repeat: Repeat, uses: FirstUses, seeding: Seeding | None, made: Place | None) -> Repeat:
    maker = _MAKERS.get(repeat.suspects[0].generator.kind)
    made_by = called_at(made, maker) if made and maker else None
    return replace(repeat, seeding=seeding, made_at=made, made_by=made_by, drawn_at=uses.drawn)


_MAKERS = {
    "numpy.random.Generator": "default_rng",
    "numpy.random.RandomState": "RandomState",
    "random.Random": "Random",
    "torch.Generator": "Generator",
}
"""The functions that make generators of a kind."""


@dataclass(frozen=True, slots=True)
class FirstUses:
    """The seeds that generators get in workers up to the first batch, in two epochs; and where one is first `drawn`."""

    seeds: tuple[Seedings, ...] = ()
    drawn: tuple[str, int] | None = None


def find_first_uses(subject: Subject, suspect: GeneratorState) -> FirstUses:
    """The first seeds of all generators, and the first draw of this one; none if that cannot be observed.

    Forked workers start for one batch each, as far as the budget allows. A library with a generator of its own is
    imported first, so that seeding is seen even if `worker_init_fn` imports it itself.
    """
    workers = max(1, min(subject.facts.num_workers, MOST_WORKERS["fork"]))
    experiment = Experiment(
        Script((((0,),) * workers,) * EPOCHS) if subject.facts.kind == "map" else None,
        (SameSecond(), FirstSeeds(), FirstDraw(suspect.path)),
        (("num_workers", workers), ("multiprocessing_context", "fork")),
        (workers,) * EPOCHS,
        imports=(suspect.library,) if suspect.library else (),
        whole=False,
    )
    try:
        readings = perform(subject, experiment)
    except (NotApplicable, Undecided):
        return FirstUses()
    places = [note.at for note in readings.noted(DrawPlace)]
    return FirstUses(tuple(readings.noted(Seedings)), places[0] if places else None)


def find_construction(subject: Subject, suspect: GeneratorState, *, inherited: bool = False) -> Place | None:
    """The line that makes a generator or, of a global one, that seeds it last; None if none is seen to.

    `inherited`: a worker's global generators are seeded from the loader's, or from torch's in the main process. Where
    the factory cannot be called again, or takes long, it is the line that assigns what holds the generator.
    """
    is_called = subject.quick_rebuild is not None
    find = partial(_construction, subject, inherited) if is_called else partial(_assignment, subject)
    return subject.line_of(("makes", suspect.path, inherited), lambda _: find(suspect.path))


def _construction(subject: Subject, inherited: bool, path: str) -> Place | None:
    with SeedWatch().making() as made:
        loader = subject.rebuild(num_workers=0)
        if is_own(loader):  # it may seed at the start of an epoch
            next(iter(loader), None)
    if path.startswith("global "):
        if inherited and loader.generator is not None:
            return made.line_of(loader.generator)
        seeding = made.seedings.get("global torch" if inherited else path)
        return (seeding.file, seeding.line, seeding.function) if seeding else None
    source = _source_at(loader, path)
    return (made.line_of(source.generator) or source.assigned_at) if source else None


def _assignment(subject: Subject, path: str) -> Place | None:
    source = _source_at(subject.build(), path)
    return source.assigned_at if source else None


def _source_at(loader: Loader, path: str) -> Source | None:
    return next((source for source in find_generators(worker_roots(loader)) if source.path == path), None)
