"""The stages of one sample on its way into a batch: what each transform got and returned, the sample, and the batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.source_location import made_at
from dataguard.lab.transforms.pipeline_watch import CallLog, PipelineWatch
from dataguard.process.originals import pickle

MOST_STAGES = 200
MOST_BYTES = 8_000_000
"""Most stages that are recorded, and most bytes of one leaf."""
_FILE = "stages"


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
    """Records the stages of the sample at one place: its worker, epoch, number of the fetch and position in it."""

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

    @contextlib.contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        """Watch the steps during the fetch of the batch, and write what they did."""
        if (fetch.epoch, fetch.number) != (self._asked.epoch, self._asked.fetch):
            yield
            return
        self._steps = _Steps({name: root for name, root in fetch.roots.items() if root is not None})
        try:
            yield
        finally:
            found, self._steps = self._steps.stages, None
            (self._folder / _FILE).write_bytes(pickle.dumps(found))

    @contextlib.contextmanager
    def around_sample(self) -> Iterator[None]:
        """Record during one read; `__getitems__` reads all samples at once, of which the first is recorded."""
        if self._steps:
            self._steps.on = self._steps.reads == self._asked.position
            self._steps.reads += 1
        try:
            yield
        finally:
            if self._steps:
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
    with contextlib.suppress(Exception):
        numbers = isinstance(leaf, torch.Tensor | np.ndarray | np.number | int | float)
        if numbers or type(leaf).__module__.startswith("PIL."):
            array = array_of(leaf).copy()  # a step may change it in place
            return array if array.nbytes <= MOST_BYTES and array.dtype.kind in "biufc" else repr(array)
        return repr(leaf) if isinstance(leaf, str | bytes | bool | type(None)) else type(leaf).__name__
    return type(leaf).__name__


def stages_in(folder: Path) -> tuple[Stage, ...]:
    """The recorded stages of the one run that reached the sample; none if no run did."""
    files = folder.rglob(_FILE)
    return tuple(stage for file in files for stage in pickle.loads(file.read_bytes()))


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


def first_stage(one: Sequence[Stage], two: Sequence[Stage]) -> StageDifference | None:
    """The first stage whose values differ; a step that only one run calls counts as a difference before it."""
    for first, second in zip(one, two, strict=False):
        if (first.path, first.given) != (second.path, second.given):
            return StageDifference(first.path, first.name, first.at, True, "", 1, 1, None)
        for leaf in first.leaves:
            found = _values(first.leaves[leaf], second.leaves.get(leaf))
            if found:
                return StageDifference(first.path, first.name, first.at, first.given, leaf, *found)
    return None


def _values(one: Any, two: Any) -> tuple[int, int, float | None] | None:
    """How many of all values differ, and by how much at most; None if none does."""
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray) and one.shape == two.shape:
        unlike = ~((one == two) | ((one != one) & (two != two)))
        count = int(np.count_nonzero(unlike))
        if not count:
            return None
        apart = np.abs(one.astype(np.float64) - two.astype(np.float64)) if one.dtype.kind != "c" else np.abs(one - two)
        return count, one.size, float(np.nanmax(apart))
    return None if not isinstance(one, np.ndarray) and one == two else (1, 1, None)
