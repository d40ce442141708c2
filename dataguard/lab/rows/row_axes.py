"""Along which axis of an array its rows are: that along which two samples come from different places.

A window of a recording, `x[:, t : t + 10]`, depends on all rows of the first axis, in every sample alike; along the
second one, each of its elements comes from another place than in a distant sample. Half of the places along an axis are
changed, and then the other half, bit by bit of their number: an element that changes with the one half in the one
sample, and with the other half in the other sample, comes from different places. Distant samples differ in the first
bit already, so that a few reads are enough for an array whose rows are along its first axis.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from dataguard.lab.core.records import Index
from dataguard.lab.process.write_protection import forbid_writes
from dataguard.lab.rows.row_changes import Store
from dataguard.lab.rows.rows_changed import BLOCKS, Values, differs, is_large, values_of
from dataguard.lab.rows.stores import FEWEST_ROWS, Axes, held_values, store_of

MOST_PARTS = 8
"""Arrays of a list that are looked at until one of them is read."""
MOST_SAMPLES = 6
"""Samples among which two are searched that depend on one array, such as one of several recordings."""
MOVED = 0.5
"""The share of elements that come from different places, above which an axis is that of the rows. Elements that change
with all places, such as a mean over all rows, do not count."""

Patterns: TypeAlias = Mapping[str, np.ndarray]
"""For each element of each leaf, with which sets of places it changes: one bit for each set."""


def find_axes(read: Callable[[Index], Any], dataset: Any, indices: Sequence[Index]) -> Axes:
    """The axis of the rows of each array that a dataset holds, by its path, where that is not the first one.

    `read` returns a sample for an index, always in the same random state.
    """
    finder = _AxisFinder(read, indices)
    found = {path: finder.axis_of(_arrays(value)) for path, value, _ in held_values(dataset)}
    return {path: axis for path, axis in found.items() if axis}


def _arrays(value: Any) -> list[Any]:
    """The array itself, or arrays of equal shape in a list or dict; none of anything else."""
    parts = list(value.values()) if type(value) is dict else value if type(value) in (list, tuple) else [value]
    arrays = [part for part in parts[:MOST_PARTS] if isinstance(part, np.ndarray | torch.Tensor)]
    alike = len({(array.dtype, array.shape) for array in arrays}) == 1
    return arrays if alike and len(arrays) == len(parts[:MOST_PARTS]) else []


def _axes(array: np.ndarray | torch.Tensor) -> list[int]:
    """The axes that may be that of the rows."""
    return [axis for axis, count in enumerate(array.shape) if count >= FEWEST_ROWS]


def _families(store: Store) -> Iterator[list[np.ndarray]]:
    """Sets of places, of which no two have one in common: those with a bit and those without; blocks of a large array.

    To change half of a large array takes as much memory as it has.
    """
    places = np.arange(store.count)
    if is_large(store, store.count):
        yield np.array_split(places, BLOCKS)
        return
    for bit in reversed(range(max(store.count - 1, 1).bit_length())):
        is_set = (places >> bit & 1).astype(bool)
        yield [places[is_set], places[~is_set]]


class _AxisFinder:
    """Finds the axes of arrays by some of the samples with these indices."""

    def __init__(self, read: Callable[[Index], Any], indices: Sequence[Index]) -> None:
        numbers: list[Index] = [*sorted(index for index in set(indices) if isinstance(index, int))] or list(indices)
        spread = np.linspace(0, len(numbers) - 1, min(len(numbers), MOST_SAMPLES)).round().astype(int)
        self._read = read
        self._indices = [numbers[place] for place in spread]
        self._before: dict[Index, Values] = {}

    def axis_of(self, arrays: Sequence[np.ndarray | torch.Tensor]) -> int:
        """The axis of the rows of arrays of equal shape; 0 if that is not known."""
        if not arrays or _axes(arrays[0]) in ([], [0]):
            return 0
        return next((axis for axis in map(self._axis_of, arrays) if axis is not None), 0)

    def _axis_of(self, array: np.ndarray | torch.Tensor) -> int | None:
        """The axis of the rows of an array; None if no sample depends on it."""
        samples: Sequence[Index] = self._indices
        for axis in _axes(array):
            store = store_of("", array, axis)
            if store is None:
                continue
            apart: dict[str, np.ndarray] = {}
            known: dict[str, np.ndarray] = {}
            for family in _families(store):
                patterns = self._patterns(store, family, samples)
                if samples is self._indices:
                    samples = [index for index in samples if any(one.any() for one in patterns[index].values())]
                    samples = samples[:: max(len(samples) - 1, 1)]  # the first and the last one
                    if not samples:
                        return None
                if len(samples) == 1:
                    if self._is_part(store, samples[0]):
                        return axis
                    break
                one, other = (patterns[index] for index in samples)
                for path in one.keys() & other.keys():
                    some, none_shared = _compared(one[path], other[path], (1 << len(family)) - 1)
                    known[path] = known.get(path, False) | some
                    apart[path] = apart.get(path, False) | some & none_shared
                if _count(apart) > MOVED * _count(known):
                    return axis
        return 0

    def _is_part(self, store: Store, index: Index) -> bool:
        """Whether a sample comes from a part of the places: not from each quarter of them."""
        patterns = self._patterns(store, np.array_split(np.arange(store.count), 4), [index])[index]
        return bool(patterns) and int(np.bitwise_or.reduce([_joined(one) for one in patterns.values()])) not in (0, 15)

    def _patterns(
        self, store: Store, family: Sequence[np.ndarray], samples: Sequence[Index]
    ) -> Mapping[Index, Patterns]:
        """With which sets of places the elements of samples change; {} for those that cannot be read then."""
        for index in samples:
            if index not in self._before:
                self._before[index] = self._values(index) or {}
        found = {
            index: {path: np.zeros(value.shape, np.int64) for path, value in self._before[index].items()}
            for index in samples
        }
        forbid_writes()
        for number, places in enumerate(family):
            with contextlib.suppress(Exception), store.changed(places):  # of what refuses it, nothing is known
                for index in samples:
                    if (after := self._values(index)) is None:
                        found[index] = {}
                    for path, pattern in found[index].items():
                        pattern[differs(self._before[index][path], (after or {}).get(path))] |= 1 << number
        return found

    def _values(self, index: Index) -> Values | None:
        try:
            return values_of(self._read(index))
        except Exception:  # noqa: BLE001 - what a row holds may be no value, but say where others begin
            return None


def _compared(one: np.ndarray, other: np.ndarray, every: int) -> tuple[np.ndarray, np.ndarray]:
    """Which elements of two samples change with some sets of places and not with others, and with none that both share.

    Leaves of unlike shapes are compared as a whole.
    """
    if one.shape != other.shape:
        one, other = _joined(one), _joined(other)
    some = np.logical_and.reduce([one > 0, one < every, other > 0, other < every])
    return some, (one & other) == 0


def _joined(pattern: np.ndarray) -> np.ndarray:
    return np.asarray(np.bitwise_or.reduce(pattern, None))


def _count(elements: Mapping[str, np.ndarray]) -> int:
    return sum(int(np.sum(one)) for one in elements.values())
