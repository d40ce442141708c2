"""Locks between processes: whether a worker takes one. What is read under a lock may share a file offset."""

from __future__ import annotations

import gc
import mmap
import os
import sys
from collections.abc import Callable
from multiprocessing.managers import BaseProxy
from multiprocessing.synchronize import SemLock
from typing import Any


class LockWatch:
    """Notes that a process forked from this one takes a lock that other processes honour.

    Those are the locks of multiprocessing, of its managers, and locks on files. Only for a process that is thrown away:
    an audit hook cannot be taken back.
    """

    def __init__(self) -> None:
        self._seen = mmap.mmap(-1, 1)  # shared with forks
        self._parent = os.getpid()
        for thing in gc.get_objects():
            # Never isinstance: it asks for __class__, which may be user code.
            if issubclass(type(thing), SemLock) and "_semlock" in vars(thing):
                thing._semlock = _Noted(thing._semlock, self._note)
                thing.acquire = thing._semlock.acquire
        call = BaseProxy._callmethod

        def noting(proxy: Any, method: str, *args: Any, **kwargs: Any) -> Any:
            if method == "acquire":
                self._note()
            return call(proxy, method, *args, **kwargs)

        setattr(BaseProxy, "_callmethod", noting)  # noqa: B010 - mypy forbids the plain form
        sys.addaudithook(self._hear)

    @property
    def taken(self) -> bool:
        """Whether a worker has taken one so far."""
        return bool(self._seen[0])

    def _note(self) -> None:
        if os.getpid() != self._parent:
            self._seen[0] = 1

    def _hear(self, event: str, _: Any) -> None:
        if event in ("fcntl.lockf", "fcntl.flock"):
            self._note()


class _Noted:
    """A semaphore of multiprocessing that tells when it is acquired."""

    def __init__(self, inner: Any, note: Callable[[], None]) -> None:
        self._inner = inner
        self._note = note

    def __enter__(self) -> Any:
        self._note()
        return self._inner.__enter__()

    def __exit__(self, *reason: object) -> Any:
        return self._inner.__exit__(*reason)

    def acquire(self, *args: Any, **kwargs: Any) -> Any:
        self._note()
        return self._inner.acquire(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
