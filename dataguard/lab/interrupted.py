"""A scan of all samples that was interrupted: what is left of it, and where it goes on.

Each run keeps a folder with what its processes wrote. A checkpoint tells how many batches of it had arrived; of the
batches that its workers were just making, whatever they wrote is left out, and they are read again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dataguard.lab import isolation
from dataguard.lab.passing import Notes
from dataguard.lab.records import BatchRecord, SampleRecord, read_spools
from dataguard.model import DataguardError
from dataguard.news import Unreadable

if TYPE_CHECKING:
    from dataguard.lab.whole import Everything

_FILE = "checkpoint.json"
_EVERY = 1.0
"""Seconds between two checkpoints."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a run came: from `begun` fetches of each worker to `done`.

    The sampler had been asked for `drawn` batches by then, and `digest` is that of their indices.
    """

    begun: int
    done: int
    drawn: int
    digest: str


class Log:
    """Writes checkpoints of a run into its folder; `own` is the schedule that hands out its batches."""

    def __init__(self, folder: Path, own: Everything, workers: int) -> None:
        self._folder = folder
        self._own = own
        self._workers = workers
        self._written = time.monotonic()

    def arrived(self, batches: int) -> None:
        """To be called with the number of batches that have arrived so far, in their order."""
        now = time.monotonic()
        if now - self._written < _EVERY:
            return
        self._written = now
        own = self._own
        done = own.done + batches // self._workers
        text = json.dumps(asdict(Checkpoint(own.done, done, own.drawn, own.digest.hexdigest())))
        unfinished = self._folder / f"{_FILE}.part"
        unfinished.write_text(text)
        unfinished.rename(self._folder / _FILE)


@dataclass(frozen=True, slots=True)
class Run:
    """One run that was interrupted, and how far it came."""

    folder: Path
    checkpoint: Checkpoint

    def records(self, until: int) -> Iterator[SampleRecord | BatchRecord]:
        """What was kept of the batches before fetch `until`, numbered from the beginning of the epoch."""
        for record in read_spools(self.folder):
            if isinstance(record, SampleRecord | BatchRecord):
                fetch = record.batch + self.checkpoint.begun
                if fetch < until:
                    yield replace(record, batch=fetch)

    def unreadable(self, until: int) -> Iterator[Unreadable]:
        """What could not be read of those batches."""
        for one in Notes(self.folder).fresh():
            fetch = one.batch + self.checkpoint.begun
            if fetch < until:
                yield replace(one, batch=fetch)


class Runs:
    """The runs in which one loader is read, each of which goes on from those before it."""

    def __init__(self, state: Path, loader: str) -> None:
        self._folder = state / quote(loader, safe="")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._known = sorted(self._folder.iterdir(), key=lambda path: int(path.name))

    def finished(self) -> tuple[Path, Any] | None:
        """The folder and the answer of the last run, where it came to its end."""
        if not self._known or not isolation.has_answered(self._known[-1]):
            return None
        try:
            return self._known[-1], isolation.answer_in(self._known[-1])
        except DataguardError:  # it failed, perhaps for want of memory, and may come further now
            return None

    def begin(self) -> Path:
        """A folder for a new run."""
        folder = self._folder / str(len(self._known))
        folder.mkdir()
        return folder

    @property
    def earlier(self) -> tuple[Run, ...]:
        """The runs to go on from, in their order; one that had to start over leaves those before it out."""
        found: list[Run] = []
        for folder in self._known:
            if (folder / _FILE).exists():
                run = Run(folder, Checkpoint(**json.loads((folder / _FILE).read_text())))
                found = [run] if run.checkpoint.begun == 0 else [*found, run]
        return tuple(found)


def stretches(runs: tuple[Run, ...], end: int) -> Iterator[tuple[Run, int]]:
    """Each run with the fetch before which the next one, or the present one at `end`, begins."""
    ends = [*(run.checkpoint.begun for run in runs[1:]), end]
    yield from zip(runs, ends, strict=True) if runs else ()
