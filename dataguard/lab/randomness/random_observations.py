"""The observations of a lab about random numbers, shared files and start methods: `Randomness`.

Two of them stand here whole. State that reading a sample changes: one worker, restarted for each trial, reads one item
repeatedly, alone and after other items, with all RNGs frozen, so that no difference is random; then the user's own
workers read the same, which shows whether they lose that state.

Integers that the user's code draws at random, and on which no sample depends: samples are read again and again as they
are. `randint` and `randrange` give the user's code a number that notices when it is compared, printed or hashed: it
decides something then, perhaps outside the sample. Others are the offset of a crop, the number of a frame, the angle of
a rotation. Reads in which they are out of range confirm that nothing depends on them: a number that chooses among equal
things would raise. Where samples vary for other reasons, each is read in one random state with other integers.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.core.incident import LoaderRaised, is_library
from dataguard.core.model import Location
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import GeneratorState, Index, LeafRecord
from dataguard.lab.core.source_location import rebind
from dataguard.lab.dataset.dataset_observations import find_changed
from dataguard.lab.randomness import constant_seeds, shared_draws, shared_offsets, worker_draws
from dataguard.lab.randomness.reseeded_process import ReseededTrace, find_reseeded
from dataguard.lab.randomness.shared_draws import CachedDraws
from dataguard.lab.randomness.spawn_trial import (
    SpawnTrial,
    find_diverging_line,
    find_freed,
    find_lost_views,
    find_spawn_trial,
)
from dataguard.lab.randomness.unpicklable_parts import Pickling, try_pickling
from dataguard.lab.randomness.worker_draws import MOST_WORKERS, WorkerDraws, batch_size
from dataguard.lab.reading.experiment import FORKED, Experiment, Order, Script, Series, perform
from dataguard.lab.reading.open_files import opening_line
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.frozen_rng import FrozenRngs
from dataguard.lab.rng.rng_discovery import SEED
from dataguard.lab.streams.stream_observations import Streams
from dataguard.lab.subject import Subject
from dataguard.process.originals import time
from dataguard.targets.variants import Loader


class Randomness:
    """Observations of the loader's workers; each is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def same_items(self, effort: int = worker_draws.FIRST, num_workers: int | None = None, **asked: Any) -> WorkerDraws:
        """The same items drawn repeatedly in every worker over two epochs; the arguments are those of `Request`."""
        return worker_draws.find_same_items(self._subject, effort, num_workers, **asked)

    @property
    def first_items(self) -> WorkerDraws:
        """The fewest draws that show whether samples vary."""
        effort = worker_draws.FIRST if worker_draws.draws_often(self._subject) else worker_draws.GLANCE
        return worker_draws.find_same_items(self._subject, effort)

    @property
    def few_items(self) -> WorkerDraws:
        """The same; if samples are slow, only one draw of each item in every worker and epoch, without seeds."""
        effort = 0 if worker_draws.draws_often(self._subject) else worker_draws.GLANCE
        return worker_draws.find_same_items(self._subject, effort)

    def shared_draws(self, between: shared_draws.Between) -> shared_draws.SharedDraws:
        """Whether workers, or the epochs of a worker, draw the same random numbers, and from which generator."""
        return shared_draws.find_shared_draws(self._subject, between)

    @property
    def latent_clone(self) -> GeneratorState | None:
        """The generator from which two workers would draw the same numbers, if the loader has fewer."""
        return shared_draws.find_latent_clone(self._subject)

    def seeds(self, *, always: bool = False) -> constant_seeds.SeedTrace:
        """Which generators are seeded for every sample, and which outputs depend on constant seeds, or on any."""
        return constant_seeds.find_constant_seeds(self._subject, always=always)

    @property
    def cached(self) -> CachedDraws:
        """Which leaves hold numbers drawn at the first read of their index (map-style only)."""
        self._subject.need_map("the samples of a stream cannot be read again individually")
        self._subject.afford_reads("cache", shared_draws.CACHE_READS)
        return shared_draws.find_cached_draws(self._subject)

    def unused_draws(self, *, varied: bool) -> tuple[UnusedDraw, ...]:
        """The lines of the user's code that draw integers on which no sample depends (map-style only).

        None are looked for if samples are `varied` by something, and reading them often takes long.
        """
        subject = self._subject
        subject.need_map("the samples of a stream cannot be read again individually")
        if varied and not subject.reads_take_little(READS_AMONG_OTHERS):
            return ()
        subject.afford_reads("unused draws", ITEMS * (DRAWS + 1))
        indices = subject.epoch.asked(ITEMS)
        return subject.observe("unused draws", lambda folder: find_unused_draws(subject.build, folder, indices))

    @property
    def reseeded(self) -> ReseededTrace:
        """The global generators that reading sets to a state of its own."""
        return find_reseeded(self._subject)

    @property
    def carryover(self) -> Carryover:
        """State that reading leaves for later reads, and that the user's own workers lose."""
        return find_carryover(self._subject)

    @property
    def shared_offsets(self) -> shared_offsets.SharedOffsets:
        """Which files several forked workers read through one offset, and what goes wrong (map-style only)."""
        return shared_offsets.find_shared_offsets(self._subject)

    def opening_line(self, path: str) -> Location | None:
        """The line that opens the file which the object at a path holds; None if no call of the factory shows it."""
        again = self._subject.quick_rebuild
        if again is None:
            return None
        place = self._subject.line_of(("opens", path), lambda folder: opening_line(again, folder, path))
        return Location(*place[:2], path) if place else None

    @property
    def pickling(self) -> Pickling:
        """Which part of the loader cannot be pickled for a spawned worker."""
        subject = self._subject
        return subject.cache.observe(
            "pickling", lambda _: try_pickling(subject.build(), forked=not subject.facts.spawns)
        )

    def imported(self, module: str) -> bool:
        """Whether the process in which the factory ran has imported a module of this name."""

        def look(_: Path) -> bool:
            self._subject.build()
            return module in sys.modules

        imported: bool = self._subject.cache.observe(("imported", module), look)
        return imported

    @property
    def lost_views(self) -> tuple[str, ...]:
        """The leaves of a batch that arrive with other values, because a worker sends memory that it has freed."""
        return find_lost_views(self._subject)

    @property
    def freed(self) -> tuple[str, ...]:
        """The leaves that spawned workers read from memory that is freed when the dataset is sent to them."""
        return find_freed(self._subject)

    @property
    def spawn_trial(self) -> SpawnTrial:
        """What would fail or differ if the forked workers of the loader were spawned."""
        return find_spawn_trial(self._subject)

    @property
    def diverging_line(self) -> Location | None:
        """The line after which a value differs between a spawned and a forked worker."""
        place = find_diverging_line(self._subject)
        return Location(*place) if place else None


