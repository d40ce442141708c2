"""Several settings of one loader against the clock: each stretch in a fork of the process that built the loader.

The loader is built once. Every stretch finds it as it was built, so that no setting profits from what another one read
into a cache of the dataset. Files lie in the system's cache for all of them, after a stretch that counts for none.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from torch.utils.data import IterableDataset

from dataguard.incident import EmptyEpoch, LoaderFailed
from dataguard.lab.process import isolation
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.throughput.timed_run import Lap, Laps, run_lap
from dataguard.model import Undecided
from dataguard.stats.timing_comparison import race
from dataguard.target.loading import Target
from dataguard.target.variants import Loader
from dataguard.timings import Setting, Timed

T = TypeVar("T")

LAP_SECONDS = 0.3
"""Seconds of a stretch beyond its first batches."""


def setting_of(loader: Loader) -> Setting:
    """The user's own setting."""
    prefetch = (loader.prefetch_factor or 2) if loader.num_workers else None
    return Setting(loader.num_workers, prefetch, loader.persistent_workers, loader.pin_memory)


@dataclass(slots=True)
class Sweep:
    """A loader that was built, and the time that is left for measuring it."""

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

    def measure(self, setting: Setting, work: Callable[[Loader, FlightRecorder], T], *, led: bool = False) -> T:
        """Let a fork of this process work on the loader under a setting. Raises LoaderFailed, or Undecided in time."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))

        def run() -> T:
            return work(self._variant(setting, led=led), FlightRecorder(folder))

        try:
            # Half the patience, or this process itself would be taken for one that hangs.
            allowed = max(self.left, 0.0) + self.timeout
            return isolation.isolated(run, folder, timeout=self.timeout / 2, allowed=allowed)
        except isolation.OutOfTime as cut:
            raise Undecided(f"one measurement took more than {allowed:.0f} s: raise --budget") from cut
        finally:
            self.recorder.mark(None, "iterate")
            shutil.rmtree(folder, ignore_errors=True)

    def lap(self, setting: Setting) -> Lap:
        """One stretch; the start of workers is left out where they persist."""
        led = setting.persistent and not self._stream
        lap = self.measure(setting, lambda loader, recorder: run_lap(loader, recorder, LAP_SECONDS, led=led), led=led)
        return replace(lap, start=0.0) if setting.persistent and self._stream else lap

    def run(self, settings: Sequence[Setting], batches: int | None, seconds: float) -> tuple[Timed, ...]:
        """Let settings take turns for so many seconds at most; what fails under one says so, and ends only that one."""
        until = min(time.monotonic() + seconds, self.until)
        known = {str(setting): setting for setting in settings}
        laps: dict[str, list[Lap]] = {name: [] for name in known}
        failed: dict[str, str] = {}

        def lap(name: str) -> float | None:
            try:
                laps[name].append(self.lap(known[name]))
            except LoaderFailed as failure:
                failed[name] = failure.incident.headline
            except EmptyEpoch:
                failed[name] = "the epoch has no batches"
            except Undecided as cut:
                failed[name] = str(cut)
            if name in failed:
                return None
            return laps[name][-1].per_batch

        def timed(name: str, count: int) -> Timed:
            rounds = laps[name][:count]
            per_batch, starts = tuple(one.per_batch for one in rounds), tuple(one.start for one in rounds)
            return Timed(known[name], per_batch, starts, failed.get(name))

        times = race(
            list(known),
            lap,
            may_continue=lambda: time.monotonic() < until,
            costs=lambda name, seconds: timed(name, len(seconds)).costs(batches),
        )
        return tuple(timed(name, len(times.get(name, ()))) for name in known)

    @property
    def _stream(self) -> bool:
        return isinstance(self.loader.dataset, IterableDataset)

    def _variant(self, setting: Setting, *, led: bool) -> Loader:
        """The loader under a setting; its order has no end, unless it is a stream."""
        own = self.own.arguments
        overrides: dict[str, Any] = {
            name: value for name, value in setting.arguments.items() if own.get(name) != value or name == "num_workers"
        }
        lead = max(setting.workers, 1) if led else 0
        overrides["schedule"] = lambda inner, _: Laps(inner, lead)
        return Target("own", "own", self.loader).build(**overrides)
