"""Watches whether a file is really opened, by whatever code: readers in C++ go past Python's `open`."""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from dataguard.process.originals import os

ATTEMPTS = 3
"""A library opens a file each time; another process, such as a training run beside the scan, only now and then."""
_IN_OPEN = 0x20


@dataclass(slots=True)
class Opened:
    """Whether any process opened the file meanwhile."""

    seen: bool = False


@contextlib.contextmanager
def opens_of(path: str) -> Iterator[Opened]:
    """Watch a file by inotify; without it, nothing is ever seen."""
    opened = Opened()
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "inotify_init1"):
        yield opened
        return
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    libc.inotify_add_watch(watch, os.fsencode(path), _IN_OPEN)
    try:
        yield opened
    finally:
        with contextlib.suppress(OSError):  # nothing to read; or the user's code closed it
            opened.seen = any(mask & _IN_OPEN for mask in _masks(os.read(watch, 4096)))
        with contextlib.suppress(OSError):
            os.close(watch)


def _masks(events: bytes) -> Iterator[int]:
    """The mask of each `inotify_event`: a file that is replaced meanwhile has one too, though nobody opened it."""
    place = 0
    while place < len(events):
        _, mask, _, length = struct.unpack_from("iIII", events, place)
        yield mask
        place += 16 + length