OTHER_ITEMS = 4
"""Items that one of the two scripts reads before the target. Both begin with a warm-up item."""
SHARED = 6
"""Reads of the target after the other items; the script without them makes as many fetches."""
TARGET_ONLY = (0, *[OTHER_ITEMS + 1] * (OTHER_ITEMS + SHARED))
AFTER_OTHERS = (*range(OTHER_ITEMS + 1), *[OTHER_ITEMS + 1] * SHARED)
TRIALS = ((TARGET_ONLY,), (TARGET_ONLY,), (AFTER_OTHERS,), (TARGET_ONLY,))
TRIAL_SEEDS = ((SEED,), (SEED,), (SEED,), (SEED + 1,))
TRIAL_READS = len(TRIALS) * len(TARGET_ONLY)
STAGES = 4
"""Fewest values that a state takes one after the other if it keeps changing."""
NEW_SHARE = 0.5
"""The share of new samples at the start of a second epoch if a stream continues instead of starting over."""


class Effect(Enum):
    """What a leaf depends on in earlier reads."""

    COUNT = "how many samples were read before"
    CONTENT = "which samples were read before"
    ITSELF = "how often it was read before"
    EPOCH = "how often it was iterated before"


@dataclass(frozen=True, slots=True)
class Carryover:
    """Leaves that depend on earlier reads, a dependence that the user's own workers lose.

    `changed` are the attributes of the dataset, or else of collate_fn, that reading changes, if there is such a leaf.
    `reads` were compared.
    """

    lost: Mapping[str, Effect] = field(default_factory=dict)
    changed: tuple[Location, ...] = ()
    reads: int = TRIAL_READS


def find_carryover(subject: Subject) -> Carryover:
    """Read in one process and, if a leaf depends on earlier reads, in the user's own workers."""
    if subject.facts.kind == "stream":
        subject.afford_reads("carryover", TRIAL_READS * batch_size(subject.facts))
        lost, reads = _lost_stream(subject)
    else:
        lost, reads = _lost_leaves(subject), TRIAL_READS
    if not lost:
        return Carryover(reads=reads)
    changed = find_changed(subject) or (() if subject.facts.default_collate else find_changed(subject, "collate_fn"))
    return Carryover(lost, changed, reads)


