"""A training loop in this disposable process: batches, steps, and how long the steps wait for batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.reading.epoch_trace import first_batches, gate
from dataguard.lab.throughput.timed_run import MOST_EPOCHS, batches_of, width_of
from dataguard.model import Undecided, UsageError
from dataguard.process.originals import time
from dataguard.targets.loading import load
from dataguard.targets.variants import Loader
from dataguard.timings import BenchOptions

SEGMENTS = 5
"""Into how many parts a training loop is divided, to see whether they agree."""
_FIRST = 60
"""Batches whose times are kept one by one."""
_IN_MEMORY = 4
"""Batches in memory that emulate a loader without cost."""

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


def run_training_loop(loader: Loader, recorder: FlightRecorder, step: TrainingStep, seconds: float) -> LoopTimes:
    """Iterate the loader for about so many seconds, after its first batches, with a step after each batch.

    A slow loader is stopped after four times as long, with the batches so far. Raises Undecided if epochs are too short
    to have batches after the first ones.
    """
    width = width_of(loader)
    waits: list[float] = []
    steps: list[float] = []
    began = time.perf_counter()
    for _ in range(MOST_EPOCHS):
        asked = time.perf_counter()
        for number, batch in enumerate(batches_of(loader, recorder)):
            came = time.perf_counter()
            step(batch)
            done = time.perf_counter()
            if number >= width:
                waits.append(came - asked)
                steps.append(done - came)
            elif not waits:
                began = done
            asked = done
            if _enough(len(waits), width, done - began, seconds):
                return _in_segments(waits, steps)
        if time.perf_counter() - began > seconds:
            break
    if not waits:
        raise Undecided("the epoch ends before every worker has made a batch: too short to measure waiting")
    return _in_segments(waits, steps)


def _enough(count: int, width: int, taken: float, seconds: float) -> bool:
    return (taken >= seconds and count > 0 and count % (SEGMENTS * width) == 0) or taken >= 4 * seconds


def _in_segments(waits: list[float], steps: list[float]) -> LoopTimes:
    size = -(-len(waits) // SEGMENTS)
    cuts = range(0, len(waits), size)
    waiting = tuple(sum(waits[cut : cut + size]) for cut in cuts)
    stepping = tuple(sum(steps[cut : cut + size]) for cut in cuts)
    return LoopTimes(len(waits), waiting, stepping, tuple(zip(waits, steps, strict=True))[:_FIRST])


def run_from_memory(loader: Loader, recorder: FlightRecorder, step: TrainingStep, seconds: float) -> LoopTimes:
    """A training loop over a few of the loader's own batches, held in memory."""
    batches = first_batches(loader, _IN_MEMORY, recorder)
    for batch in batches:
        step(batch)
    waits = steps = 0.0
    count = 0
    while count < SEGMENTS or steps < seconds:
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
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    return step


def import_step(spelling: str) -> TrainingStep:
    """The user's own step. Raises UsageError if it is not callable."""
    source: Any = load(spelling).source
    if not callable(source):
        raise UsageError(f"--step {spelling}: expected a function of a batch")
    step: TrainingStep = source
    return step
