"""How forks exit: what runs then is what was registered there, and only for a while.

A fork inherits the handlers of `atexit` and the finalizers of `weakref`, which would remove the temporary folders that
its parent still needs.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import weakref
from typing import Any, NoReturn

from greenlet import GreenletExit

from dataguard.process.originals import os, signal, time
from dataguard.process.process_tree import await_managers, descendants

GRACE = 2.0
"""Seconds that exit handlers may take."""
_MOMENT = 0.5
"""Seconds in which an interrupted fork may exit."""
DISMISSED = (KeyboardInterrupt, GreenletExit)
"""What is raised in this process, and in the other jobs of it, once nobody waits for its observations."""


class InheritedHandlers:
    """The exit handlers and finalizers that are registered so far."""

    def __init__(self) -> None:
        self._finalizers = tuple(getattr(weakref.finalize, "_registry", {}).values())
        self._dropped = False
        atexit.register(self._stop)
        weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined] # it does so again, after this

    def drop(self) -> None:
        """Let none of them run in this process, nor when their objects are freed."""
        self._dropped = True
        for finalizer in self._finalizers:
            finalizer.func = _nothing

    def _stop(self) -> None:
        """Runs after the handlers that were registered later, and before these."""
        if self._dropped:
            gc.collect()  # a temporary file goes with its object, which nothing but a circle may hold
            os._exit(0)


def _nothing(*_: Any, **__: Any) -> None:
    pass


def run_exit_handlers() -> None:
    """Run what is registered in this process, which the kernel ends if that takes longer than `GRACE`."""
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, GRACE)
    with contextlib.suppress(Exception):  # what they raise is written to the output
        atexit._run_exitfuncs()


def let_exit(pid: int, seconds: float = GRACE) -> None:
    """Wait at most so long for a fork to exit."""
    deadline = time.monotonic() + seconds
    with contextlib.suppress(ChildProcessError):
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < deadline:
            time.sleep(0.005)


def interrupt(pid: int) -> None:
    """Interrupt a fork, and give it a moment to remove what it has made."""
    await_managers(descendants())
    os.kill(pid, signal.SIGINT)
    let_exit(pid, _MOMENT)


def awaited(pid: int) -> int:
    """Wait for the fork that replaced this process; returns its exit status. It is interrupted in place of this one."""
    while True:
        try:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except KeyboardInterrupt:
            os.kill(pid, signal.SIGINT)


def end_like(status: int) -> NoReturn:
    """End this process as another one ended, by its exit code or, if negative, its signal."""
    if status < 0:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(abs(status))