def _lost_leaves(subject: Subject) -> Mapping[str, Effect]:
    facts = subject.facts
    size = batch_size(facts)
    trials = Experiment(Script(TRIALS, size), (FrozenRngs(TRIAL_SEEDS),), FORKED, announced="first")
    readings = perform(subject, trials).leaves
    effects = {path: effect for path, series in readings.items() if (effect := _effect(series))}
    if not effects:
        return {}
    workers = min(facts.num_workers, MOST_WORKERS.get(facts.start_method, 2))
    epochs: tuple[tuple[Order, ...], ...] = (AFTER_OTHERS,) * workers, (TARGET_ONLY,) * workers
    wanted: dict[tuple[int, int], tuple[int, ...]] = {(0, 1): TARGET_ONLY}
    if facts.persistent:  # they keep their state; but does one know what the others read?
        orders = (TARGET_ONLY, *[AFTER_OTHERS] * (workers - 1))
        epochs = (orders,)
        wanted = {(worker, 0): order for worker, order in enumerate(orders)}
    in_workers = Experiment(Script(epochs, size), (FrozenRngs(TRIAL_SEEDS[:1]),), (("num_workers", workers),))
    worker_readings = perform(subject, in_workers).leaves
    return {
        path: effect
        for path, effect in effects.items()
        if _loses(worker_readings.get(path, {}), readings[path], wanted)
    }


def _lost_stream(subject: Subject) -> tuple[Mapping[str, Effect], int]:
    """Whether the second epoch of a stream continues in one process, and starts over in the user's own workers."""
    stream = Streams(subject).stream
    in_process = stream(1, seeded=True, frozen=True, persistent=True, method="fork", announce=False)
    if not in_process.ended or in_process.new_share < NEW_SHARE:
        return {}, in_process.total
    in_workers = stream(subject.facts.num_workers, seeded=True, frozen=True)
    starts_over = (
        in_workers.ended and min(map(len, in_workers.again), default=0) > 1 and not in_workers.begins_differently
    )
    if starts_over:  # a list that is shuffled in place goes on from its last order, and is as random without it
        first = set(chain.from_iterable(in_process.by_worker))
        reordered = first.issuperset(chain.from_iterable(in_process.again))
        starts_over = not (reordered and stream(subject.facts.num_workers, seeded=False).begins_differently)
    return {"the stream": Effect.EPOCH} if starts_over else {}, in_workers.total


def _effect(trials: Mapping[tuple[int, int], Series]) -> Effect | None:
    """What a leaf depends on, by its trials; None if it does not certainly depend on earlier reads.

    Both equal trials have to agree, which excludes clocks, process ids and draws at the start of a worker. For CONTENT,
    the leaf must not depend on random numbers, because samples may be mixed with earlier ones, and the effect must
    last: otherwise only the first samples of an epoch differ.
    """
    if len(trials) < len(TRIALS):
        return None
    equal, again, after, reseeded = (trials[0, epoch] for epoch in range(len(TRIALS)))
    uninterrupted, after_others = equal[1:], after[OTHER_ITEMS + 1 :]
    if equal[1:] != again[1:]:
        return None
    if _keeps_changing(uninterrupted):
        if after_others == uninterrupted[OTHER_ITEMS:]:
            return Effect.COUNT
        if after_others == uninterrupted[:SHARED]:
            return Effect.ITSELF
    steady = _keeps_changing(uninterrupted) or len(set(uninterrupted[OTHER_ITEMS:])) == 1
    lasts = steady and all(late != plain for late, plain in zip(after_others, uninterrupted, strict=False))
    return Effect.CONTENT if lasts and uninterrupted == reseeded[1:] else None


