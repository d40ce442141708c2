"""Calls in a fork of this process, so that nothing they change is kept."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable
from typing import TypeVar

from dataguard.lab.process.exits import InheritedHandlers, run_exit_handlers

T = TypeVar("T")


def in_fork(function: Callable[[], T]) -> T | None:
    """What a function returns in a fork of this process; None if it raises or dies."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        InheritedHandlers().drop()
        try:
            os.close(reading)
            answer = pickle.dumps(function())
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(answer)
            run_exit_handlers()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    with contextlib.suppress(ChildProcessError):  # user code that ignores SIGCHLD leaves nothing to wait for
        os.waitpid(pid, 0)
    found: T | None = pickle.loads(answer) if answer else None
    return found
