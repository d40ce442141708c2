"""How all samples of a loader are read: by which ranks, and with which progress reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.spy.skip_unreadable import UnreadableLog
from dataguard.process.originals import time
from dataguard.process.progress import ProgressListener, ReadingProgress
from dataguard.process.torchrun import Team

if TYPE_CHECKING:
    from dataguard.lab.core.loader_facts import LoaderFacts

_EVERY = 0.25
"""Seconds between two progress reports."""


@dataclass(frozen=True, slots=True)
class ScanJob:
    """`team` shares the work, `report` receives the progress."""

    team: Team | None = None
    report: ProgressListener | None = None

    def progress(self, facts: LoaderFacts) -> Callable[[Path], Callable[[], None]]:
        """For the folder of an observation, a function to call regularly that reports its progress."""
        total = total_of(facts)
        world = self.team.world if self.team else 1
        share = None if total is None else -(-total // world)

        def begin(folder: Path) -> Callable[[], None]:
            return _Progress(facts.name, share, folder, self.report) if self.report else lambda: None

        return begin


class _Progress:
    """Reports at intervals how far an observation got."""

    def __init__(self, loader: str, total: int | None, folder: Path, report: ProgressListener) -> None:
        self._loader = loader
        self._total = total
        self._recorder = FlightRecorder(folder)
        self._log = UnreadableLog(folder)
        self._report = report
        self._reported = 0.0
        self._skipped = 0

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._reported < _EVERY:
            return
        self._reported = now
        unreadable = tuple(self._log.new())
        self._skipped += len(unreadable)
        read = self._skipped + self._recorder.counted()
        self._report(ReadingProgress(self._loader, read, self._total, unreadable))


def total_of(facts: LoaderFacts) -> int | None:
    """The number of samples of an epoch, by the lengths of the loader and the dataset; None if unknown."""
    if facts.batches is None or facts.kind == "stream":
        return facts.length
    size = facts.batch_size or 1
    planned = facts.batches * size
    last = (facts.length or 0) % size  # the last batch is a smaller one
    return planned - size + last if last and not facts.drop_last and planned - size + last == facts.length else planned
