"""Progress of a scan of all samples, for the reporting process. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dataguard.incident import Incident


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A sample that could not be read: its index, the exception, and the file that was being read, if any.

    `batch` is the number of its fetch in the worker. `incident` is None for all but the first few.
    """

    worker: int | None
    batch: int
    index: object
    shown: str
    reason: str
    error_type: str
    file: str | None
    where: tuple[str, int, str] | None
    incident: Incident | None = None

    def __str__(self) -> str:
        return ": ".join(filter(None, (f"index {self.shown}", self.file, self.reason)))


@dataclass(frozen=True, slots=True)
class ReadingProgress:
    """How many samples of a loader were read, and which were found unreadable since the last update.

    `total` is None if the number of samples is unknown; `before` were read before an interruption.
    """

    loader: str
    read: int
    total: int | None
    unreadable: tuple[Unreadable, ...] = ()
    before: int = 0


ProgressListener = Callable[[ReadingProgress], None]

PROGRESS = "news"
"""Marks a message from the observing process as a progress update, not an answer."""
