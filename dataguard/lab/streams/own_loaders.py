"""What a loader of the project's own class reads of the dataset that it holds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.source_location import Place
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.reading.epoch_trace import gate
from dataguard.process.originals import time
from dataguard.targets.discovery import own_loader_of
from dataguard.targets.variants import Loader

READ_EPOCHS = 2
"""Epochs that are read: a shuffled loader that loses some samples of each batch loses others in each."""
READ_SECONDS = 5.0
"""Seconds after which reading ends without a result."""


@dataclass(frozen=True, slots=True)
class OwnReads:
    """The indices of its dataset that an own loader never reads in each epoch.

    `length` is that of the dataset, `batches` that of the loader, None if it has none. `size` is how many samples are
    read for a batch or, if more of them explain the length of the loader, a number that it holds. `repeats`: an index
    was read twice in an epoch. `whole`: all epochs were read to their end. `at` is the user's line that reads samples.
    """

    length: int
    batches: int | None
    unread: tuple[tuple[int, ...], ...]
    size: int
    repeats: bool
    whole: bool
    at: Place | None


def read_own_loader(build: Callable[..., Loader], folder: Path) -> OwnReads | None:
    """Iterate the loader in this disposable process; None if it does not request samples of its dataset here.

    It may read the arrays of the dataset itself, or in separate processes.
    """
    loader = own_loader_of(build())
    length = length_of(getattr(loader, "dataset", None))
    if loader is None or not length:
        return None
    recorder, until = FlightRecorder(folder), time.monotonic() + READ_SECONDS
    unread, largest, repeats, late = [], 0, False, False
    with _requests(loader.dataset, length) as asked, gate("iterate"):
        for _ in range(READ_EPOCHS):
            asked.indices.clear()
            before = 0
            for _batch in loader:
                recorder.mark(None, "iterate")
                largest, before = max(largest, len(asked.indices) - before), len(asked.indices)
                late = time.monotonic() > until
                if late:
                    break
            if not asked.indices:
                return None
            repeats = repeats or len(set(asked.indices)) < len(asked.indices)
            unread.append(tuple(sorted(set(range(length)).difference(asked.indices))))
            if late:
                break
    size = _size(loader, length, largest)
    return OwnReads(length, length_of(loader), tuple(unread), size, repeats, not late, asked.at)


def _size(loader: Any, length: int, largest: int) -> int:
    numbers = [value for value in vars(loader).values() if type(value) is int and value > largest]
    return next((number for number in numbers if -(-length // number) == length_of(loader)), largest)


@dataclass(slots=True)
class _Requests:
    """The indices at which a dataset is read, one after the other, and the line that reads first."""

    indices: list[int] = field(default_factory=list)
    at: Place | None = None


@contextmanager
def _requests(dataset: Any, length: int) -> Iterator[_Requests]:
    kind, asked = type(dataset), _Requests()
    original = kind.__getitem__

    @wraps(original)
    def read(self: Any, index: Any) -> Any:
        sample = original(self, index)
        if self is dataset and hasattr(index, "__index__"):
            asked.indices.append(int(index) % length)
            caller = sys._getframe(1)
            asked.at = asked.at or (caller.f_code.co_filename, caller.f_lineno, caller.f_code.co_name)
        return sample

    kind.__getitem__ = read
    try:
        yield asked
    finally:
        kind.__getitem__ = original
