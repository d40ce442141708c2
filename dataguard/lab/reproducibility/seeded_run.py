"""One run of a loader from fixed seeds: the indices, samples and batches of the beginning of two epochs, as digests.

Each run imports the user's modules again and calls the factory in a new process, with objects at other addresses.
Whatever a run draws from the clock, the system or `id()` differs then, while all that the seeds decide is the same.

A run can also record the stages of one sample on its way into a batch (`StageTrace`): what each transform got and
returned, the sample, and the batch; and its arrays line by line. `UseLog` notes which functions the user's code uses
first where, in all processes of an observation.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset

from dataguard.core.model import NotTested
from dataguard.lab.core.index_schedules import Schedule, drawn, in_use
from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.loader_facts import overrides_iter, start_method
from dataguard.lab.core.records import BatchRecord, Index, LeafRecord, SampleRecord, members, plain_index
from dataguard.lab.core.source_location import Place, caller, made_at, replaced
from dataguard.lab.culprit.line_trace import MOST_SECONDS, LineTrace, Look, content_of, first_unlike
from dataguard.lab.process.incidents import read_spools
from dataguard.lab.process.isolation import in_fork
from dataguard.lab.rng.rng_discovery import saved_generators
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.recording import Records
from dataguard.lab.spy.worker_spy import Plan
from dataguard.lab.transforms.pipeline_watch import CallLog, PipelineWatch
from dataguard.process.originals import os, pickle
from dataguard.targets.variants import Loader, copied

MOST_SAMPLES = 2
"""Samples of a batch that are read: each worker reads batches of two epochs, and all that differs counts."""
Digests = Mapping[str, bytes]
"""The content of each leaf, by its path."""


@dataclass(frozen=True, slots=True)
class RunBatch:
    """A batch of a run: its number in the epoch, and digests of its samples and of what collate_fn made of them."""

    epoch: int
    number: int
    samples: tuple[Digests, ...]
    indices: tuple[Index, ...]
    leaves: Digests


@dataclass(frozen=True, slots=True)
class Run:
    """A run with so many workers: the indices that the sampler planned for each epoch, and the batches."""

    workers: int
    orders: tuple[tuple[Any, ...], ...]
    batches: tuple[RunBatch, ...]


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one build, with the loader's own workers and without any, and what the user seeds."""

    each: tuple[Run, ...]
    seeded_by: tuple[str, ...]

    @property
    def samples(self) -> int:
        """The number of samples that were read."""
        return sum(len(batch.samples) for run in self.each for batch in run.batches)


def run_again(
    build: Callable[..., Loader], folder: Path, instruments: Sequence[Instrument] = (), *, few: bool = False
) -> Runs:
    """Build the loader, and run it with its own number of workers and, if it has workers, without them.

    The latter happens in a fork, so that it does not change the loader, and not if its class handles batches itself.
    Raises LoaderFailed for the former, and NotApplicable if neither is possible. A `few` samples are enough if they are
    slow: two batches of the first epoch, and one of the second.
    """
    schedules: list[FirstIndices] = []
    shifted = (ShiftedAddresses(), *instruments)
    _shift_addresses()
    with _seeding_seen() as seeded_at:
        loader = build(schedule=partial(_first_indices, schedules, 1 if few else MOST_SAMPLES))
    runs: list[Run] = []
    if loader.num_workers and not overrides_iter(loader):
        without_workers = copied(loader, {"num_workers": 0})
        fork_folder = folder / "without workers"
        fork_folder.mkdir()
        restore = saved_generators()  # a fork seeds them anew

        def run_without_workers() -> Run:
            restore()
            return _run(without_workers, schedules, fork_folder, (1,), shifted)

        run = in_fork(run_without_workers)
        runs = [run] if run else []
    if not loader.num_workers or start_method(loader) == "fork":  # spawned workers take seconds
        first = 2 if few else max(loader.num_workers, 2) + 1
        runs.insert(0, _run(loader, schedules, folder, (first, 1), shifted))
    if not runs:
        raise NotTested("its workers are spawned, and it does not run without them")
    return Runs(tuple(runs), (*_generators_of(loader), *seeded_at))


def run_as_it_is(build: Callable[..., Loader], folder: Path, batches: int) -> Run:
    """Read so many whole batches of an epoch, and one of the next."""
    schedules: list[FirstIndices] = []
    loader = build(schedule=partial(_first_indices, schedules, None))
    return _run(loader, schedules, folder, (batches, 1), whole=True)


