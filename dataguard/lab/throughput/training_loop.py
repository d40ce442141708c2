"""A training loop in this, thrown-away, process: batches and steps, and how long the steps wait for the batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.spy.drive import shut
from dataguard.lab.throughput.timed_run import MOST_EPOCHS, batches_of, width_of
from dataguard.model import Undecided, UsageError
from dataguard.target.loading import load
from dataguard.target.variants import Loader
from dataguard.timings import BenchOptions

STRETCHES = 5
"""Into how many parts the time of a training loop is cut, to see whether they agree."""
_HELD = 4
"""Batches in memory that stand for a loader which costs nothing."""

Step = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Feed:
    """A training loop, in stretches: the seconds that it waited for batches, and those that its steps took."""

    batches: int
    waiting: tuple[float, ...]
    stepping: tuple[float, ...]


def run_feed(loader: Loader, recorder: FlightRecorder, step: Step, seconds: float) -> Feed:
    """Iterate the loader for about so many seconds with a step after each batch, beyond its first batches.

    A loader that is slow is left after four times as long, with what it gave until then. Raises Undecided where epochs
    are too short for anything to come after the first batches.
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
                return _in_stretches(waits, steps)
        if time.perf_counter() - began > seconds:
            break
    if not waits:
        raise Undecided("the epoch ends before every worker has made a batch: too short to measure waiting")
    return _in_stretches(waits, steps)


def _enough(count: int, width: int, taken: float, seconds: float) -> bool:
    return (taken >= seconds and count > 0 and count % (STRETCHES * width) == 0) or taken >= 4 * seconds


def _in_stretches(waits: list[float], steps: list[float]) -> Feed:
    size = -(-len(waits) // STRETCHES)
    cuts = range(0, len(waits), size)
    waiting = tuple(sum(waits[cut : cut + size]) for cut in cuts)
    stepping = tuple(sum(steps[cut : cut + size]) for cut in cuts)
    return Feed(len(waits), waiting, stepping)


def run_ideal(loader: Loader, recorder: FlightRecorder, step: Step, seconds: float) -> Feed:
    """A training loop over a few of the loader's own batches, which are in memory."""
    batches = []
    iterator = iter(loader)
    with gate("iterate"):
        for batch in islice(iterator, _HELD):
            recorder.mark(None, "iterate")
            batches.append(batch)
    shut(iterator)
    for batch in batches:
        step(batch)
    waits = steps = 0.0
    count = 0
    while count < STRETCHES or steps < seconds:
        asked = time.perf_counter()
        batch = batches[count % len(batches)]
        came = time.perf_counter()
        step(batch)
        waits, steps = waits + came - asked, steps + time.perf_counter() - came
        recorder.mark(None, "iterate")
        count += 1
    return Feed(count, (waits,), (steps,))


def sleeping(seconds: float) -> Step:
    """What a step of so many seconds does to a loader: nothing, for so long."""
    return lambda _: time.sleep(seconds)


def step_of(wanted: BenchOptions) -> Step:
    """What stands for a training step: the user's function, to its end on the device, or so much sleep."""
    if wanted.step is None:
        return sleeping((wanted.step_ms or 0.0) / 1e3)
    function = imported(wanted.step)

    def step(batch: Any) -> None:
        with gate("iterate"):
            function(batch)
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    return step


def imported(spelling: str) -> Step:
    """The user's own step. Raises UsageError where that is no function."""
    source: Any = load(spelling).source
    if not callable(source):
        raise UsageError(f"--step {spelling}: expected a function of a batch")
    step: Step = source
    return step
