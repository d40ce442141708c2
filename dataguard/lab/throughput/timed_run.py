"""One timed run of a loader in this disposable process, without instruments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from dataguard.incident import EmptyEpoch, LoaderFailed
from dataguard.lab.core.index_schedules import Schedule, drawn
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.spy.drive import shut
from dataguard.lab.throughput.cuda_copies import initialize_pinning
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

MOST_EPOCHS = 20
"""The most epochs of a stream that is shorter than its measuring time."""


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


def batches_of(loader: Loader, recorder: FlightRecorder) -> Iterator[Any]:
    """The batches of an epoch; its end, or leaving it early, ends the workers unless they persist."""
    iterator: Any = None
    try:
        with gate("iterate"):
            recorder.mark(None, "iterate")
            iterator = iter(loader)
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
