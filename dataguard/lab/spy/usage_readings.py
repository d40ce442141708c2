"""What a process holds, read from inside it every so many samples: memory and open files."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from pathlib import Path

import psutil

from dataguard.lab.core.process_usage import Gauging, Pages, Pools, Reading
from dataguard.lab.core.records import Spool
from dataguard.lab.spy.library_threads import limit_threads, pools

_STATUS, _MAPS = Path("/proc/self/status"), Path("/proc/self/smaps_rollup")
_DESCRIPTORS = Path("/proc/self/fd")
SPARING = 100
"""A reading that is only wished for is left out until so many times as long has passed as the one before it took."""


class Gauges:
    """Reads what this process holds after so many samples, once before the first of them, or never without moments.

    Libraries are told to use so many `threads`, if it is said, before the first fetch and, as some are loaded by it,
    after it. With 0 they are left alone, and it is noted what they use.
    """

    def __init__(self, spool: Spool, worker: int | None, gauging: Gauging, threads: int | None = None) -> None:
        self._threads = threads
        self._spool = spool
        self._worker = worker
        self._pages = gauging.pages
        self._needed, self._wished = deque(gauging.needed), deque(gauging.wished)
        self._samples = 0
        self._spent = 0.0
        self._earliest = 0.0

    def begin(self, epoch: int) -> None:
        """Take the first reading, before any sample."""
        if not self._samples:
            if self._needed:
                self._take(epoch)
            self._limit(epoch)

    def count(self, epoch: int, samples: int) -> None:
        """Count samples that were read, and take a reading when it is time for one."""
        if not self._samples:
            self._limit(epoch)
        self._samples += samples
        needed, wished = self._comes(self._needed), self._comes(self._wished)
        if needed or (wished and time.perf_counter() >= self._earliest):
            self._take(epoch)

    def _comes(self, moments: deque[int]) -> bool:
        """Whether one of the moments has come, or several."""
        came = False
        while moments and moments[0] <= self._samples:
            moments.popleft()
            came = True
        return came

    def _limit(self, epoch: int) -> None:
        if self._threads:
            limit_threads(self._threads)
        elif self._threads == 0:
            self._spool.write(Pools(self._worker, epoch, pools()))

    def _take(self, epoch: int) -> None:
        # What the CPU did in this thread is what a reading costs, whatever else the machine does meanwhile.
        at, before = time.perf_counter(), time.thread_time()
        taken, files = memory_taken(), descriptors_open()
        pages = pages_held() if self._pages and self._samples else None
        self._spool.write(Reading(self._worker, epoch, self._samples, taken, pages, files, at, self._spent))
        cost = time.thread_time() - before
        self._spent += cost
        self._earliest = time.perf_counter() + SPARING * cost


def memory_taken() -> int:
    """Bytes of memory that this process took for itself, or that its parent had taken before the fork.

    On Linux these are its anonymous pages, so that a page which is copied does not count as grown, and pages of mapped
    files are left out. Elsewhere it is the memory that no other process has.
    """
    with contextlib.suppress(OSError, KeyError):
        words = _table(_STATUS.read_text(encoding="ascii", errors="replace"))
        return words["RssAnon"] + words.get("VmSwap", 0)
    return int(psutil.Process().memory_full_info().uss)


def pages_held() -> Pages | None:
    """The pages of this process, None where nobody counts them."""
    with contextlib.suppress(OSError, KeyError):
        words = _table(_MAPS.read_text(encoding="ascii"))
        return Pages(words["Anonymous"], words["Private_Dirty"], words["Shared_Dirty"])
    return None


def _table(text: str) -> dict[str, int]:
    """Bytes by name, from lines such as `RssAnon: 1234 kB`."""
    rows = (line.split() for line in text.splitlines() if line.endswith(" kB"))
    return {words[0].rstrip(":"): 1024 * int(words[1]) for words in rows}


def descriptors_open() -> int:
    """How many descriptors this process has open, 0 where nobody can tell."""
    with contextlib.suppress(OSError):
        return sum(1 for _ in (_DESCRIPTORS if _DESCRIPTORS.is_dir() else Path("/dev/fd")).iterdir())
    return 0
