"""A scan of all samples that was interrupted: what is left of it, and where it goes on.

Each run keeps a folder with what its processes wrote. A file says how many batches of it had arrived; of the
batches that its workers were just making, whatever they wrote is left out, and they are read again.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dataguard.lab.core.records import BatchRecord, SampleRecord, read_spools
from dataguard.lab.core.value_summary import ValueSummary
from dataguard.lab.epoch.epoch_schedule import FullSchedule, ScanPosition
from dataguard.lab.process import isolation
from dataguard.lab.spy.skip_unreadable import UnreadableLog
from dataguard.model import DataguardError
from dataguard.process.progress import Unreadable

if TYPE_CHECKING:
    from dataguard.lab.core.loader_facts import LoaderFacts

_FILE = "position.json"
_LOADER = "loader.json"
_DEALT_BY = {
    "length": "length",
    "batches": "number of batches",
    "batch_size": "batch size",
    "num_workers": "number of workers",
    "sampler": "sampler",
    "dataset": "dataset",
}
"""The facts of a loader by which it is dealt out to workers and ranks, and what they are called."""
_EVERY = 1.0
"""Seconds between two writes."""


class PositionLog:
    """Writes the position of a run into its folder; `own` is the schedule that hands out its batches."""

    def __init__(self, folder: Path, own: FullSchedule, workers: int) -> None:
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
        text = json.dumps(asdict(ScanPosition(own.done, done, own.drawn, own.digest.hexdigest())))
        unfinished = self._folder / f"{_FILE}.part"
        unfinished.write_text(text)
        unfinished.rename(self._folder / _FILE)


@dataclass(frozen=True, slots=True)
class Run:
    """One run that was interrupted, and how far it came."""

    folder: Path
    position: ScanPosition

    def records(self, until: int) -> Iterator[SampleRecord | BatchRecord | ValueSummary]:
        """What was kept of the batches before fetch `until`, numbered from the beginning of the epoch."""
        for record in read_spools(self.folder):
            if isinstance(record, SampleRecord | BatchRecord | ValueSummary):
                fetch = record.batch + self.position.begun
                if fetch < until:
                    yield replace(record, batch=fetch)

    def unreadable(self, until: int) -> Iterator[Unreadable]:
        """What could not be read of those batches."""
        for one in UnreadableLog(self.folder).new():
            fetch = one.batch + self.position.begun
            if fetch < until:
                yield replace(one, batch=fetch)


class Runs:
    """The runs in which one loader is read, each of which goes on from those before it.

    They are `earlier` ones to go on from, in their order, and the last of all may be `finished`: its folder, and what
    it answered. `afresh` says why there are none, where they are of no use.
    """

    def __init__(self, state: Path, facts: LoaderFacts) -> None:
        self._folder = state / quote(facts.name, safe="")
        self.earlier: tuple[Run, ...] = ()
        self.finished: tuple[Path, Any] | None = None
        dealt = {name: getattr(facts, name) for name in _DEALT_BY}
        self.afresh = self._recall(dealt) if self._folder.exists() else None
        if self.afresh:
            shutil.rmtree(self._folder)
        self._folder.mkdir(exist_ok=True)
        (self._folder / _LOADER).write_text(json.dumps(dealt))

    def begin(self) -> Path:
        """A folder for a new run."""
        folder = self._folder / str(len(self._runs()))
        folder.mkdir()
        return folder

    def _runs(self) -> list[Path]:
        """The folders of all runs so far."""
        return sorted((path for path in self._folder.iterdir() if path.is_dir()), key=lambda path: int(path.name))

    def _recall(self, dealt: Mapping[str, Any]) -> str | None:
        """Look at what there is, and say why it is of no use to a loader like this, if it is not."""
        try:
            then = json.loads((self._folder / _LOADER).read_text())
            for name, words in _DEALT_BY.items():
                if then[name] != dealt[name]:
                    return f"its {words} changed from {then[name]} to {dealt[name]}"
            runs = self._runs()
            self.earlier = _resumable(runs)
            self.finished = _finished(runs[-1]) if runs else None
        except Exception:  # noqa: BLE001 - whatever is wrong with these files, what they tell can be read again
            self.earlier, self.finished = (), None
            return "the saved state is damaged"
        return None


def _resumable(folders: list[Path]) -> tuple[Run, ...]:
    """The runs to go on from; one that had to start over leaves those before it out."""
    found: list[Run] = []
    for folder in folders:
        if (folder / _FILE).exists():
            run = Run(folder, ScanPosition(**json.loads((folder / _FILE).read_text())))
            found = [run] if run.position.begun == 0 else [*found, run]
    return tuple(found)


def _finished(folder: Path) -> tuple[Path, Any] | None:
    """The folder and the answer of a run that came to its end."""
    if isolation.has_answered(folder):
        with contextlib.suppress(DataguardError):  # it failed, perhaps for want of memory, and may come further now
            return folder, isolation.answer_in(folder)
    return None


def with_ends(runs: tuple[Run, ...], end: int) -> Iterator[tuple[Run, int]]:
    """Each run with the fetch before which the next one, or the present one at `end`, begins."""
    ends = [*(run.position.begun for run in runs[1:]), end]
    yield from zip(runs, ends, strict=True) if runs else ()
