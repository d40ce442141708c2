"""Samples that cannot be read are left out of their batch, and recorded with the file that was being read."""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from dataguard.core.incident import OWN, is_library
from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.records import plain_index
from dataguard.lab.decoding.file_substitution import watched
from dataguard.lab.process.incidents import incident_of
from dataguard.process.originals import os, pickle
from dataguard.process.progress import Unreadable

UNREAD: Any = object()
"""Replaces a sample that could not be read."""
DETAILED_INCIDENTS = 8
"""How many incidents a process keeps with all their details: a report shows a few, and of the others their lines."""
_LONGEST_PATH = 4096
"""Longest path in characters: a longer text is not a path."""


@dataclass(frozen=True, slots=True)
class SkipUnreadable(Instrument):
    """Leaves unreadable samples of a map-style dataset out of their batch, and records them."""

    def start(self, process: Process) -> Hooks:
        """Each process records its own samples."""
        return _SkipUnreadable(process)


class _SkipUnreadable(Hooks):
    def __init__(self, process: Process) -> None:
        self._process = process
        self._fetch = 0

    def wrap(self, dataset: Any) -> Any:
        """Return `UNREAD` for what cannot be read."""
        batched = hasattr(dataset, "__getitems__") and dataset.__getitems__
        skipping = SkippingBatches if batched else SkippingItems
        return skipping(dataset, self._process.folder, self._process.worker, lambda: self._fetch)

    def around_fetch(self, fetch: Fetch) -> contextlib.AbstractContextManager[None]:
        """Remember the number of the current fetch."""
        self._fetch = fetch.number
        return contextlib.nullcontext()

    def keeps(self, sample: Any) -> bool:
        """Whether a sample could be read."""
        return sample is not UNREAD


class SkippingItems:
    """A map-style dataset that returns `UNREAD` for what it cannot read, and records it.

    `fetch` returns the number of the current fetch.
    """

    def __init__(self, dataset: Any, folder: Path, worker: int | None, fetch: Callable[[], int]) -> None:
        self._dataset = dataset
        self._path = folder / f"{'main' if worker is None else worker}.unreadable"
        self._worker = worker
        self._fetch = fetch
        self._recorded = 0

    def __getitem__(self, index: Any) -> Any:
        return self._try(index, lambda: self._dataset[index])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def _try(self, index: Any, get: Callable[[], Any]) -> Any:
        try:
            return get()
        except StopIteration:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises for one sample is recorded
            self._record(error, index, get)
            return UNREAD

    def _record(self, error: Exception, index: Any, get: Callable[[], Any]) -> None:
        incident = incident_of(error, "sample", index, worker=self._worker)
        frame = incident.own_frame or (incident.frames[-1] if incident.frames else None)
        unreadable = Unreadable(
            self._worker,
            self._fetch(),
            plain_index(index),
            incident.index or "",
            incident.headline,
            incident.error_type or "",
            self._file(error, get),
            (frame.file, frame.line, frame.function) if frame else None,
            incident if self._recorded < DETAILED_INCIDENTS else None,
        )
        self._recorded += 1
        with self._path.open("ab", buffering=0) as file:  # opened each time: user code may close descriptors
            file.write(pickle.dumps(unreadable))

    @staticmethod
    def _file(error: Exception, get: Callable[[], Any]) -> str | None:
        try:
            return file_of(error) or file_opened(get)
        except Exception:  # noqa: BLE001 - inspecting the user's objects may raise anything
            return None


class SkippingBatches(SkippingItems):
    """The same for a dataset that fetches a whole batch at once: if that fails, each sample is tried alone."""

    def __getitems__(self, indices: Any) -> Any:
        try:
            return self._dataset.__getitems__(indices)
        except StopIteration:
            raise
        except Exception as error:
            samples = [self._try(index, functools.partial(self._only, index)) for index in indices]
            if not any(sample is UNREAD for sample in samples):  # the combination fails, not a sample
                raise error
            return samples

    def _only(self, index: Any) -> Any:
        (sample,) = self._dataset.__getitems__([index])
        return sample


class UnreadableLog:
    """Reads the records of unreadable samples that processes write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[Path, int] = {}

    def new(self) -> Iterator[Unreadable]:
        """The records since the last call."""
        for path in sorted(self._folder.glob("*.unreadable")):
            with path.open("rb") as file:
                file.seek(self._places.get(path, 0))
                while True:
                    try:
                        yield pickle.load(file)
                    except (EOFError, pickle.UnpicklingError):  # the end, or a record that is being written right now
                        break
                    self._places[path] = file.tell()


def file_of(error: BaseException) -> str | None:
    """The file being read when this was raised: named by the error, or held by a function in its traceback."""
    link: BaseException | None = error
    for _ in range(8):  # exceptions may be linked in a circle
        if link is None:
            return None
        named = getattr(link, "filename", None)
        if isinstance(named, str | bytes | os.PathLike):
            return os.fsdecode(named)
        held = next(filter(None, map(_held_file, _frames(link))), None)
        if held:
            return held
        link = link.__cause__ or link.__context__
    return None


def file_opened(get: Callable[[], Any]) -> str | None:
    """The last file that is opened when the sample is read again."""
    opened: list[str] = []

    def record(path: str) -> bool:
        opened.append(path)
        return False

    try:
        with watched(record):
            get()
    except Exception:  # noqa: BLE001 - it fails as before
        return opened[-1] if opened else None
    return None


def _frames(error: BaseException) -> Iterator[FrameType]:
    """The frames of an error, innermost first, without those of dataguard."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return (frame for frame in reversed(frames) if not frame.f_code.co_filename.startswith(OWN))


def _held_file(frame: FrameType) -> str | None:
    """A file that a local variable of a function names or has open; arguments come first."""
    for value in frame.f_locals.values():
        name = getattr(value, "name", None) if hasattr(type(value), "fileno") else value
        if isinstance(name, str | os.PathLike) and _is_file(name):
            return os.fsdecode(name)
    return None


def _is_file(name: Any) -> bool:
    try:
        text = os.fsdecode(name)
        return 0 < len(text) < _LONGEST_PATH and "\0" not in text and Path(text).is_file() and not is_library(text)
    except (OSError, TypeError, ValueError):
        return False


def in_range(unreadable: Unreadable, limit: int | None) -> bool:
    """Whether the index of a sample is below the real length of the dataset."""
    return limit is None or not isinstance(unreadable.index, int) or unreadable.index < limit