def _run(
    loader: Loader,
    schedules: Sequence[FirstIndices],
    folder: Path,
    lengths: Sequence[int],
    instruments: Sequence[Instrument] = (),
    *,
    whole: bool = False,
) -> Run:
    """Read the first batches of each epoch in this disposable process: `whole` ones of a stream, or some samples."""
    for schedule in schedules:
        schedule.lengths = lengths
    stream = isinstance(loader.dataset, IterableDataset)
    limit = None if whole or not stream else 4 * MOST_SAMPLES
    drive(loader, Plan(folder, (Records(), *instruments), most=limit, keep_going=True), batches=lengths)
    used = in_use(schedules, loader)
    orders = tuple(used.orders[: len(lengths)]) if used else ()
    return Run(loader.num_workers, orders, tuple(_batches(folder, max(loader.num_workers, 1), lengths)))


MOST_PLANNED = 64
"""Batches of an epoch whose indices are compared: a shuffled order that differs does so in the first few."""


class FirstIndices(Schedule):
    """The first batches of each epoch, as far as their first samples, and the `orders` that were planned."""

    def __init__(self, inner: Any, cut: int | None, *, batched: bool) -> None:
        super().__init__(inner)
        self.orders: list[tuple[Any, ...]] = []
        self.lengths: Sequence[int] = (1,)
        """How many batches each epoch has; the last number counts for all that follow."""
        self.cut = cut
        self.batched = batched

    def __iter__(self) -> Iterator[Any]:
        entries = list(islice(drawn(self.inner), MOST_PLANNED))
        count = self.lengths[min(len(self.orders), len(self.lengths) - 1)]
        self.orders.append(tuple(map(self._plain, entries)))
        yield from map(self._part, entries[: count if self.batched else count * (self.cut or MOST_SAMPLES)])

    def __len__(self) -> int:
        return max(self.lengths)

    def _plain(self, entry: Any) -> Any:
        return tuple(map(plain_index, members(entry))) if self.batched else plain_index(entry)

    def _part(self, entry: Any) -> Any:
        return members(entry)[: self.cut] if self.batched and self.cut else entry


def _first_indices(schedules: list[FirstIndices], cut: int | None, inner: Any, batched: bool) -> FirstIndices:
    """Replace an index sampler, and add the schedule to the `schedules`."""
    schedules.append(FirstIndices(inner, cut, batched=batched))
    return schedules[-1]


def _batches(folder: Path, workers: int, lengths: Sequence[int]) -> Iterator[RunBatch]:
    """The batches that were asked for, in their order: torch hands batch k to worker k mod `workers`.

    How many more a worker reads ahead depends on its speed. A loader whose iterator outlives its epochs may read the
    same batches again: the first ones count.
    """
    samples: dict[tuple[int, int], dict[int, SampleRecord]] = {}
    collated: dict[tuple[int, int], BatchRecord] = {}
    for record in read_spools(folder):
        if isinstance(record, SampleRecord | BatchRecord):
            key = record.epoch, record.batch * workers + (record.worker or 0)
            if isinstance(record, SampleRecord):
                samples.setdefault(key, {}).setdefault(record.position, record)
            else:
                collated.setdefault(key, record)
    asked = [(epoch, number) for epoch, length in enumerate(lengths) for number in range(length)]
    for key, of_batch in ((key, samples[key]) for key in asked if key in samples):
        batch = collated.get(key)
        yield RunBatch(
            *key,
            tuple(_digests(sample.leaves) for sample in of_batch.values()),
            tuple(sample.index for sample in of_batch.values()),
            _digests(batch.leaves) if batch else {},
        )


def _digests(leaves: Sequence[LeafRecord]) -> Digests:
    """The content of the leaves: strings beside arrays are keys and paths, such as that of a temporary file."""
    arrays = [leaf for leaf in leaves if leaf.kind not in ("str", "bytes")]
    return {leaf.path: leaf.digest for leaf in arrays or leaves}


def _generators_of(loader: Loader) -> Iterator[str]:
    """The generators that the user gave to the loader and its sampler."""
    if loader.generator is not None:
        yield "the loader's generator"
    if getattr(loader.sampler, "generator", None) not in (None, loader.generator):
        yield "the sampler's generator"


