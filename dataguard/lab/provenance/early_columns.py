"""Columns of inputs that change with later rows of a file than their target, as smoothing over a centred window makes.

Some successive rows of what the factory loads are reversed before it runs. What is fitted on all rows, as a scaler,
stays as it is, and samples change whose rows are among them. In the order of time, the first sample whose input does so
comes after the first whose target does, or is the same; a column that changes in an earlier one looks ahead. Where all
columns do, the target is amid its window, as a class that is given to the moment in the middle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.core.incident import LoaderFailed
from dataguard.lab.core.records import Index
from dataguard.lab.process.write_protection import WriteRefused, forbid_writes
from dataguard.lab.provenance.reads_seen import ReadLog
from dataguard.lab.provenance.refitting import Loaded, samples_of, shape_of, with_columns
from dataguard.lab.rows.origins import EarlyColumn, Read
from dataguard.lab.rows.rows_changed import Values
from dataguard.process.process_tree import undisturbed_seconds
from dataguard.targets.variants import Loader

REVERSED_ROWS = 16
"""How many rows are reversed: more than a smoothing looks ahead, and few beside those of the samples."""
PLACES = (0.5, 0.3, 0.7)
"""Where in the file they are, as shares of it, until they are those of some targets."""
FEWEST_BEFORE = 8
"""Samples before the first whose target changes, in which a column that looks ahead may change."""
TOLERANCE = 1e-3
"""By how much of its deviation a value must change: sums in another order differ by far less."""


def find_early_column(
    build: Callable[[], Loader], folder: Path, indices: Sequence[Index], target: str, seconds: float
) -> EarlyColumn | None:
    """The first column of an input that changes before its target; None if there is none, or it cannot be seen.

    The factory is called once and for each of the `PLACES`, which takes so many `seconds` at most. The samples are
    those of consecutive indices.
    """
    loaded = Loaded(ReadLog(), lambda _: (loader := build(), loader))
    started = undisturbed_seconds()
    loader, _ = loaded.built()
    if not loaded.tables:
        return None
    base = samples_of(loader, folder, indices)
    if (undisturbed_seconds() - started) * (1 + len(PLACES)) > seconds:
        return None
    source = next(iter(loaded.tables.values())).source
    forbid_writes()
    for share in PLACES:
        try:
            after = samples_of(loaded.built(partial(_reversed, share))[0], folder, indices)
        except (LoaderFailed, WriteRefused):
            return None
        targets = _Leaf.of(base, after, target)
        first = None if targets is None else targets.first
        if first is None or first < FEWEST_BEFORE:
            continue
        for path in base[indices[0]]:
            leaf = None if path == target else _Leaf.of(base, after, path)
            if leaf is not None and (found := leaf.early(first)) is not None:
                column, sample = found
                return EarlyColumn(source, path, column, indices[sample], indices[first])
        return None
    return None


def _reversed(share: float, number: int, read: Read, value: Any) -> Any:
    del number, read
    rows, columns = shape_of(value)
    start = int(share * rows)
    if not columns or rows < 4 * REVERSED_ROWS:
        return value

    def turned(column: np.ndarray, _: int) -> np.ndarray:
        block = slice(start, start + REVERSED_ROWS)
        column[block] = column[block][::-1].copy()
        return column

    return with_columns(value, turned)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """The values of a leaf by sample, and which of them changed."""

    values: np.ndarray
    changed: np.ndarray

    @classmethod
    def of(cls, base: Mapping[Index, Values], after: Mapping[Index, Values], path: str) -> _Leaf | None:
        """None of leaves that are no floats, or of several shapes."""
        pairs = [(leaves.get(path), after[index].get(path)) for index, leaves in base.items()]
        arrays = [value for pair in pairs for value in pair if value is not None and value.dtype.kind == "f"]
        if len(arrays) < 2 * len(pairs) or len({array.shape for array in arrays}) > 1:
            return None
        old, new = (np.stack(arrays[side::2]).astype(np.float64) for side in (0, 1))
        spread = max(float(np.nanstd(old)), 1e-12)
        return cls(old, ~(np.abs(new - old) <= TOLERANCE * spread))

    @property
    def first(self) -> int | None:
        """The first sample in which the first row changes, if this is not in most of them."""
        shape = len(self.changed), -1
        rows = np.asarray(self.changed.any(-1)) if self.changed.ndim > 2 else self.changed.reshape(shape)
        at = np.flatnonzero(rows[:, 0])
        return int(at[0]) if 0 < 2 * len(at) <= len(rows) else None

    def early(self, first: int) -> tuple[int, int] | None:
        """A column that changes before this sample, where most others do not, and the first sample in which it does."""
        if self.changed.ndim not in (2, 3) or self.changed.shape[-1] < 2:
            return None
        windows = self.changed.ndim == 3
        columns = np.asarray(self.changed.any(1)) if windows else self.changed
        starts = [int(np.flatnonzero(column)[0]) if column.any() else len(column) for column in columns.T]
        early = [number for number, start in enumerate(starts) if start < first]
        if 2 * len(early) > len(starts) or any(starts[number] <= first - REVERSED_ROWS for number in early):
            return None
        last = self.values[:, -1] if windows else self.values
        for number in early:
            at_end = not windows or bool(self.changed[starts[number], -1, number])
            if at_end and not any(_is_shifted(last, number, starts[number], *other) for other in enumerate(starts)):
                return number, starts[number]
        return None


def _is_shifted(values: np.ndarray, column: int, start: int, other: int, other_start: int) -> bool:
    """Whether a column holds the later values of another one, on purpose: in a window, or as what is planned."""
    shift = other_start - start
    return 0 < shift < len(values) and bool(np.allclose(values[:-shift, column], values[shift:, other], equal_nan=True))
