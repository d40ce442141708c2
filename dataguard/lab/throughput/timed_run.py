"""Times taken in this disposable process, without instruments: of a loader, and of a training loop.

`run_timed` measures a loader alone, `run_training_loop` how long the steps of a training loop wait for batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from dataguard.core.incident import EmptyEpoch, LoaderFailed
from dataguard.core.model import Undecided, UsageError
from dataguard.lab.core.index_schedules import Schedule, drawn
from dataguard.lab.process.accelerators import initialized, module_of
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.reading.epoch_trace import first_batches, gate
from dataguard.lab.spy.drive import shut
from dataguard.lab.throughput.device_copies import initialize_pinning
from dataguard.measured import BenchOptions
from dataguard.process.originals import time
from dataguard.targets.loading import load
from dataguard.targets.variants import Loader

MOST_EPOCHS = 20
"""The most epochs of a stream that is shorter than its measuring time: a limit of time, as each starts its workers
again."""


@dataclass(frozen=True, slots=True)
class TimedRun:
    """The result of one run: seconds to the first batch, and per batch after the first ones."""

    start: float
    per_batch: float


def width_of(loader: Loader) -> int:
    """How many batches are made at a time: they arrive in groups, and times are taken from group to group."""
    return max(loader.num_workers, 1)


def run_timed(loader: Loader, recorder: FlightRecorder, seconds: float, *, warm_start: bool = False) -> TimedRun:
    """Iterate the loader for about so many seconds after its first batches.

    `warm_start`: its first epoch is short and only starts the workers. Raises LoaderFailed if the user's code raises,
    and EmptyEpoch if no batch is yielded.
    """
    width = width_of(loader)
    if loader.pin_memory:
        initialize_pinning()
        recorder.mark(None, "iterate")
    if warm_start:
        for _ in batches_of(loader, recorder):
            pass
    starts, batches, spent = [], 0, 0.0
    for _ in range(MOST_EPOCHS):
        arrivals: list[float] = []
        began = time.perf_counter()
        for _ in batches_of(loader, recorder):
            arrivals.append(time.perf_counter() - began)
            steady = len(arrivals) - width
            if steady > 0 and steady % width == 0 and spent + arrivals[-1] - arrivals[width - 1] >= seconds:
                break
        if not arrivals:
            raise EmptyEpoch(())
        more, took = _steady(arrivals, width)
        starts.append(arrivals[0])
        batches, spent = batches + more, spent + took
        if spent >= seconds:
            break
    return TimedRun(starts[0], spent / batches)


def _steady(arrivals: list[float], width: int) -> tuple[int, float]:
    """How many batches of an epoch arrived in complete groups after the first one, and in how many seconds.

    An epoch of less than two groups has none: there, all but its first batch count, or that one.
    """
    whole = (len(arrivals) - width) // width * width
    if whole > 0:
        return whole, arrivals[width - 1 + whole] - arrivals[width - 1]
    return (len(arrivals) - 1, arrivals[-1] - arrivals[0]) if len(arrivals) > 1 else (1, arrivals[0])


def batches_of(
    loader: Loader, recorder: FlightRecorder, begin: Callable[[Loader], Iterator[Any]] = iter
) -> Iterator[Any]:
    """The batches of an epoch; its end, or leaving it early, ends the workers unless they persist.

    `begin` iterates the loader without what a subclass adds.
    """
    iterator: Any = None
    try:
        with gate("iterate"):
            recorder.mark(None, "iterate")
            iterator = begin(loader)
        while True:
            with gate("iterate"):
                try:
                    batch = next(iterator)
                except StopIteration:
                    if not loader.persistent_workers:
                        shut(iterator)
                    return
                recorder.mark(None, "iterate")
            yield batch
    except (GeneratorExit, LoaderFailed):
        shut(iterator)
        raise


LOOP_SEGMENTS = 5
"""Into how many parts a training loop is divided, to see whether they agree: in the default 1.5 s, of 0.3 s each."""
_MOST_KEPT = 60
"""Batches whose times are kept one by one, for a figure: more do not fit into one."""
_BATCHES_IN_MEMORY = 4
"""Batches in memory that emulate a loader without cost: several, so that a step does not always get the same one."""

TrainingStep = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """A training loop, in segments: the seconds spent waiting for batches, and those spent in steps.

    `first` holds the seconds of waiting and stepping of each of the first batches.
    """

    batches: int
    waiting: tuple[float, ...]
    stepping: tuple[float, ...]
    first: tuple[tuple[float, float], ...] = ()


class LoopTimer:
    """Times a training loop that takes its batches from `batches`: how long each was awaited, and the step after it.

    The first `width` batches of an epoch fill the queues and are left out. There are batches for about so many seconds
    after them; for a slow loader, for four times as long.
    """

    def __init__(self, width: int, seconds: float) -> None:
        self.start: float | None = None
        """Seconds to the first batch."""
        self.enough = False
        self._width, self._seconds = width, seconds
        self._waits: list[float] = []
        self._steps: list[float] = []
        self._began = time.perf_counter()

    def batches(self, epoch: Iterable[Any]) -> Iterator[Any]:
        """The batches of an epoch, until there were enough; the time until the next one is asked for is a step."""
        asked = time.perf_counter()
        for number, batch in enumerate(epoch):
            came = time.perf_counter()
            self.start = came - asked if self.start is None else self.start
            yield batch
            done = time.perf_counter()
            if number >= self._width:
                self._waits.append(came - asked)
                self._steps.append(done - came)
            elif not self._waits:
                self._began = done
            asked = done
            if self._has_enough(done - self._began):
                self.enough = True
                return

    @property
    def over(self) -> bool:
        """Whether there are enough batches, or its time is over."""
        return self.enough or time.perf_counter() - self._began > self._seconds

    @property
    def times(self) -> LoopTimes:
        """What was measured. Raises Undecided if epochs are too short to have batches after the first ones."""
        if not self._waits:
            raise Undecided("the epoch ends before every worker has made a batch: too short to measure waiting")
        return _in_segments(self._waits, self._steps)

    def _has_enough(self, taken: float) -> bool:
        count = len(self._waits)
        whole = count > 0 and count % (LOOP_SEGMENTS * self._width) == 0
        return (taken >= self._seconds and whole) or taken >= 4 * self._seconds


def run_training_loop(loader: Loader, recorder: FlightRecorder, step: TrainingStep, seconds: float) -> LoopTimes:
    """Iterate the loader for about so many seconds, after its first batches, with a step after each batch.

    A slow loader is stopped after four times as long, with the batches so far. Raises Undecided if epochs are too short
    to have batches after the first ones.
    """
    timer = LoopTimer(width_of(loader), seconds)
    for _ in range(MOST_EPOCHS):
        for batch in timer.batches(batches_of(loader, recorder)):
            step(batch)
        if timer.over:
            break
    return timer.times


def _in_segments(waits: list[float], steps: list[float]) -> LoopTimes:
    size = -(-len(waits) // LOOP_SEGMENTS)
    cuts = range(0, len(waits), size)
    waiting = tuple(sum(waits[cut : cut + size]) for cut in cuts)
    stepping = tuple(sum(steps[cut : cut + size]) for cut in cuts)
    return LoopTimes(len(waits), waiting, stepping, tuple(zip(waits, steps, strict=True))[:_MOST_KEPT])


def run_from_memory(loader: Loader, recorder: FlightRecorder, step: TrainingStep, seconds: float) -> LoopTimes:
    """A training loop over a few of the loader's own batches, held in memory."""
    batches = first_batches(loader, _BATCHES_IN_MEMORY, recorder)
    for batch in batches:
        step(batch)
    waits = steps = 0.0
    count = 0
    while count < LOOP_SEGMENTS or steps < seconds:
        asked = time.perf_counter()
        batch = batches[count % len(batches)]
        came = time.perf_counter()
        step(batch)
        waits, steps = waits + came - asked, steps + time.perf_counter() - came
        recorder.mark(None, "iterate")
        count += 1
    return LoopTimes(count, (waits,), (steps,))


