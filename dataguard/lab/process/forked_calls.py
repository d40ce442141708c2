"""Calls in a fork of this process, so that nothing they change is kept."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable
from typing import TypeVar

from dataguard.lab.process.exits import InheritedHandlers, run_exit_handlers
from dataguard.process.originals import os, pickle, signal, time

T = TypeVar("T")


def in_fork(function: Callable[[], T], seconds: float | None = None) -> T | None:
    """What a function returns in a fork of this process; None if it raises, dies, or takes more `seconds`."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        InheritedHandlers().drop()
        try:
            os.close(reading)
            returned = pickle.dumps(function())
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(returned)
            run_exit_handlers()
        finally:
            os._exit(0)
    os.close(writing)
    answer = _read(reading, seconds)
    os.close(reading)
    if answer is None:
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):  # user code that ignores SIGCHLD leaves nothing to wait for
        os.waitpid(pid, 0)
    found: T | None = pickle.loads(answer) if answer else None
    return found


def _read(pipe: int, seconds: float | None) -> bytes | None:
    """All that is written to a pipe; None if it is still open after so many seconds."""
    parts, written = [b""], select.poll()
    written.register(pipe, select.POLLIN | select.POLLHUP)
    due = time.monotonic() + (seconds or 0)
    while seconds is None or written.poll(1000 * max(0, due - time.monotonic())):
        parts.append(os.read(pipe, 1 << 16))
        if not parts[-1]:
            return b"".join(parts)
    return None
