"""Records the line of the user's code that draws from a generator first, in each worker."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType
from typing import Any

from dataguard.incident import is_library
from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.rng.rng_discovery import Source, find_generators, with_shared

Trace = Callable[[FrameType, str, Any], Any]
_is_library = lru_cache(is_library)


@dataclass(frozen=True, slots=True)
class DrawPlace:
    """The file and line that drew from the generator at a `path` first, in one worker."""

    path: str
    at: tuple[str, int]


@dataclass(frozen=True, slots=True)
class FirstDraw(Instrument):
    """Records where the first fetch of each worker draws from the generator at a `path`."""

    path: str

    def start(self, process: Process) -> Hooks:
        """Each worker has its own record."""
        return _FirstDraw(self.path, process)


class _FirstDraw(Hooks):
    def __init__(self, path: str, process: Process) -> None:
        self._path = path
        self._process = process

    @contextlib.contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        """Follow the user's lines in the first fetch."""
        roots = {} if fetch.number else with_shared(fetch.roots)
        source = next((source for source in find_generators(roots) if source.path == self._path), None)
        if source is None:
            yield
            return
        with _Follower(source) as follower:
            yield
        if follower.place:
            self._process.spool.write(DrawPlace(self._path, follower.place))


class _Follower:
    """Compares the state of a generator line by line in the user's code, until it changes."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._state = source.state()
        self._line: tuple[str, int] | None = None
        self._before: Any = None
        self.place: tuple[str, int] | None = None

    def __enter__(self) -> _Follower:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        self._look()

    def _called(self, frame: FrameType, event: str, arg: Any) -> Trace | None:
        if self.place or _is_library(frame.f_code.co_filename):
            return None
        self._look()
        return self._traced

    def _traced(self, frame: FrameType, event: str, arg: Any) -> Trace | None:
        self._look()
        at: FrameType | None = frame
        if event == "return":  # the rest of the line that called it comes next
            at = frame.f_back
            while at is not None and _is_library(at.f_code.co_filename):
                at = at.f_back
        if at is not None:
            self._line = at.f_code.co_filename, at.f_lineno
        return None if self.place else self._traced

    def _look(self) -> None:
        if self.place is None and self._line is not None and self._source.state() != self._state:
            self.place = self._line