def sleeping(seconds: float) -> TrainingStep:
    """A step that sleeps for so many seconds."""
    return lambda _: time.sleep(seconds)


def step_of(wanted: BenchOptions) -> TrainingStep:
    """The training step: the user's function, synchronized with the device, or a sleep."""
    if wanted.step is None:
        return sleeping((wanted.step_ms or 0.0) / 1e3)
    function = import_step(wanted.step)

    def step(batch: Any) -> None:
        with gate("iterate"):
            function(batch)
        if kind := initialized():
            module_of(kind).synchronize()

    return step


def import_step(spelling: str) -> TrainingStep:
    """The user's own step. Raises UsageError if it is not callable."""
    source: Any = load(spelling).source
    if not callable(source):
        raise UsageError(f"--step {spelling}: expected a function of a batch")
    step: TrainingStep = source
    return step


class EndlessOrder(Schedule):
    """The user's own order, repeated: the output of the loader then does not depend on the length of an epoch.

    With `lead`, the first epoch ends after so many entries: persistent workers are ready when the second one starts.
    """

    def __init__(self, inner: Any, lead: int = 0) -> None:
        super().__init__(inner)
        self.lead = lead
        self.passes = 0

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1  # on the first entry: torch makes iterators that it does not use
        yield from islice(self._endless(), self.lead if self.lead and self.passes == 1 else None)

    def _endless(self) -> Iterator[Any]:
        any_entry = True
        while any_entry:
            any_entry = False
            for entry in drawn(self.inner):
                any_entry = True
                yield entry
