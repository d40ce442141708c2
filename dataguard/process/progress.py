"""Progress of a scan: checks that were run, samples that were read. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dataguard.core.incident import Incident
from dataguard.core.model import Result


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

    `total` is None if the number of samples is unknown.
    """

    loader: str
    read: int
    total: int | None
    unreadable: tuple[Unreadable, ...] = ()


ProgressListener = Callable[[ReadingProgress], None]


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """Of `total` checks of a target, counted once for each loader, `done` have a result.

    `result` is the last one that was made; `running` is a check that has none yet, with its loader, None at the end.
    `building` is a target whose loaders are being built; its checks are not in `total` yet. The scan has taken so many
    `seconds`, and the checks of the target may take so many more: `left`, None if there is no limit.
    """

    done: int
    total: int
    result: Result | None = None
    running: tuple[str, str] | None = None
    building: str | None = None
    seconds: float = 0.0
    left: float | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a target waits for before it can be checked, such as the import of torch, and for how many seconds."""

    what: str
    seconds: float


Listener = Callable[[CheckProgress | ReadingProgress | Waiting], None]
"""Called before and after the loaders of a target are built, with every result, and while all samples are read."""

PROGRESS = "news"
"""Marks a message from the observing process as a progress update, not an answer."""
