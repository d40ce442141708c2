"""Samples of training followed from epoch to epoch: whether they are random, and whether they fade or grow.

`SampleRows` compares a few rows of batches between epochs. `ChangedSamples` finds samples that move in one direction:
reading them changes the data that the dataset stores (DG307).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from xxhash import xxh3_64_intdigest

from dataguard.lab.core.leaves import array_of
from dataguard.training.batch_values import Arrays, arrays_of

CHOSEN_BATCHES = 4
"""How many batches samples are chosen from."""
CHOSEN_ROWS = 2
"""How many samples are chosen from each."""

Digests = dict[str, tuple[tuple[int, ...], int]]
"""By path: the shape and the digest of a row."""


class SampleRows:
    """Samples of the first epoch, which are compared until one of them has changed."""

    def __init__(self) -> None:
        self.vary = False
        """Whether a sample had other values in a later epoch."""
        self._rows: dict[Hashable, Digests] = {}
        self._chosen_in: int | None = None
        self._batches = 0

    def see(self, serial: int, indices: Sequence[Hashable], batch: Any) -> bool:
        """Choose samples from the first batches, and compare them in later passes; true when one has changed."""
        if self.vary:
            return False
        if self._chosen_in in (None, serial):
            self._chosen_in = serial
            if self._batches < CHOSEN_BATCHES:
                self._batches += 1
                arrays = arrays_of(batch)
                self._rows |= {
                    index: _digests(arrays, row, len(indices)) for row, index in enumerate(indices[:CHOSEN_ROWS])
                }
            return False
        if self._rows.keys().isdisjoint(indices):
            return False
        arrays = arrays_of(batch)
        again = ((self._rows[index], row) for row, index in enumerate(indices) if index in self._rows)
        self.vary = any(_differ(before, _digests(arrays, row, len(indices))) for before, row in again)
        return self.vary


def _digests(arrays: Arrays, row: int, rows: int) -> Digests:
    """The digest of one row of each leaf that has a row per sample."""
    digests: Digests = {}
    for path, leaf in arrays:
        on_host = not isinstance(leaf, Tensor) or (leaf.device.type == "cpu" and not leaf.is_sparse)
        if on_host and leaf.ndim and len(leaf) == rows:
            values = np.ascontiguousarray(array_of(leaf[row]))
            if values.dtype.kind in "fiub":
                digests[path] = values.shape, xxh3_64_intdigest(values.data)
    return digests


def _differ(earlier: Digests, later: Digests) -> bool:
    """Whether a leaf of the same shape has other values; padding that depends on the neighbours is no difference."""
    both = ((before, later[path]) for path, before in earlier.items() if path in later)
    return any(before[0] == after[0] and before[1] != after[1] for before, after in both)


FOLLOWED_SAMPLES = 8
"""How many samples are followed; all of them must move in one direction."""
FEWEST_EPOCHS = 4
"""The fewest epochs: that eight samples order so many random values alike has odds of 10^-10.7."""
LEAST_FACTOR = 10.0
"""The least change of each sample; augmentation changes contrast by less, and not always the same way."""
_FEWEST_VALUES = 16
"""A leaf with fewer values in a row has no spread worth the name."""


@dataclass(slots=True)
class _Spread:
    """The standard deviation of one row in the first and in the last epoch, and how many epochs there were."""

    first: float
    last: float
    seen_in: int
    epochs: int = 1
    grows: bool | None = None
    steady: bool = True

    def add(self, spread: float, serial: int) -> None:
        """The spread in another epoch."""
        grows = spread > self.last
        self.steady &= spread != self.last and self.grows in (None, grows)
        self.last, self.seen_in, self.grows, self.epochs = spread, serial, grows, self.epochs + 1

    @property
    def factor(self) -> float:
        """How much larger the larger one is."""
        small, large = sorted((self.first, self.last))
        return large / small if small else math.inf


@dataclass(frozen=True, slots=True)
class Drift:
    """A leaf whose spread moved steadily in every sample: the first sample's spread, then and now."""

    path: str
    index: Hashable
    first: float
    last: float
    epochs: int


class ChangedSamples:
    """The spread of some samples, epoch by epoch."""

    def __init__(self) -> None:
        self._rows: dict[Hashable, dict[str, _Spread]] = {}

    def see(self, serial: int, indices: Sequence[Hashable], batch: Any) -> None:
        """Follow the first samples; each counts once in a pass."""
        rows = {index: row for row, index in enumerate(indices) if index in self._rows or self._has_room(index)}
        if not rows:
            return
        arrays = [(path, leaf) for path, leaf in arrays_of(batch) if leaf.ndim > 1 and len(leaf) == len(indices)]
        for index, row in rows.items():
            for path, leaf in arrays:
                spread = _spread(leaf[row])
                range_of_row = self._rows[index].get(path)
                if spread is None or (range_of_row and range_of_row.seen_in == serial):
                    continue
                if range_of_row:
                    range_of_row.add(spread, serial)
                else:
                    self._rows[index][path] = _Spread(spread, spread, serial)

    @property
    def follows(self) -> bool:
        """Whether any row has a spread to follow."""
        return any(self._rows.values())

    def _has_room(self, index: Hashable) -> bool:
        if len(self._rows) < FOLLOWED_SAMPLES:
            self._rows[index] = {}
            return True
        return False

    @property
    def drift(self) -> Drift | None:
        """The first leaf that drifts."""
        paths = dict.fromkeys(path for row in self._rows.values() for path in row)
        for path in paths:
            rows = {index: row[path] for index, row in self._rows.items() if path in row}
            steady = all(
                row.steady and row.epochs >= FEWEST_EPOCHS and row.factor >= LEAST_FACTOR for row in rows.values()
            )
            if len(rows) == FOLLOWED_SAMPLES and steady and len({row.grows for row in rows.values()}) == 1:
                index, row = next(iter(rows.items()))
                return Drift(path, index, row.first, row.last, row.epochs)
        return None


def _spread(row: Any) -> float | None:
    """The standard deviation of the values of a row; None if they are no floats, few, or not finite."""
    if "float" not in str(row.dtype) or (isinstance(row, Tensor) and row.device.type != "cpu"):
        return None
    values = array_of(row)
    if values.size < _FEWEST_VALUES:
        return None
    with np.errstate(all="ignore"):
        spread = float(values.std(dtype=np.float64))
    return spread if math.isfinite(spread) else None
