"""Columns that hold the values of other columns from later or earlier rows, as those made with `shift(-1)` do.

Rows say nothing of it: leaves come from the same ones. The values of their columns are compared at each small shift.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from dataguard.core.leaf_paths import key_of
from dataguard.lab.rows.origins import SampleRows
from dataguard.lab.rows.row_changes import Store

MOST_SHIFT = 8
"""Rows by which values may be late."""
MOST_ROWS = 20_000
"""Rows that are compared: a limit of time."""
FEWEST_CHANGES = 20
"""Rows in which a column differs from the shifted one: only these say that the shifted values are meant."""
EQUAL_SHARE = 0.9
"""The share of rows in which a column has the shifted values: all but the last ones of episodes."""
_NUMBERS = "biuf"


def find_shifts(
    samples: Sequence[SampleRows], stores: Mapping[str, Store], aligned: Sequence[str]
) -> Mapping[tuple[str, str], int]:
    """By how many rows the values that a leaf comes from are those of another leaf: by the paths of both.

    `aligned` are the keys or paths of leaves that are compared, `stores` the rows in memory by their paths.
    """
    columns = {leaf.path: (leaf.source, leaf.columns) for sample in samples for leaf in sample.leaves}
    paths = [path for name in aligned for path in columns if name in (path, key_of(path))]
    found: dict[tuple[str, str], int] = {}
    for first, other in combinations(dict.fromkeys(paths), 2):
        one, two = (list(_values(stores[source], own)) for source, own in (columns[first], columns[other]))
        if shift := _shift(one, two):
            found |= {(first, other): shift, (other, first): -shift}
    return found


def _values(store: Store, columns: Sequence[int]) -> Iterator[np.ndarray]:
    """The values of some columns; of all rows, if they have no columns and are one value each."""
    for column in columns if store.columns else (0,):
        values = store.column(column)
        if values is not None:
            yield values[:MOST_ROWS]


def _shift(first: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> int | None:
    """By how many rows one list of columns holds the values of another one later, column by column."""
    if not first or len(first) != len(other) or len({len(column) for column in (*first, *other)}) != 1:
        return None
    for rows in range(1, MOST_SHIFT + 1):
        if all(_is_later(one, two, rows) for one, two in zip(first, other, strict=True)):
            return rows
        if all(_is_later(two, one, rows) for one, two in zip(first, other, strict=True)):
            return -rows
    return None


def _is_later(column: np.ndarray, other: np.ndarray, rows: int) -> bool:
    """Whether a column holds the values that another one has so many rows later.

    Rows in which these are the values of the same row, too, prove nothing, and neither do numbers that only count.
    """
    if len(column) <= rows or (column.dtype.kind in _NUMBERS) != (other.dtype.kind in _NUMBERS):
        return False
    now, later, held = column[:-rows], column[rows:], other[:-rows]
    moved, equal = ~_equal(now, later), _equal(held, later)
    if moved.sum() < FEWEST_CHANGES or equal.mean() < EQUAL_SHARE or equal[moved].mean() < EQUAL_SHARE:
        return False
    return column.dtype.kind not in _NUMBERS or not _counts(column)


def _counts(column: np.ndarray) -> bool:
    """Whether numbers advance by one step in most rows, as an index does: then a constant looks like a shift."""
    steps = np.diff(column.astype(float))
    return bool(np.isclose(steps, np.median(steps)).mean() > EQUAL_SHARE)


def _equal(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray((one == other) | ((one != one) & (other != other)))
