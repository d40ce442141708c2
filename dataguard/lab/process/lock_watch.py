"""Whether a worker takes an interprocess lock: reads under a lock may safely share a file offset."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import mmap
import sys
from collections.abc import Callable, Iterator
from multiprocessing.managers import BaseProxy
from multiprocessing.synchronize import SemLock
from pathlib import Path
from typing import Any

from dataguard.process.originals import os


class LockWatch:
    """Records that a process forked from this one takes a lock that other processes honour.

    Those are the locks of multiprocessing and its managers, and file locks. Only for a disposable process: audit hooks
    cannot be removed.
    """

    def __init__(self) -> None:
        self._seen = mmap.mmap(-1, 1)  # shared with forks
        self._parent = os.getpid()
        self._open = dict(_open_descriptors())
        for lock in _locks():
            lock._semlock = _WatchedLock(lock._semlock, self._record)
            lock.acquire = lock._semlock.acquire
        call = BaseProxy._callmethod

        def recording(proxy: Any, method: str, *args: Any, **kwargs: Any) -> Any:
            if method == "acquire":
                self._record()
            return call(proxy, method, *args, **kwargs)

        setattr(BaseProxy, "_callmethod", recording)  # noqa: B010 - mypy forbids the plain form
        sys.addaudithook(self._audit)

    @property
    def taken(self) -> bool:
        """Whether a worker has taken a lock so far."""
        return bool(self._seen[0])

    def _record(self) -> None:
        if os.getpid() != self._parent:
            self._seen[0] = 1

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("fcntl.lockf", "fcntl.flock"):
            return
        descriptor, operation = arguments[:2]
        # flock belongs to the file description: if it was opened before the fork, all workers hold the lock at once.
        shared = event == "fcntl.flock" and self._open.get(descriptor, 0) == _identity(descriptor)
        if operation & fcntl.LOCK_EX and not shared:
            self._record()


def _locks() -> list[Any]:
    """The locks of multiprocessing in this process, those of the user's modules too, which were frozen after import."""
    gc.unfreeze()
    holders = gc.get_referrers(*_subclasses(SemLock))  # this writes to no other object, as listing all of them would
    gc.freeze()
    # isinstance reads __class__, which may run the user's code.
    return [one for one in holders if issubclass(type(one), SemLock) and "_semlock" in vars(one)]


def _subclasses(cls: type[object]) -> list[type[object]]:
    return [one for child in cls.__subclasses__() for one in (child, *_subclasses(child))]


def _open_descriptors() -> Iterator[tuple[int, object]]:
    """The descriptors of this process, each with the identity of its file."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            yield int(entry.name), _identity(int(entry.name))


def _identity(descriptor: int) -> object:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


class _WatchedLock:
    """A semaphore of multiprocessing that reports when it is acquired."""

    def __init__(self, inner: Any, record: Callable[[], None]) -> None:
        self._inner = inner
        self._record = record

    def __enter__(self) -> Any:
        self._record()
        return self._inner.__enter__()

    def __exit__(self, *reason: object) -> Any:
        return self._inner.__exit__(*reason)

    def acquire(self, *args: Any, **kwargs: Any) -> Any:
        self._record()
        return self._inner.acquire(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
