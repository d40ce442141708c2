"""Run jobs side by side in one thread: while one waits for a process that it forked, the others continue.

Only a process without other threads can be forked safely, so each job is a greenlet. A job gives way in `pause` and in
`wait_until`; outside of `side_by_side`, the one sleeps and the other returns at once.
"""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from dataguard.lab.process.budgets import SharedTime
from dataguard.process.originals import time

T = TypeVar("T")

MOST_BEGUN = 128
"""Jobs that have begun at most, more than there are checks: each time one gives way, all of these are asked.

Whatever a job waits for, one that has begun brings about.
"""


class _Job(greenlet):
    """A job, and what it waits for: a condition, and a time before which there is no need to test it.

    `waited` are the seconds that it has waited for other jobs.
    """

    ready: Callable[[], bool] = staticmethod(lambda: True)
    at = 0.0
    waited = 0.0


def side_by_side(jobs: Sequence[Callable[[], T]]) -> Iterator[tuple[int, T]]:
    """Run the jobs; yield the number of each and its result as it ends. Of those that are ready, the first one runs.

    An exception of a job passes through, and the remaining jobs are dropped.
    """
    coming = deque(enumerate(jobs))
    waiting: dict[int, _Job] = {}
    while waiting or coming:
        now = time.monotonic()
        ready = next((number for number, job in waiting.items() if job.at <= now and job.ready()), None)
        if ready is None and coming and len(waiting) < MOST_BEGUN:
            ready, function = coming.popleft()
            waiting[ready] = _Job(function)
            # User code in a fork finds what its module has set there.
            waiting[ready].gr_context = contextvars.copy_context()
        elif ready is None:
            later = [job.at for job in waiting.values() if job.at > now]
            assert later, "every job waits for another"
            time.sleep(min(later) - now)
            continue
        job = waiting[ready]
        result: Any = job.switch()
        if job.dead:
            del waiting[ready]
            yield ready, result


def pause(seconds: float) -> None:
    """Let other jobs run for so many seconds."""
    job = getcurrent()
    if isinstance(job, _Job):
        _give_way(job, time.monotonic() + seconds, lambda: True)
    else:
        time.sleep(seconds)


def wait_until(condition: Callable[[], bool]) -> None:
    """Let other jobs run until the condition holds, which only they can bring about."""
    job = getcurrent()
    if isinstance(job, _Job) and not condition():
        started = time.monotonic()
        _give_way(job, 0.0, condition)
        job.waited += time.monotonic() - started


def seconds_waited() -> float:
    """The seconds that this job has waited for other jobs so far."""
    job = getcurrent()
    return job.waited if isinstance(job, _Job) else 0.0


def _give_way(job: _Job, at: float, ready: Callable[[], bool]) -> None:
    job.at, job.ready = at, ready
    assert job.parent is not None
    job.parent.switch()


@dataclass(slots=True)
class Turn:
    """The time in which one observation runs: `alone` if it takes times, `accompanied` if another one ran meanwhile."""

    alone: bool
    accompanied: bool = False


class ConcurrencySlots:
    """Lets at most `most` observations run side by side, and those that must be alone by themselves.

    `time` is what the budgets of the loaders share.
    """

    def __init__(self, most: int = 1) -> None:
        self.time = SharedTime()
        self._most = most
        self._running: list[Turn] = []

    @contextmanager
    def taken(self, *, alone: bool = False) -> Iterator[Turn]:
        """Wait for a turn, and hold it inside the context."""
        wait_until(lambda: self._free(alone))
        turn = Turn(alone)
        self._running.append(turn)
        for one in self._running if len(self._running) > 1 else ():
            one.accompanied = True
        try:
            yield turn
        finally:
            self._running.remove(turn)

    def is_free(self) -> bool:
        """Whether an observation could run now."""
        return self._free(alone=False)

    def _free(self, alone: bool) -> bool:
        if alone or any(turn.alone for turn in self._running):
            return not self._running
        return len(self._running) < self._most
