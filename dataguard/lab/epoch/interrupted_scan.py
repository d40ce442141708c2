"""The saved records of an interrupted scan of all samples, and the position at which it continues.

Each run has a folder for the files of its processes. One file holds the number of batches that arrived; records of
later batches, which workers had only begun, are dropped, and these batches are read again.
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

from dataguard.lab.core.records import BatchRecord, SampleRecord
from dataguard.lab.core.value_summary import ValueSummary
from dataguard.lab.epoch.epoch_schedule import FullSchedule, ScanPosition
from dataguard.lab.process.answers import answer_in, has_answered
from dataguard.lab.process.spool import read_spools
from dataguard.lab.spy.skip_unreadable import UnreadableLog
from dataguard.model import DataguardError
from dataguard.process.progress import Unreadable
from dataguard.settings.user_files import json_in

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
"""The facts that decide how batches are distributed to workers and ranks, and their names in messages."""
_EVERY = 1.0
"""Seconds between two writes of the position."""


class PositionLog:
    """Writes the position of a run into its folder; `own` is the schedule of its batches."""

    def __init__(self, folder: Path, own: FullSchedule, workers: int) -> None:
        self._folder = folder
        self._own = own
        self._workers = workers
        self._written = time.monotonic()

    def arrived(self, batches: int) -> None:
        """Report the number of batches that arrived so far, in order."""
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
    """One interrupted run, and how far it got."""

    folder: Path
    position: ScanPosition

    def records(self, until: int) -> Iterator[SampleRecord | BatchRecord | ValueSummary]:
        """The records of the batches before fetch `until`, numbered from the start of the epoch."""
        for record in read_spools(self.folder):
            if isinstance(record, SampleRecord | BatchRecord | ValueSummary):
                fetch = record.batch + self.position.begun
                if fetch < until:
                    yield replace(record, batch=fetch)

    def unreadable(self, until: int) -> Iterator[Unreadable]:
        """The unreadable samples of those batches."""
        for one in UnreadableLog(self.folder).new():
            fetch = one.batch + self.position.begun
            if fetch < until:
                yield replace(one, batch=fetch)


class Runs:
    """The runs in which one loader is read; each continues the runs before it.

    `earlier` are the runs to continue from, in order; `finished` is the folder and the result of the last run, if it
    ended. `afresh` says why saved runs cannot be used, if so.
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
        """Load the saved runs; return why this loader cannot use them, if so."""
        try:
            then = json_in(self._folder / _LOADER)
            for name, words in _DEALT_BY.items():
                if then[name] != dealt[name]:
                    return f"its {words} changed from {then[name]} to {dealt[name]}"
            runs = self._runs()
            self.earlier = _resumable(runs)
            self.finished = _finished(runs[-1]) if runs else None
        except Exception:  # noqa: BLE001 - whatever is wrong with these files, the samples can be read again
            self.earlier, self.finished = (), None
            return "the saved state is damaged"
        return None


def _resumable(folders: list[Path]) -> tuple[Run, ...]:
    """The runs to continue from; a run that started over drops those before it."""
    found: list[Run] = []
    for folder in folders:
        if (folder / _FILE).exists():
            run = Run(folder, ScanPosition(**json_in(folder / _FILE)))
            found = [run] if run.position.begun == 0 else [*found, run]
    return tuple(found)


def _finished(folder: Path) -> tuple[Path, Any] | None:
    """The folder and the result of a run that ended."""
    if has_answered(folder):
        with contextlib.suppress(DataguardError):  # it failed, perhaps out of memory, and may get further now
            return folder, answer_in(folder)
    return None


def with_ends(runs: tuple[Run, ...], end: int) -> Iterator[tuple[Run, int]]:
    """Each run with its end: the fetch at which the next one, or the current one at `end`, begins."""
    ends = [*(run.position.begun for run in runs[1:]), end]
    yield from zip(runs, ends, strict=True) if runs else ()
