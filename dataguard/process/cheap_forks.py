"""Make forks of a process that has imported torch cheap, and its imports fast. Standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

_THRESHOLDS = (50_000, 20, 50)
"""Thresholds of the collector during imports; the default is (700, 10, 10) before Python 3.12."""


@contextlib.contextmanager
def infrequent_gc() -> Iterator[None]:
    """Collect garbage less often inside the context, for imports: almost all objects that they create survive.

    This speeds up importing torch from 1.3 s to 1.1 s, and torchvision from 1.1 s to 0.85 s (measured on torch 2.15).
    """
    usual = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        if gc.get_threshold() == _THRESHOLDS:  # unless the user's code changed them
            gc.set_threshold(*usual)


_MADV_COLLAPSE = 25
"""Move memory into huge pages, now. Linux 6.1 and newer know it; others refuse."""
_HUGE_PAGE = 2 << 20
"""Bytes of a huge page on x86-64 and on most arm64 kernels."""


def prepare_to_fork() -> None:
    """Keep the garbage collector off what is in memory, and move that into huge pages, as far as the system can.

    What the collector touches is copied into each fork, and a fork copies an entry for each page: with huge pages, a
    fork of a process that has imported torch and torchvision (400 MB) and its end take 9 ms of CPU and not 27 ms;
    moving takes 0.3 s, once (Linux 6.18). Memory that is shared with a parent is copied, so call this before the first
    fork, in a process that is no fork itself, or in one that will be forked some 60 times.
    """
    gc.freeze()
    if sys.platform == "linux":
        advise = ctypes.CDLL(None).madvise
        for start, end in _anonymous():
            advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_COLLAPSE)


def _anonymous() -> Iterator[tuple[int, int]]:
    """The whole huge pages in this process's private, writable memory that no file backs; none if /proc is missing."""
    maps = ""
    with contextlib.suppress(OSError):
        maps = Path("/proc/self/maps").read_text(errors="replace")
    for line in maps.splitlines():
        span, mode, _, _, inode, *name = line.split(maxsplit=5)
        if inode == "0" and mode == "rw-p" and name != ["[stack]"]:
            start, end = (int(address, 16) for address in span.split("-"))
            start, end = -(-start // _HUGE_PAGE) * _HUGE_PAGE, end // _HUGE_PAGE * _HUGE_PAGE
            if start < end:
                yield start, end