def _keeps_changing(series: Series) -> bool:
    """Whether a leaf keeps taking new values, without cycling."""
    runs = [value for value, _ in groupby(series)]
    return len(set(runs)) == len(runs) >= STAGES and len(set(series[len(series) // 2 :])) > 1


def _loses(
    worker_readings: Mapping[tuple[int, int], Series],
    trials: Mapping[tuple[int, int], Series],
    scripts: Mapping[tuple[int, int], tuple[int, ...]],
) -> bool:
    """Whether each of these workers and epochs reads as if nothing else had been read, before or by other workers."""
    expected = {TARGET_ONLY: trials[0, 0], AFTER_OTHERS: trials[0, 2]}
    return all(
        worker_readings.get(worker_epoch, ())[1:] == expected[script][1:] for worker_epoch, script in scripts.items()
    )


ITEMS, DRAWS = 8, 8
"""How many items are read, and how often each."""
DRAWING_ITEMS = 4
"""Items of which one must draw: each has to, in one of its draws at least."""
FROZEN_DRAWS = 4
"""Random states in which each item is read with other integers, if samples vary for other reasons."""
READS_AMONG_OTHERS = ITEMS * (DRAWS + 8 * FROZEN_DRAWS)
"""So many reads are needed then, with two such lines."""
LARGEST = 1 << 16
"""A range of more numbers is that of a seed."""


@dataclass(frozen=True, slots=True)
class UnusedDraw:
    """A line that calls a `function` for an integer from `low` to `high`; other ones change none of `items`."""

    function: str
    at: Location
    low: int
    high: int
    items: int
    draws: int


def find_unused_draws(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> tuple[UnusedDraw, ...]:
    """The lines whose integers vary for each of these indices, and change nothing."""
    watch = _DrawWatch()
    reader = Reader(build(), folder)

    def read(index: Index) -> tuple[LeafRecord, ...]:
        watch.index = index
        try:
            return leaves_of(reader.read_as_is(index))
        finally:
            watch.index = None

    def frozen(index: Index, draw: int) -> tuple[LeafRecord, ...]:
        watch.index = index
        try:
            return leaves_of(reader.read(index, draw))
        finally:
            watch.index = None

    try:
        reader.read_as_is(indices[0])  # what is created late
        before = torch.get_rng_state()
        samples = [{read(index)} for index in indices[:DRAWING_ITEMS]]
        if not watch.draws:
            return ()
        samples += [{read(index)} for index in indices[DRAWING_ITEMS:]]
        for seen, index in zip(samples, indices, strict=True):
            seen.update(read(index) for _ in range(DRAWS - 1))
        if watch.others or not torch.equal(before, torch.get_rng_state()):
            return _unused_among_others(watch, frozen, indices, len(reader.dataset))
        watch.beyond = True
        again = [{read(index)} for index in indices]
    except LoaderRaised:  # a number out of range chooses nothing
        return ()
    if samples != again or len(set(map(frozenset, samples))) < len(indices):
        return ()
    if any(map(_is_opaque, chain.from_iterable(chain.from_iterable(samples)))):
        return ()
    return tuple(
        UnusedDraw(draw.function, Location(*line), draw.low, draw.high, len(indices), DRAWS)
        for line, draw in watch.draws.items()
        if draw.may_be_unused(len(indices), len(reader.dataset))
    )


def _unused_among_others(
    watch: _DrawWatch, frozen: Callable[[Index, int], tuple[LeafRecord, ...]], indices: Sequence[Index], size: int
) -> tuple[UnusedDraw, ...]:
    """The same, where samples vary for other reasons: each item is read in one random state with other integers.

    All of these are calculated with, so that they were meant for something; numbers that a condition skips are not, nor
    are those that come after a first one which is kept, as the wrong label of a sample is.
    """
    lines = {line for line, draw in watch.draws.items() if draw.may_be_unused(len(indices), size) and not draw.unused}
    for index, draw in product(indices, range(FROZEN_DRAWS)):
        usual = frozen(index, draw) if lines else ()
        for line in sorted(lines):
            for watch.instead in ((line, 1), (line, 2), (line, BEYOND)):
                try:
                    changed = frozen(index, draw) != usual
                except LoaderRaised:
                    changed = True
                if changed or any(map(_is_opaque, usual)):
                    lines.discard(line)
                    break
            watch.instead = None
        if lines and frozen(index, draw) != usual:  # by something that is no generator
            return ()
    drawn = [(line, watch.draws[line]) for line in sorted(lines)]
    return tuple(
        UnusedDraw(draw.function, Location(*line), draw.low, draw.high, len(indices), FROZEN_DRAWS)
        for line, draw in drawn
        if not draw.decides
    )


_PLAIN = {"str", "bytes", "int", "float", "bool", "NoneType"}


def _is_opaque(leaf: LeafRecord) -> bool:
    """Whether a leaf has a content that is not compared."""
    return not leaf.digest or (leaf.dtype is None and leaf.shape is None and leaf.kind not in _PLAIN)


_INTEGERS = ((random, "randint", 1), (random, "randrange", 0), (np.random, "randint", 0))
"""Functions that draw an integer, and how far their second argument is beyond the largest."""
_OTHERS = {
    random: ("random", "uniform", "gauss", "betavariate", "choice", "choices", "sample", "shuffle", "getrandbits"),
    np.random: ("random", "rand", "randn", "uniform", "normal", "beta", "binomial", "choice", "permutation", "shuffle"),
    time: ("sleep",),
}
"""Functions that may decide what becomes of an integer; or that wait for as long as it says."""


_Line = tuple[str, int, str]
"""The file, line and function of a call."""
BEYOND = -1
"""Stands for numbers out of range."""


class _DrawWatch:
    """Records the random numbers that the user's code draws in this disposable process."""

    def __init__(self) -> None:
        self.index: Any = None
        self.beyond = False
        """Whether numbers are out of range."""
        self.instead: tuple[_Line, int] | None = None
        """A line that gets other numbers, and how far from those that are drawn; `BEYOND` for those out of range."""
        self.others = False
        self.draws: dict[_Line, _Draw] = {}
        replacements = {}
        for module, name, beyond in _INTEGERS:
            original = getattr(module, name)
            replacements[id(original)] = original, self._integers(original, f"{module.__name__}.{name}", beyond)
        for module, names in _OTHERS.items():
            for original in (getattr(module, name) for name in names):
                replacements[id(original)] = original, self._other(original)
        rebind(replacements, ("random", "numpy.random", "time"))

    def _integers(self, original: Callable[..., Any], function: str, beyond: int) -> Callable[..., Any]:
        def draw(*args: Any, **kwargs: Any) -> Any:
            value, code = original(*args, **kwargs), sys._getframe(1).f_code
            if self.index is None or is_library(code.co_filename):
                return value
            bounds = (0, *args) if len(args) == 1 else args
            if kwargs or len(bounds) != 2 or type(value) is not int:  # a step, or an array of numbers
                self.others = True
                return value
            low, high = int(bounds[0]), int(bounds[1]) - 1 + beyond
            line = code.co_filename, sys._getframe(1).f_lineno, code.co_name
            record = self.draws.setdefault(line, _Draw(function, {}, low, high))
            record.low, record.high = min(low, record.low), max(high, record.high)
            record.values.setdefault(self.index, set()).add(value)
            away = self.instead[1] if self.instead and self.instead[0] == line else 0
            if self.beyond or away == BEYOND:
                value = 2 * high - low + 1
            elif away:
                value = low + (value - low + away * (1 + (high - low) // 3)) % (high - low + 1)
            drawn = _Drawn(value)
            drawn.source = record
            record.unused[id(drawn)] = drawn
            return drawn

        return draw

    def _other(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*args: Any, **kwargs: Any) -> Any:
            self.others |= self.index is not None and not is_library(sys._getframe(1).f_code.co_filename)
            return original(*args, **kwargs)

        return draw


@dataclass(slots=True)
class _Draw:
    """The numbers that one line has drawn, by index, and the bounds of the widest range."""

    function: str
    values: dict[Any, set[int]] = field(default_factory=dict)
    low: int = 0
    high: int = 0
    decides: bool = False
    unused: dict[int, _Drawn] = field(default_factory=dict)
    """Numbers that nothing was calculated with yet, by their identity."""

    def may_be_unused(self, items: int, size: int) -> bool:
        """Whether it varies for each of so many items, decides nothing, and is no seed or index of `size` samples."""
        return (
            len(self.values) == items
            and all(len(values) > 1 for values in self.values.values())
            and not self.decides
            and self.high - self.low < LARGEST
            and self.high - self.low + 1 != size  # the index of a sample, in place of one that cannot be read
        )


_CALCULATING = tuple(
    f"__{side}{name}__" for name in ("add", "sub", "mul", "floordiv", "truediv", "mod") for side in ("", "r")
)
_DECIDING = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__hash__", "__str__", "__repr__")


class _Drawn(int):
    """A number that notices when it decides something."""

    source: _Draw

    def __format__(self, spec: str) -> str:
        self.source.decides = True
        return format(int(self), spec)


def _noticing(name: str, *, decides: bool) -> Callable[..., Any]:
    plain = getattr(int, name)

    def method(self: _Drawn, *args: Any) -> Any:
        self.source.decides |= decides
        self.source.unused.pop(id(self), None)
        return plain(int(self), *args)

    return method


for _name in _DECIDING:
    setattr(_Drawn, _name, _noticing(_name, decides=True))
for _name in _CALCULATING:
    setattr(_Drawn, _name, _noticing(_name, decides=False))
