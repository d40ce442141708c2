"""What a process holds, read from inside it every so many samples: memory and open files."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import psutil

from dataguard.lab.records import Memory, Pools, Reading, Spool
from dataguard.lab.threads import limit_threads, pools

_MAPS = Path("/proc/self/smaps_rollup")
_DESCRIPTORS = Path("/proc/self/fd")
SPARING = 50
"""Between two readings goes this many times as long as one takes, so that workers are not slowed down by them."""
MILESTONES = 4
"""Every so many readings, one is made however long it takes."""


class Gauges:
    """Reads what this process holds once so many samples were read, for each number in `moments`, in rising order.

    Libraries are told to use so many `threads`, if it is said, before the first fetch and, as some are loaded by it,
    after it. With 0 they are left alone, and it is noted what they use.
    """

    def __init__(self, spool: Spool, worker: int | None, moments: Sequence[int], threads: int | None = None) -> None:
        self._threads = threads
        self._spool = spool
        self._worker = worker
        self._moments = deque(enumerate(moments, start=1))
        self._samples = 0
        self._taken = 0.0
        self._cost = 0.0

    def begin(self, epoch: int) -> None:
        """Take the first reading, before any sample."""
        if not self._samples:
            self._take(epoch)
            self._limit(epoch)

    def count(self, epoch: int, samples: int) -> None:
        """Count samples that were read, and take a reading when it is time for one."""
        if not self._samples:
            self._limit(epoch)
        self._samples += samples
        wanted = False
        while self._moments and self._moments[0][1] <= self._samples:
            number, _ = self._moments.popleft()
            early = time.perf_counter() - self._taken < SPARING * self._cost
            wanted = wanted or not early or number % MILESTONES == 0
        if wanted:
            self._take(epoch)

    def _limit(self, epoch: int) -> None:
        if self._threads:
            limit_threads(self._threads)
        elif self._threads == 0:
            self._spool.write(Pools(self._worker, epoch, pools()))

    def _take(self, epoch: int) -> None:
        started = time.perf_counter()
        self._spool.write(Reading(self._worker, epoch, self._samples, memory_held(), descriptors_open(), started))
        self._taken = time.perf_counter()
        self._cost = self._taken - started


def memory_held() -> Memory:
    """What this process holds now.

    On Linux what it took are its anonymous pages, with those that a fork still shares with its parent, so that a page
    which is copied does not count as grown, and pages of mapped files are left out. Elsewhere it is the unique set.
    """
    try:
        text = _MAPS.read_text(encoding="ascii")
    except OSError:
        held = psutil.Process().memory_full_info().uss
        return Memory(held, held)
    sizes = {line.partition(":")[0]: 1024 * int(line.split()[1]) for line in text.splitlines()[1:]}
    swapped = sizes.get("Swap", 0)
    return Memory(sizes["Anonymous"] + swapped, sizes["Private_Dirty"] + swapped, sizes["Shared_Dirty"])


def descriptors_open() -> int:
    """How many descriptors this process has open, 0 where nobody can tell."""
    with contextlib.suppress(OSError):
        return sum(1 for _ in (_DESCRIPTORS if _DESCRIPTORS.is_dir() else Path("/dev/fd")).iterdir())
    return 0
