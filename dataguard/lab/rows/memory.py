"""The memory of an array as one that can be written, and that no other process and no file shares.

Pages that are shared or cannot be written, such as those of a mapped file, are replaced by private copies at the same
addresses: everything that refers to them sees the copies, and the file and other processes never see a change.
"""

from __future__ import annotations

import ctypes
import mmap
from bisect import bisect_right
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.lab.process.write_protection import place_private

_PRIVATE = "rw-p"
"""How `/proc/self/maps` shows memory that can be written and is nobody else's."""


def own_memory(array: np.ndarray) -> np.ndarray | None:
    """A view of the memory of an array that can be written, and that no other process sees; None without such."""
    if not array.size or array.dtype.hasobject:
        return None
    first = array.__array_interface__["data"][0]
    reaches = [(count - 1) * step for count, step in zip(array.shape, array.strides, strict=True)]
    low = first + sum(min(reach, 0) for reach in reaches)
    high = first + sum(max(reach, 0) for reach in reaches) + array.itemsize
    try:
        _make_private(low, high)
    except (OSError, ValueError):
        return None
    memory: Any = (ctypes.c_char * (high - low)).from_address(low)
    memory.owner = array  # so that the memory is not freed as long as the view is there
    view = np.ndarray(array.shape, array.dtype, memory, first - low, array.strides)
    # A tensor that is expanded has one element in many places.
    return view if all(step for step, count in zip(view.strides, view.shape, strict=True) if count > 1) else None


def _make_private(low: int, high: int) -> None:
    """Replace the pages between two addresses by copies, where they are shared or cannot be written."""
    if not _are_known(low, high):
        forget_regions()
    for start, end, flags in _regions_between(low, high):
        if flags == _PRIVATE:
            continue
        if not flags.startswith("r"):
            raise ValueError(f"memory at {start:x} cannot be read")
        page = mmap.PAGESIZE
        first, last = max(start, low // page * page), min(end, -(-high // page) * page)
        content = ctypes.string_at(first, last - first)
        place_private(first, last - first)
        ctypes.memmove(first, content, last - first)
        forget_regions()


def _regions_between(low: int, high: int) -> list[tuple[int, int, str]]:
    """The regions between two addresses. Raises ValueError for a gap."""
    regions = _regions()
    found, place = [], bisect_right(regions, low, key=lambda region: region[0]) - 1
    reached = low
    while reached < high:
        if not 0 <= place < len(regions) or not regions[place][0] <= reached < regions[place][1]:
            raise ValueError(f"no memory at {reached:x}")
        found.append(regions[place])
        reached, place = regions[place][1], place + 1
    return found


def _are_known(low: int, high: int) -> bool:
    try:
        return bool(_regions_between(low, high))
    except ValueError:
        return False


def forget_regions() -> None:
    """Read the list of regions again: call it after user code ran, which may map a file where other memory was."""
    _regions.cache_clear()


@lru_cache(1)
def _regions() -> list[tuple[int, int, str]]:
    """The start, end and flags of each region of the memory of this process. Raises OSError where there is no list."""
    lines = (line.split(maxsplit=2)[:2] for line in Path("/proc/self/maps").read_text().splitlines())
    return [(*(int(bound, 16) for bound in bounds.split("-")), flags) for bounds, flags in lines]  # type: ignore[misc]
