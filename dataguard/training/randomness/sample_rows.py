"""Whether samples are random: a few of them are compared between epochs, row by row of their batches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from torch import Tensor
from xxhash import xxh3_64_intdigest

from dataguard.lab.core.leaves import array_of
from dataguard.training.batch_structure import Arrays, arrays_of

BATCHES = 4
"""How many batches samples are chosen from."""
ROWS = 2
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
            if self._batches < BATCHES:
                self._batches += 1
                arrays = arrays_of(batch)
                self._rows |= {index: _digests(arrays, row, len(indices)) for row, index in enumerate(indices[:ROWS])}
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
