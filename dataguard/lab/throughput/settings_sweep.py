"""Times of one loader under several settings: each run in a fork of the process that built the loader.

The loader is built once. Every run starts from the loader as built, so that no setting profits from what another one
read into a cache of the dataset. After a first run that does not count, files are in the page cache for all of them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from torch.utils.data import IterableDataset

from dataguard.incident import EmptyEpoch, LoaderFailed
from dataguard.lab.process import isolation
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.throughput.timed_run import EndlessOrder, TimedRun, run_timed
from dataguard.model import Undecided
from dataguard.process.originals import time
from dataguard.stats.timing_comparison import race
from dataguard.targets.loading import Target
from dataguard.targets.variants import Loader
from dataguard.timings import Setting, Timed

T = TypeVar("T")

RUN_SECONDS = 0.3
"""Seconds of a run after its first batches."""


def setting_of(loader: Loader) -> Setting:
    """The user's own setting."""
    prefetch = (loader.prefetch_factor or 2) if loader.num_workers else None
    return Setting(loader.num_workers, prefetch, loader.persistent_workers, loader.pin_memory)


@dataclass(slots=True)
class Sweep:
    """A loader that was built, and the time left to measure it."""

    loader: Loader
    folder: Path
    recorder: FlightRecorder
    timeout: float
    until: float

    @property
    def own(self) -> Setting:
        """The user's own setting."""
        return setting_of(self.loader)

    @property
    def left(self) -> float:
        """Seconds."""
        return self.until - time.monotonic()

    def measure(self, setting: Setting, work: Callable[[Loader, FlightRecorder], T], *, warm_start: bool = False) -> T:
        """Let a fork of this process work on the loader under a setting. Raises LoaderFailed, or Undecided in time."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))

        def run() -> T:
            return work(self._variant(setting, warm_start=warm_start), FlightRecorder(folder))

        try:
            # Half the timeout, or this process itself would count as one that hangs.
            allowed = max(self.left, 0.0) + self.timeout
            return isolation.isolated(run, folder, timeout=self.timeout / 2, allowed=allowed)
        except isolation.OutOfTime as cut:
            raise Undecided(f"one measurement took more than {allowed:.0f} s: raise --budget") from cut
        finally:
            self.recorder.mark(None, "iterate")
            shutil.rmtree(folder, ignore_errors=True)

    def timed_run(self, setting: Setting) -> TimedRun:
        """One run; the start of workers is left out if they persist."""
        warm_start = setting.persistent and not self._stream
        run = self.measure(
            setting,
            lambda loader, recorder: run_timed(loader, recorder, RUN_SECONDS, warm_start=warm_start),
            warm_start=warm_start,
        )
        return replace(run, start=0.0) if setting.persistent and self._stream else run

    def run(self, settings: Sequence[Setting], batches: int | None, seconds: float) -> tuple[Timed, ...]:
        """Alternate between settings for so many seconds at most; a failure is recorded, and ends only its setting."""
        until = min(time.monotonic() + seconds, self.until)
        known = {str(setting): setting for setting in settings}
        runs: dict[str, list[TimedRun]] = {name: [] for name in known}
        failed: dict[str, str] = {}

        def measure(name: str) -> float | None:
            try:
                runs[name].append(self.timed_run(known[name]))
            except LoaderFailed as failure:
                failed[name] = failure.incident.headline
            except EmptyEpoch:
                failed[name] = "the epoch has no batches"
            except Undecided as cut:
                failed[name] = str(cut)
            if name in failed:
                return None
            return runs[name][-1].per_batch

        def timed(name: str, count: int) -> Timed:
            rounds = runs[name][:count]
            per_batch, starts = tuple(one.per_batch for one in rounds), tuple(one.start for one in rounds)
            return Timed(known[name], per_batch, starts, failed.get(name))

        times = race(
            list(known),
            measure,
            may_continue=lambda: time.monotonic() < until,
            costs=lambda name, seconds: timed(name, len(seconds)).costs(batches),
        )
        return tuple(timed(name, len(times.get(name, ()))) for name in known)

    @property
    def _stream(self) -> bool:
        return isinstance(self.loader.dataset, IterableDataset)

    def _variant(self, setting: Setting, *, warm_start: bool) -> Loader:
        """The loader under a setting; its order never ends, unless it is a stream."""
        own = self.own.arguments
        overrides: dict[str, Any] = {
            name: value for name, value in setting.arguments.items() if own.get(name) != value or name == "num_workers"
        }
        lead = max(setting.workers, 1) if warm_start else 0
        overrides["schedule"] = lambda inner, _: EndlessOrder(inner, lead)
        return Target("own", "own", self.loader).build(**overrides)
