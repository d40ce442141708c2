"""Memory, open files and threads of a process, read from inside it after some numbers of samples."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import threadpoolctl
import torch

from dataguard.core.model import NotTested
from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.records import Pages, Pools, Reading
from dataguard.process.originals import time

READING_INTERVAL = 100
"""An optional reading is skipped unless so many times the duration of the last reading has passed since.

So optional readings take at most 1% of the time.

"""


@dataclass(frozen=True, slots=True)
class UsageReadings(Instrument):
    """Reads the memory and open files of a process before its first sample, and after some numbers of samples.

    Readings after the `needed` numbers are always made, those after the `wished` ones unless the last reading is too
    recent; both are in rising order. With `pages`, memory pages are counted as well, except before the first sample.
    """

    needed: tuple[int, ...] = ()
    wished: tuple[int, ...] = ()
    pages: bool = False

    def start(self, process: Process) -> Hooks:
        """Each process counts its own samples."""
        return _UsageReadings(self, process)


class _UsageReadings(Hooks):
    def __init__(self, asked: UsageReadings, process: Process) -> None:
        self._process = process
        self._pages = asked.pages
        self._needed, self._wished = deque(asked.needed), deque(asked.wished)
        self._samples = 0
        self._spent = 0.0
        self._earliest = 0.0

    @contextlib.contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        """Read before the first sample; count samples, and read again when it is time."""
        if not self._samples and self._needed:
            self._take(fetch.epoch)
        yield
        self._samples += len(fetch.indices)
        needed, wished = self._reached(self._needed), self._reached(self._wished)
        if needed or (wished and time.perf_counter() >= self._earliest):
            self._take(fetch.epoch)

    def _reached(self, moments: deque[int]) -> bool:
        """Whether any of these numbers of samples has been reached."""
        reached = False
        while moments and moments[0] <= self._samples:
            moments.popleft()
            reached = True
        return reached

    def _take(self, epoch: int) -> None:
        # The CPU time of this thread is the cost of a reading, whatever else the machine does.
        at, before = time.perf_counter(), time.thread_time()
        taken, files = memory_taken(), descriptors_open()
        pages = pages_held() if self._pages and self._samples else None
        live = memory_in_use()
        reading = Reading(self._process.worker, epoch, self._samples, taken, live, pages, files, at, self._spent)
        self._process.spool.write(reading)
        cost = time.thread_time() - before
        self._spent += cost
        self._earliest = time.perf_counter() + READING_INTERVAL * cost


def memory_taken() -> int:
    """Bytes of memory that this process allocated, or its parent before the fork.

    On Linux these are its anonymous pages: copied-on-write pages do not count as growth, and pages of mapped files do
    not count. Elsewhere it is the memory that is unique to this process. Raises NotApplicable if it cannot be read.
    """
    with contextlib.suppress(OSError, KeyError):
        words = _table(_STATUS.read_text(encoding="ascii", errors="replace"))
        return words["RssAnon"] + words.get("VmSwap", 0)
    try:
        return int(psutil.Process().memory_full_info().uss)
    except psutil.Error as error:
        raise NotTested("the memory of a process cannot be read here, as /proc is missing") from error


def memory_in_use() -> int | None:
    """Bytes of objects that are not freed: of glibc's allocator, and about those of Python's; None without glibc 2.33.

    Python takes the memory for small objects in arenas, past the C library, and counts only its blocks.
    """
    try:
        statistics = _mallinfo2()()
    except (AttributeError, OSError):
        return None
    return int(statistics.uordblks + statistics.hblkhd + _BLOCK_BYTES * sys.getallocatedblocks())


_BLOCK_BYTES = 64
"""About the bytes of a block of Python's own allocator."""


class _Mallinfo2(ctypes.Structure):
    """The statistics of glibc's allocator, in bytes; see mallinfo(3)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


@functools.cache
def _mallinfo2() -> Any:
    """The function of the C library. Raises AttributeError if it has none."""
    function = ctypes.CDLL(None).mallinfo2
    function.restype = _Mallinfo2
    return function


def pages_held() -> Pages | None:
    """The pages of this process; None if the system does not count them."""
    with contextlib.suppress(OSError, KeyError):
        words = _table(_MAPS.read_text(encoding="ascii"))
        return Pages(words["Anonymous"], words["Private_Dirty"], words["Shared_Dirty"])
    return None


def _table(text: str) -> dict[str, int]:
    """Bytes by name, from lines such as `RssAnon: 1234 kB`."""
    rows = (line.split() for line in text.splitlines() if line.endswith(" kB"))
    return {words[0].rstrip(":"): 1024 * int(words[1]) for words in rows}


def descriptors_open() -> int:
    """How many file descriptors this process has open; 0 if the system does not list them."""
    with contextlib.suppress(OSError):
        return sum(1 for _ in (_DESCRIPTORS if _DESCRIPTORS.is_dir() else Path("/dev/fd")).iterdir())
    return 0


_STATUS, _MAPS = Path("/proc/self/status"), Path("/proc/self/smaps_rollup")
_DESCRIPTORS = Path("/proc/self/fd")


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


def limit_threads(count: int) -> None:
    """Set the number of threads of every library that this process has loaded."""
    torch.set_num_threads(count)
    cv2 = sys.modules.get("cv2")
    if cv2 is not None:
        cv2.setNumThreads(count)
    threadpoolctl.threadpool_limits(count)


def pools() -> tuple[str, ...]:
    """The loaded libraries that would use more than one thread, each with its number of threads."""
    threads = {str(pool["internal_api"]): int(pool["num_threads"]) for pool in threadpoolctl.threadpool_info()}
    cv2 = sys.modules.get("cv2")
    threads["torch"] = torch.get_num_threads()
    threads |= {"cv2": cv2.getNumThreads()} if cv2 is not None else {}
    return tuple(f"{name}: {count}" for name, count in threads.items() if count > 1)


def threads_of_libraries() -> int:
    """How many threads this process has besides those of Python, counting the main thread; 1 if unknown."""
    try:
        return max(sum(1 for _ in _TASKS.iterdir()) - threading.active_count() + 1, 1)
    except OSError:
        return 1


_TASKS = Path("/proc/self/task")
