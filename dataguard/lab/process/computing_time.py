"""Ends computations of the observing process that take too long.

Judgements run side by side in its only thread. So one timer counts the time that this process computes, and charges
each tick to whatever runs at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dataguard.process.originals import signal

TICK = 0.1
"""Seconds of computing between two ticks."""

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


@contextmanager
def counted() -> Iterator[None]:
    """Count computing time inside the context; not if the user's module uses this timer or its signal itself."""
    if signal.getsignal(signal.SIGVTALRM) is not signal.SIG_DFL or any(signal.getitimer(signal.ITIMER_VIRTUAL)):
        yield
        return
    signal.signal(signal.SIGVTALRM, _tick)
    signal.setitimer(signal.ITIMER_VIRTUAL, TICK, TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        forget()


def forget() -> None:
    """Remove the handler of the signal: a fork inherits it, but not the timer."""
    if signal.getsignal(signal.SIGVTALRM) is _tick:
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)


def _tick(*_: object) -> None:
    charge = _charge.get()
    if charge is not None and charge(TICK):
        raise TookTooLong
