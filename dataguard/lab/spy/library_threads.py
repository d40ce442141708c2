"""The threads of libraries in this process, and how to limit them."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import threadpoolctl
import torch

from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.process_usage import Pools

_TASKS = Path("/proc/self/task")


def threads_of_libraries() -> int:
    """How many threads this process has besides those of Python, counting the main thread; 1 if unknown."""
    try:
        return max(sum(1 for _ in _TASKS.iterdir()) - threading.active_count() + 1, 1)
    except OSError:
        return 1


def limit_threads(count: int) -> None:
    """Set the number of threads of every library that this process has loaded."""
    torch.set_num_threads(count)
    cv2 = sys.modules.get("cv2")
    if cv2 is not None:
        cv2.setNumThreads(count)
    threadpoolctl.threadpool_limits(count)


def pools() -> tuple[str, ...]:
    """The loaded libraries that would use more than one thread, each with its number of threads."""
    found = [(str(one["internal_api"]), int(one["num_threads"])) for one in threadpoolctl.threadpool_info()]
    cv2 = sys.modules.get("cv2")
    found.append(("torch", torch.get_num_threads()))
    found += [("cv2", cv2.getNumThreads())] if cv2 is not None else []
    return tuple(f"{name}: {count}" for name, count in dict(found).items() if count > 1)


@dataclass(frozen=True, slots=True)
class LibraryThreads(Instrument):
    """Limits every library to `count` threads; with 0, records how many threads they use."""

    count: int

    def start(self, process: Process) -> Hooks:
        """Each process has its own threads."""
        return _LibraryThreads(self.count, process)


class _LibraryThreads(Hooks):
    def __init__(self, count: int, process: Process) -> None:
        self._count = count
        self._process = process
        self._done = False

    @contextlib.contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        """Set the number before the first fetch and after it, because some libraries are loaded during it."""
        if not self._done:
            self._set(fetch.epoch)
        yield
        if not self._done:
            self._set(fetch.epoch)
            self._done = True

    def _set(self, epoch: int) -> None:
        if self._count:
            limit_threads(self._count)
        else:
            self._process.spool.write(Pools(self._process.worker, epoch, pools()))