@contextmanager
def _seeding_seen() -> Iterator[list[str]]:
    """Collect the lines of the user's code that seed a global generator."""
    seeded: list[str] = []

    def noting(original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def seed(*args: Any, **kwargs: Any) -> Any:
            line = caller()
            if line and (args or kwargs):
                seeded.append(f"{name} at {line[0]}:{line[1]}")
            return original(*args, **kwargs)

        return seed

    with ExitStack() as stack:
        for module, name in ((random, "seed"), (np.random, "seed"), (torch, "manual_seed")):
            stack.enter_context(replaced(module, name, noting(getattr(module, name), f"{module.__name__}.{name}")))
        yield seeded


@dataclass(frozen=True, slots=True)
class ShiftedAddresses(Instrument):
    """Shifts addresses before each read: otherwise, what was freed shortly before is used again in all runs."""

    @contextmanager
    def around_sample(self) -> Iterator[None]:
        """Shift, then read."""
        _shift_addresses()
        yield


_MOST_BALLAST = 400
"""Most objects of each size that shift the addresses of later ones: an address is the same in two runs with odds of one
in 400, and a call takes 1.8 MB on average."""
_ballast: list[bytes] = []
"""What shifts addresses."""


def _shift_addresses() -> None:
    """Give later objects other addresses than in any other run: what depends on `id()` differs then."""
    # Why this shifts them: CPython takes each object of up to 512 bytes from a pool for its size class, 16 bytes apart,
    # and gives out its free places one after the other. So a random number of new objects in each class leaves another
    # place as the next one. They are kept, or their places would be given out again.
    source = random.Random(os.urandom(8))
    for size in range(1, 512, 16):
        _ballast.extend(bytes(size) for _ in range(source.randrange(_MOST_BALLAST)))


_USES_FILE = "used"


class UseLog:
    """A file to which every process appends the first use of each function."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _USES_FILE
        self._seen: set[str] = set()

    def note(self, name: str) -> bool:
        """Log a call of a function; returns whether the user's code made it."""
        line = caller()
        if line and name not in self._seen:
            self._seen.add(name)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([name, line]) + "\n")
        return line is not None


def used_in(folder: Path) -> Mapping[str, Place]:
    """Where each function was used first, by its name."""
    path = folder / _USES_FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    uses: dict[str, Place] = {}
    for name, (file, line, function) in map(json.loads, lines):
        uses.setdefault(name, (file, line, function))
    return uses


MOST_STAGES = 200
"""Most stages that are recorded: a guard against steps that are called for each pixel or token."""
MOST_LEAF_BYTES = 8_000_000
"""Most bytes of a leaf that is kept to be compared value by value, as of an image of 1,600 by 1,600: a limit of
memory."""
_STAGES_FILE = "stages"


@dataclass(frozen=True, slots=True)
class Stage:
    """What one step got (`given`) or returned, by leaf path: arrays, or the repr of another value.

    `path` and `name` are those of the step and its class, `at` is where that is defined.
    """

    path: str
    name: str
    at: tuple[str, int] | None
    given: bool
    leaves: Mapping[str, Any]


SAMPLE, BATCH = "sample", "batch"
"""The paths of the two last stages: what the dataset returned, and what collate_fn returned."""


@dataclass(frozen=True, slots=True)
class StageTrace(Instrument):
    """Records the stages of the sample at one place, and its arrays line by line.

    The place is the worker, the epoch, the number of the fetch and the position in it.
    """

    worker: int | None
    epoch: int
    fetch: int
    position: int

    def start(self, process: Process) -> Hooks:
        """Only the process that reads the sample records."""
        return _StageTrace(self, process.folder) if process.worker == self.worker else Hooks()


class _StageTrace(Hooks):
    def __init__(self, asked: StageTrace, folder: Path) -> None:
        self._asked = asked
        self._folder = folder
        self._steps: _Steps | None = None
        self._lines: LineTrace | None = None

    @contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        """Watch the steps during the fetch of the batch, and write what they did."""
        if (fetch.epoch, fetch.number) != (self._asked.epoch, self._asked.fetch):
            yield
            return
        roots = {name: root for name, root in fetch.roots.items() if root is not None}
        self._steps, self._lines = _Steps(roots), LineTrace(content_of, roots, MOST_SECONDS, resumed=False)
        try:
            yield
        finally:
            followed = FollowedSample(tuple(self._steps.stages), tuple(self._lines.looks))
            self._steps = self._lines = None
            (self._folder / _STAGES_FILE).write_bytes(pickle.dumps(followed))

    @contextmanager
    def around_sample(self) -> Iterator[None]:
        """Record during one read; `__getitems__` reads all samples at once, of which the first is recorded."""
        if self._steps is None or self._lines is None:
            yield
            return
        self._steps.on = self._steps.reads == self._asked.position
        self._steps.reads += 1
        try:
            with self._lines.following() if self._steps.on else nullcontext():
                yield
        finally:
            self._steps.on = False

    def at_samples(self, fetch: Fetch, samples: Sequence[Any]) -> None:
        """Record the sample."""
        if self._steps and self._asked.position < len(samples):
            self._steps.note(SAMPLE, "", None, samples[self._asked.position], given=False)

    def at_batch(self, fetch: Fetch, batch: Any) -> None:
        """Record the batch."""
        if self._steps:
            self._steps.note(BATCH, "", None, batch, given=False)


