"""What is told while every sample of a loader is being read. Standard library only: the reporting process shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dataguard.incident import Incident


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A sample that the dataset could not give: its index, what was raised, and the file that was being read, if any.

    `batch` is the number of the fetch of its worker in which it was met. `incident` is None for all but the first few.
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
    """How far a loader was read, in samples, and what could not be read since this was last told.

    `total` is None where nothing tells how many samples there are; `before` were read before an interruption.
    """

    loader: str
    read: int
    total: int | None
    unreadable: tuple[Unreadable, ...] = ()
    before: int = 0


ProgressListener = Callable[[ReadingProgress], None]

PROGRESS = "news"
"""How the observing process marks what is no answer yet."""
