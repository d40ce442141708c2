"""Holds the seconds of the clock while a worker seeds its generators: workers that start together start in one second.

Whether two workers read the clock in the same second is chance, and so would be what an observation finds. `SameSecond`
lets all workers of an epoch do so, and those of the next epoch in the next second, as an epoch takes longer than one.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.source_location import Place, caller, rebind

_HELD = 60
"""Seconds that count as one: two workers start seconds apart at most, so that few of them see a minute change."""
_SECOND = 1_000_000_000
"""A second in nanoseconds."""
_DEFINING = ("time", "datetime")


@dataclass(frozen=True, slots=True)
class SameSecond(Instrument):
    """In each worker, until its first fetch has ended, all clocks of the calendar show the second of its epoch.

    Fractions of a second are the real ones. Only the first answer to each line of the user's code is changed: a loop
    that waits for a time ends.
    """

    def start(self, process: Process) -> Hooks:
        """Each worker has its own clock; the main process keeps the real one."""
        return Hooks() if process.worker is None else _SameSecond(process.epoch)


class _SameSecond(Hooks):
    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._asked: set[Place] = set()
        self._replaced: list[tuple[Any, Any]] = []

    @contextlib.contextmanager
    def around_init(self) -> Iterator[None]:
        """Replace the clocks."""
        wall, nanoseconds, calendar = time.time, time.time_ns, datetime.datetime

        def held(now: int) -> int:
            """The time in nanoseconds, in the second of the epoch."""
            return now // (_HELD * _SECOND) * _HELD * _SECOND + self._epoch * _SECOND + now % _SECOND

        @functools.wraps(wall)
        def seconds() -> float:
            return held(nanoseconds()) / _SECOND if self._is_first() else wall()

        @functools.wraps(nanoseconds)
        def whole() -> int:
            return held(nanoseconds()) if self._is_first() else nanoseconds()

        self._replaced = [(wall, seconds), (nanoseconds, whole), (calendar, _calendar(calendar, seconds))]
        rebind({id(original): (original, other) for original, other in self._replaced}, _DEFINING)
        yield

    @contextlib.contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        """Put the clocks back after the first fetch."""
        yield
        if self._replaced:
            rebind({id(other): (other, original) for original, other in self._replaced}, _DEFINING)
            self._replaced = []

    def _is_first(self) -> bool:
        """Whether a line of the user's code asks for the first time."""
        line = caller()
        if line is None or line in self._asked:
            return False
        self._asked.add(line)
        return True


def _calendar(original: Any, seconds: Callable[[], float]) -> Any:
    """A class in place of `datetime.datetime` whose objects are of the original one."""

    class Calendar(original):  # type: ignore[misc]
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs)

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return original.fromtimestamp(seconds(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return original.fromtimestamp(seconds(), datetime.timezone.utc).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return cls.now()

    checks = {
        "__instancecheck__": lambda _, instance: isinstance(instance, original),
        "__subclasscheck__": lambda _, cls: issubclass(cls, original),
    }
    meta = type("_Meta", (type(original),), checks)
    return meta(original.__name__, (Calendar,), {})
