"""What a run with another seed reads: the order of its indices, and what it draws at random for the same items.

The factory is called once more for that, with the other seed as its argument `seed`; the global generators get it as
well. Both runs draw the same items in each of their workers, and are compared like the ranks of one loader.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dataguard.core.model import NotTested
from dataguard.lab.core.records import WorkerEpoch
from dataguard.lab.core.source_location import Place
from dataguard.lab.randomness import worker_draws
from dataguard.lab.randomness.generator_lines import with_rank_lines
from dataguard.lab.randomness.shared_draws import SharedDraws, confirm_suspects
from dataguard.lab.randomness.worker_draws import WorkerDraws, blame_library, compare_draws, draws_of
from dataguard.lab.reading.experiment import readings_of, run, seconds_of
from dataguard.lab.rng.rng_discovery import Pair, find_generators
from dataguard.lab.rng.seed_watch import SeedWatch
from dataguard.lab.streams import orders
from dataguard.lab.streams.stream_observations import Streams
from dataguard.lab.subject import Subject

RUNS = 2
"""Runs that are compared: the ordinary one, and one with another seed."""
STRIDE = 1_000_003
"""The difference between their seeds: more than there are workers, whose seeds follow each other."""
FEWEST_INDICES = 8
"""The fewest indices whose order says something: of seven, two random orders are equal once in 5,040 runs."""


@dataclass(frozen=True, slots=True)
class OrderOfSeeds:
    """Whether runs with two `seeds` read so many `indices` in the `same` random order, epoch by epoch."""

    seeds: tuple[int, int]
    indices: int
    same: bool


class OtherSeeds:
    """Observations of runs with another seed: `Reproducibility.seeds`. The target has to be a factory with a seed."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def order(self) -> OrderOfSeeds:
        """The order of indices under two seeds (map-style only); one that is the same in every epoch is not random."""
        subject, (first, second) = self._subject, self._seeds
        as_is = Streams(subject).orders
        subject.afford("order of another seed", subject.factory_seconds)
        build = partial(subject.rebuild, seed=second)
        other = subject.observe(
            ("orders", second), lambda _: orders.draw_orders(build, subject.facts.length), lambda _, drawn: drawn
        )
        epochs = [*zip(as_is.epochs, as_is.marks, strict=True)]
        varied = len(set(epochs)) == len(epochs) > 1 and len(as_is.epochs[0]) >= FEWEST_INDICES
        same = varied and epochs == [*zip(other.epochs, other.marks, strict=True)]
        return OrderOfSeeds((first, second), len(as_is.epochs[0]), same)

    @property
    def maker(self) -> Place | None:
        """The line that makes and seeds the generator of the order; else the one that seeds torch's last."""
        return self._subject.line_of("generator of the order", lambda _: _line_of_generator(self._subject))

    def shared_draws(self) -> SharedDraws:
        """Whether a worker draws the same random numbers under both seeds (map-style only).

        Raises Undecided when coincidence cannot be excluded, or no generator explains the repeat.
        """
        subject = self._subject
        draw = partial(find_seed_items, subject, self._seeds)
        comparison = compare_draws(draw, _pairs, often=worker_draws.draws_often(subject))
        draws = comparison.draws
        repeat = confirm_suspects(draw, comparison, subject.facts) or blame_library(draw, _pairs, comparison)
        if repeat is not None:
            repeat = with_rank_lines(subject, repeat, draws.workers // RUNS)
        exercised = {"draws": draws.draws, "items": draws.items, "seeds": RUNS}
        return SharedDraws(exercised, repeat, draws.shown)

    @property
    def _seeds(self) -> tuple[int, int]:
        if "seed" in self._subject.target.args:
            raise NotTested("--arg fixes the seed of the factory")
        seed = self._subject.settings.seed
        return seed, seed + STRIDE


def find_seed_items(subject: Subject, seeds: tuple[int, int], effort: int = 0, **asked: Any) -> WorkerDraws:
    """Like `find_same_items`, in runs with these seeds: worker w of run r has number r times the workers of a run, + w.

    A loader without workers reads in its main process.
    """
    subject.need_map("the samples of a stream cannot be drawn again")
    facts = subject.facts
    workers = min(facts.num_workers, 1 if facts.spawns else worker_draws.MOST_WORKERS.get(facts.start_method, 2))
    plan = replace(worker_draws.plan_of(subject, worker_draws.Request(effort, workers, **asked)), epochs=1)

    def draws(number: int, seed: int) -> WorkerDraws:
        experiment = worker_draws.of_run(plan, number, workers)
        # The loader of the checkpoint was made with the first seed.
        build = partial(subject.rebuild, seed=seed) if number or not subject.has_checkpoint else subject.build
        seconds = subject.factory_seconds + seconds_of(subject, experiment)
        subject.afford(("seed", number, experiment), seconds)
        readings = subject.observe(
            ("seed", seed, experiment), partial(run, build, experiment), partial(readings_of, experiment)
        )
        return draws_of(plan, readings)

    return worker_draws.side_by_side(plan, [draws(number, seed) for number, seed in enumerate(seeds)])


def _pairs(draws: WorkerDraws) -> list[Pair]:
    """Each worker under both seeds."""
    each = draws.workers // RUNS
    return [(WorkerEpoch(worker, 0), WorkerEpoch(worker + each, 0)) for worker in range(each)]


def _line_of_generator(subject: Subject) -> Place | None:
    with SeedWatch().making() as made:
        loader: Any = subject.rebuild()
    parts = {"batch_sampler": loader.batch_sampler, "sampler": loader.sampler}
    held = (loader.generator, *(source.generator for source in find_generators(parts)))
    lines = (made.line_of(generator) for generator in held if generator is not None)
    seeding = made.seedings.get("global torch")
    inherited = (seeding.file, seeding.line, seeding.function) if seeding else None
    return next(filter(None, lines), inherited)
