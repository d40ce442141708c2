"""Records of what the samples of a stream are read from, in place of what they hold: crops and noise do not hide it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from dataguard.lab.core.instrument import Fetch, Hooks, Process
from dataguard.lab.provenance.file_names import shown
from dataguard.lab.provenance.reads_seen import ReadLog, merged
from dataguard.lab.rows.origins import Read
from dataguard.lab.spy.recording import RecordHooks, Records

SOURCE = "source"
"""The leaf of such a record that spells all that a sample is read from; it has none if nothing was read for it."""


@dataclass(frozen=True, slots=True)
class SourceRecords(Records):
    """Records the files and parts of files from which each sample is read, as if these were its content."""

    def start(self, process: Process) -> Hooks:
        """Each process watches its own reads."""
        return _SourceRecords(self, process)


class _SourceRecords(RecordHooks):
    def __init__(self, asked: SourceRecords, process: Process) -> None:
        super().__init__(asked, process)
        self._log: ReadLog | None = None
        self._read: list[list[Read]] = []

    def around_start(self, epoch: int, dataset: Any) -> AbstractContextManager[None]:
        """Watch what `__iter__` opens, before any sample is read."""
        if self._log is None:  # what it patches stays so
            self._log = ReadLog(dataset)
            self._log.install()
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def around_sample(self) -> Iterator[None]:
        """Note what is read until the stream yields."""
        assert self._log is not None  # the epoch has started
        with self._log.recorded():
            yield
        self._read.append(merged(self._log.reads))

    def at_samples(self, fetch: Fetch, samples: Sequence[Any]) -> None:
        """Record the sources of the samples of a batch."""
        read, self._read = self._read[-len(samples) :], []
        super().at_samples(fetch, [_described(reads) for reads in read])


def _described(reads: Sequence[Read]) -> dict[str, str]:
    """What a sample is read from: a name for readers, and all of it."""
    if not reads:
        return {}
    name = shown(reads[0].name, reads[0].rows)
    return {"file": name, SOURCE: "\n".join(f"{read.name}{read.rows}{read.part}" for read in reads)}
