"""Observations and judgements side by side in one thread: jobs, turns, budgets, and the end of long computations.

Only a process without other threads can be forked safely, so each job of `side_by_side` is a greenlet. A job gives way
in `pause` and in `wait_until`; outside of `side_by_side`, the one sleeps and the other returns at once. Observations
take turns in `ConcurrencySlots`, and loaders that are observed at the same time share the seconds of their `Budget`s.

A computation in this process gives no way. So timers count the time that this process computes, and the time in which
it sleeps, and charge each tick to whatever runs at that moment, which `TookTooLong` ends. Time without a core is
nobody's: it says how busy the machine is.
"""

from __future__ import annotations

import contextvars
import select
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from dataguard.process.originals import signal, time
from dataguard.process.process_tree import seconds_without_core

T = TypeVar("T")
MOST_BEGUN = 128
"""Most jobs that have begun, more than there are checks: all of these are asked whenever one did something.

Whatever a job waits for is brought about by one that has begun, so that some job can always continue.
"""


def side_by_side(jobs: Sequence[Callable[[], T]]) -> Iterator[tuple[int, T]]:
    """Run the jobs; yield the number of each and its result as it ends. Of those that are ready, the first one runs.

    An exception of a job passes through, and the remaining jobs are dropped.
    """
    coming = deque(enumerate(jobs))
    waiting: dict[int, _Job] = {}
    changed = True  # conditions may hold now that did not when all were asked last
    while waiting or coming:
        now = time.monotonic()
        ready = next(
            (number for number, job in waiting.items() if (job.at <= now if job.at else changed and job.ready())), None
        )
        if ready is None and coming and len(waiting) < MOST_BEGUN:
            ready, function = coming.popleft()
            waiting[ready] = _Job(function)
            # User code in a fork finds what its module has set there.
            waiting[ready].gr_context = contextvars.copy_context()
        elif ready is None:
            changed = False
            later = [job.at for job in waiting.values() if job.at > now]
            assert later, "every job waits for another"
            ended = _sleep(min(later) - now, [job.until for job in waiting.values() if job.until is not None])
            for job in waiting.values():
                job.at = now if job.until in ended else job.at
            continue
        job = waiting[ready]
        result: Any = job.switch()
        changed |= job.dead or not job.idle
        if job.dead:
            del waiting[ready]
            yield ready, result


class _Job(greenlet):
    """A job, and what it waits for: a time, or, if `at` is 0, a condition.

    It waits no longer once the descriptor `until` can be read. `idle`: no condition holds that did not when it gave way
    before. `waited` are the seconds that it has waited for other jobs.
    """

    ready: Callable[[], bool] = staticmethod(lambda: True)
    at = 0.0
    until: int | None = None
    idle = False
    waited = 0.0


def pause(seconds: float, *, idle: bool = False, until: int | None = None) -> None:
    """Let other jobs run for so many seconds, or until a descriptor can be read.

    `idle`: since its last pause, this job did nothing that another one waits for. To ask a hundred others takes longer
    than to see that an observation still runs.
    """
    job = getcurrent()
    if isinstance(job, _Job):
        _give_way(job, time.monotonic() + seconds, lambda: True, idle=idle, until=until)
    else:
        _sleep(seconds, [] if until is None else [until])


def _sleep(seconds: float, descriptors: Sequence[int]) -> set[int | None]:
    """Sleep until one of the descriptors can be read, and return those that can."""
    if not descriptors:
        time.sleep(seconds)
        return set()
    waiting = select.poll()
    for descriptor in descriptors:
        waiting.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in waiting.poll(1000 * seconds)}


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


def _give_way(job: _Job, at: float, ready: Callable[[], bool], *, idle: bool = False, until: int | None = None) -> None:
    job.at, job.ready, job.idle, job.until = at, ready, idle, until
    assert job.parent is not None
    job.parent.switch()


@dataclass(slots=True)
class Turn:
    """The time of one observation: `exclusive` if it takes times, `accompanied` if another one ran meanwhile."""

    exclusive: bool
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
    def taken(self, *, exclusive: bool = False) -> Iterator[Turn]:
        """Wait for a turn, and hold it inside the context."""
        wait_until(lambda: self._free(exclusive))
        turn = Turn(exclusive)
        self._running.append(turn)
        for other in self._running if len(self._running) > 1 else ():
            other.accompanied = True
        try:
            yield turn
        finally:
            self._running.remove(turn)

    def is_free(self) -> bool:
        """Whether an observation could run now."""
        return self._free(exclusive=False)

    def _free(self, exclusive: bool) -> bool:
        if exclusive or any(turn.exclusive for turn in self._running):
            return not self._running
        return len(self._running) < self._most


