"""Whether samples fade or grow from epoch to epoch: reading them changes the data that the dataset stores."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from dataguard.lab.core.leaves import array_of
from dataguard.training.batch_structure import arrays_of

SAMPLES = 8
"""How many samples are followed; all of them must move in one direction."""
EPOCHS = 4
"""The fewest epochs: that eight samples order so many random values alike has odds of 10^-10.7."""
FACTOR = 10.0
"""The least change of each sample; augmentation changes contrast by less, and not always the same way."""
_VALUES = 16
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
                known = self._rows[index].get(path)
                if spread is None or (known and known.seen_in == serial):
                    continue
                if known:
                    known.add(spread, serial)
                else:
                    self._rows[index][path] = _Spread(spread, spread, serial)

    @property
    def follows(self) -> bool:
        """Whether any row has a spread to follow."""
        return any(self._rows.values())

    def _has_room(self, index: Hashable) -> bool:
        if len(self._rows) < SAMPLES:
            self._rows[index] = {}
            return True
        return False

    @property
    def drift(self) -> Drift | None:
        """The first leaf that drifts."""
        paths = dict.fromkeys(path for row in self._rows.values() for path in row)
        for path in paths:
            rows = {index: row[path] for index, row in self._rows.items() if path in row}
            steady = all(row.steady and row.epochs >= EPOCHS and row.factor >= FACTOR for row in rows.values())
            if len(rows) == SAMPLES and steady and len({row.grows for row in rows.values()}) == 1:
                index, row = next(iter(rows.items()))
                return Drift(path, index, row.first, row.last, row.epochs)
        return None


def _spread(row: Any) -> float | None:
    """The standard deviation of the values of a row; None if they are no floats, few, or not finite."""
    if "float" not in str(row.dtype) or (isinstance(row, Tensor) and row.device.type != "cpu"):
        return None
    values = array_of(row)
    if values.size < _VALUES:
        return None
    with np.errstate(all="ignore"):
        spread = float(values.std(dtype=np.float64))
    return spread if math.isfinite(spread) else None
