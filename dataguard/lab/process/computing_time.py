"""Ends computations of the observing process that take too long.

Judgements run side by side in its only thread. So timers count the time that this process computes, and the time in
which it sleeps, and charge each tick to whatever runs at that moment. Time without a core is nobody's: it says how busy
the machine is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dataguard.process.originals import signal, time
from dataguard.process.process_tree import seconds_without_core

TICK = 0.1
"""Seconds of computing between two ticks."""
GLANCE = 0.5
"""Seconds after which it is measured how much of them this process slept."""

Charge = Callable[[float], bool]
"""Takes the seconds of a tick, and returns whether the computation has to end."""


class TookTooLong(BaseException):
    """Raised inside a computation that has to end.

    No `Exception`: judges catch those that observations raise, and continue.
    """


_charge: ContextVar[Charge | None] = ContextVar("charge", default=None)


@contextmanager
def charged(charge: Charge | None) -> Iterator[None]:
    """Charge what is computed inside the context, or nobody: then it is not interrupted."""
    before = _charge.set(charge)
    try:
        yield
    finally:
        _charge.reset(before)


def _tick(*_: object) -> None:
    _spend(TICK)


_awake = 0.0
"""Seconds up to the last glance that this process did not sleep."""


def _glance(*_: object) -> None:
    """Charge what it slept since the last glance, as the user's code may have it do: a callback of `gc`, say."""
    global _awake
    before, _awake = _awake, time.process_time() + seconds_without_core()
    slept = GLANCE - (_awake - before)
    if slept > GLANCE / 2:  # the clocks differ by some milliseconds
        _spend(slept)


def _spend(seconds: float) -> None:
    charge = _charge.get()
    if charge is not None and charge(seconds):
        raise TookTooLong


_TIMERS = (
    (signal.SIGVTALRM, signal.ITIMER_VIRTUAL, TICK, _tick),
    (signal.SIGALRM, signal.ITIMER_REAL, GLANCE, _glance),
)


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
        forget()


def forget() -> None:
    """Remove the handlers of the signals: a fork inherits them, but not the timers."""
    for number, _, _, handler in _TIMERS:
        if signal.getsignal(number) is handler:
            signal.signal(number, signal.SIG_DFL)