class _Steps(PipelineWatch):
    """Records the calls of all steps while it is `on`."""

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self.on = False
        self.reads = 0
        self.stages: list[Stage] = []
        super().__init__(roots)

    def _watched(self, log: CallLog, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.on:
            return call(*args, **kwargs)
        at = made_at(log.step)
        self.note(log.path, log.name, at, (args, kwargs), given=True)
        returned = call(*args, **kwargs)
        self.note(log.path, log.name, at, returned, given=False)
        return returned

    def note(self, path: str, name: str, at: tuple[str, int] | None, value: Any, *, given: bool) -> None:
        """Record one stage."""
        if len(self.stages) < MOST_STAGES:
            leaves = {path: _plain(leaf) for path, leaf in iter_leaves(value)}
            self.stages.append(Stage(path, name, at, given, leaves))


def _plain(leaf: Any) -> Any:
    """A leaf that can be compared and pickled: an array, else its repr."""
    with suppress(Exception):
        numbers = isinstance(leaf, torch.Tensor | np.ndarray | np.number | int | float)
        if numbers or type(leaf).__module__.startswith("PIL."):
            array = array_of(leaf).copy()  # a step may change it in place
            return array if array.nbytes <= MOST_LEAF_BYTES and array.dtype.kind in "biufc" else repr(array)
        return repr(leaf) if isinstance(leaf, str | bytes | bool | type(None)) else type(leaf).__name__
    return type(leaf).__name__


@dataclass(frozen=True, slots=True)
class FollowedSample:
    """The stages of a sample, and its arrays line by line."""

    stages: tuple[Stage, ...] = ()
    looks: tuple[Look, ...] = ()

    @property
    def alone(self) -> FollowedSample:
        """Without its batch, which differs wherever the samples beside it do."""
        return replace(self, stages=tuple(stage for stage in self.stages if stage.path != BATCH))


def followed_in(folder: Path) -> FollowedSample:
    """What the one run recorded that reached the sample; nothing if no run did."""
    file = next(folder.rglob(_STAGES_FILE), None)
    return pickle.loads(file.read_bytes()) if file else FollowedSample()


@dataclass(frozen=True, slots=True)
class StageDifference:
    """The first stage that differs between two runs: a step of the pipeline, or what comes `before` it.

    `changed` of `of` values of the leaf differ, by at most `by` (None for other values than numbers).
    """

    path: str
    name: str
    at: tuple[str, int] | None
    before: bool
    leaf: str
    changed: int
    of: int
    by: float | None
    line: Place | None = None
    """The first line of the user's code after which an array differs."""


def difference_of(sample: FollowedSample, other: FollowedSample) -> StageDifference | None:
    """The first stage that differs between two runs, with the line."""
    stage, look = first_stage(sample.stages, other.stages), first_unlike(sample.looks, other.looks)
    return stage and replace(stage, line=(look.file, look.line, look.function) if look else None)


def first_stage(stages: Sequence[Stage], others: Sequence[Stage]) -> StageDifference | None:
    """The first stage whose values differ; a step that only one run calls counts as a difference before it."""
    for stage, other_stage in zip(stages, others, strict=False):
        if (stage.path, stage.given) != (other_stage.path, other_stage.given):
            return StageDifference(stage.path, stage.name, stage.at, True, "", 1, 1, None)
        for leaf in stage.leaves:
            difference = _values(stage.leaves[leaf], other_stage.leaves.get(leaf))
            if difference:
                return StageDifference(stage.path, stage.name, stage.at, stage.given, leaf, *difference)
    return None


def _values(value: Any, other: Any) -> tuple[int, int, float | None] | None:
    """How many of all values differ, and by how much at most; None if none does."""
    if isinstance(value, np.ndarray) and isinstance(other, np.ndarray) and value.shape == other.shape:
        unlike = ~((value == other) | ((value != value) & (other != other)))
        count = int(np.count_nonzero(unlike))
        if not count:
            return None
        apart = (
            np.abs(value.astype(np.float64) - other.astype(np.float64))
            if value.dtype.kind != "c"
            else np.abs(value - other)
        )
        return count, value.size, float(np.nanmax(apart))
    return None if not isinstance(value, np.ndarray) and value == other else (1, 1, None)
