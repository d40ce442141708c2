"""Where tensors and arrays lie in memory, and which of them overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import iter_leaves

AddressRanges = tuple[tuple[int, int], ...]
"""Ranges of memory addresses, each with start and end."""


def address_ranges(leaf: Any) -> AddressRanges:
    """The memory of a tensor or array; of another mutable object its `id`."""
    if isinstance(leaf, torch.Tensor):
        if leaf.layout is not torch.strided or not leaf.numel():
            return ()
        steps = [stride * leaf.element_size() for stride in leaf.stride()]
        return _array_range(leaf.data_ptr(), leaf.shape, steps, leaf.element_size())
    if isinstance(leaf, np.ndarray):
        return _array_range(leaf.ctypes.data, leaf.shape, leaf.strides, leaf.itemsize) if leaf.size else ()
    mutable = not isinstance(leaf, str | bytes | int | float | complex | bool | type(None) | np.generic)
    return ((id(leaf), id(leaf) + 1),) if mutable else ()


def _array_range(start: int, shape: Sequence[int], steps: Sequence[int], size: int) -> AddressRanges:
    """The address range of an array; steps are in bytes, and may be negative."""
    reaches = [(count - 1) * step for count, step in zip(shape, steps, strict=True)]
    return ((start + sum(min(reach, 0) for reach in reaches), start + sum(max(reach, 0) for reach in reaches) + size),)


def overlap(one: AddressRanges, two: AddressRanges) -> bool:
    """Whether any two of these ranges overlap."""
    return any(start < other_end and other < end for start, end in one for other, other_end in two)


def ranges_at(value: Any, path: str) -> AddressRanges:
    """The address ranges of the leaf at a path of a sample or batch, and of the container that leads to it."""
    containers = [] if value is None else [(id(value), id(value) + 1)]
    return tuple(
        place for step, leaf in iter_leaves(value) if step == path for place in (*containers, *address_ranges(leaf))
    )


def overlapping(leaves: Sequence[Any]) -> list[int]:
    """The numbers of the leaves that share memory with another one."""
    ranges = sorted((*place, number) for number, leaf in enumerate(leaves) for place in address_ranges(leaf))
    found: set[int] = set()
    reach, last = 0, -1
    for start, end, number in ranges:
        if start < reach and number != last:
            found |= {number, last}
        if end > reach:
            reach, last = end, number
    return sorted(found)