class SharedTime:
    """Time that is divided between the budgets that run down, as their observations share the cores."""

    def __init__(self) -> None:
        self._running: Counter[Budget] = Counter()
        self._since = 0.0

    @property
    def sharers(self) -> int:
        """How many budgets run down now."""
        return len(self._running)

    def settle(self) -> None:
        """Charge the time since this was called last."""
        now = time.monotonic()
        for budget in self._running:
            budget.remaining -= (now - self._since) / len(self._running)
        self._since = now

    def add(self, budget: Budget, count: int) -> None:
        """Count the observations that run under a budget."""
        self.settle()
        self._running[budget] += count
        if not self._running[budget]:
            del self._running[budget]

    def runs(self, budget: Budget) -> bool:
        """Whether a budget runs down now."""
        return budget in self._running


class Budget:
    """Seconds that run down while anything is inside this context manager."""

    def __init__(self, seconds: float, time: SharedTime) -> None:
        self.remaining = seconds
        self._time = time

    @property
    def left(self) -> float:
        """The seconds that are left; negative if it was overdrawn."""
        self._time.settle()
        return self.remaining

    @property
    def until_spent(self) -> float:
        """The seconds after which nothing is left, if as many loaders are observed as now."""
        return self.left * max(self._time.sharers, 1)

    def spend(self, seconds: float) -> None:
        """Take so many seconds off, unless time runs anyway."""
        if not self._time.runs(self):
            self.remaining -= seconds

    def __enter__(self) -> None:
        self._time.add(self, 1)

    def __exit__(self, *_: object) -> None:
        self._time.add(self, -1)


Charge = Callable[[float], bool]
"""Takes the seconds of a tick, and returns whether the computation has to end."""


class TookTooLong(BaseException):
    """Raised inside a computation that has to end.

    No `Exception`: judges catch those that observations raise, and continue.
    """


@contextmanager
def charged(charge: Charge | None) -> Iterator[None]:
    """Charge what is computed inside the context, or nobody: then it is not interrupted."""
    before = _charge.set(charge)
    try:
        yield
    finally:
        _charge.reset(before)


@contextmanager
def counted() -> Iterator[None]:
    """Count time inside the context, with those timers that the user's module does not use itself."""
    free = [
        (number, timer, seconds, handler)
        for number, timer, seconds, handler in _TIMERS
        if signal.getsignal(number) is signal.SIG_DFL and not any(signal.getitimer(timer))
    ]
    for number, timer, seconds, handler in free:
        signal.signal(number, handler)
        signal.setitimer(timer, seconds, seconds)
    try:
        yield
    finally:
        for _, timer, _, _ in free:
            signal.setitimer(timer, 0)
        remove_handlers()


def remove_handlers() -> None:
    """Remove the handlers of the signals: a fork inherits them, but not the timers."""
    for number, _, _, handler in _TIMERS:
        if signal.getsignal(number) is handler:
            signal.signal(number, signal.SIG_DFL)


_charge: ContextVar[Charge | None] = ContextVar("charge", default=None)


def _spend(seconds: float) -> None:
    charge = _charge.get()
    if charge is not None and charge(seconds):
        raise TookTooLong


TICK = 0.1
"""Seconds of computing between two ticks: a computation overruns its time by no more."""


def _tick(*_: object) -> None:
    _spend(TICK)


GLANCE = 0.5
"""Seconds after which it is measured how much of them this process slept: much more than the clocks differ by."""
_awake = 0.0
"""Seconds up to the last glance that this process did not sleep."""


def _glance(*_: object) -> None:
    """Charge what it slept since the last glance, as the user's code may have it do: a callback of `gc`, say."""
    global _awake
    before, _awake = _awake, time.process_time() + seconds_without_core()
    slept = GLANCE - (_awake - before)
    if slept > GLANCE / 2:  # the clocks differ by some milliseconds
        _spend(slept)


_TIMERS = (
    (signal.SIGVTALRM, signal.ITIMER_VIRTUAL, TICK, _tick),
    (signal.SIGALRM, signal.ITIMER_REAL, GLANCE, _glance),
)
