"""The columns of tables in memory, of the rows that a loader requests: what a scaler made of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset

from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.loader_facts import asked_columns, length_of
from dataguard.lab.core.records import Index
from dataguard.lab.reading.epoch_trace import EpochTrace
from dataguard.lab.rows.stores import is_data_frame

MOST_COLUMNS = 4096
"""Most columns of a table: wider arrays are images or signals, which no scaler fits column by column."""
MOST_VALUES = 1 << 24
"""Most values of a table: a limit of time and memory, of 128 MB as float64."""
MOST_STARTS = 64
"""Most rows at which a window may begin, by its first row: a limit of time where rows repeat."""
FLOAT_TOLERANCE = 1e-5
"""Relative differences between a row in memory and in a sample that are those of another float type: float32 rounds by
6e-8, and a few operations add to that."""


@dataclass(frozen=True, slots=True)
class Column:
    """Statistics of one column, in float64. `lows` and `highs` count how often its least and greatest value occur."""

    count: int
    mean: float
    variance: float
    low: float
    high: float
    lows: int
    highs: int


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of an array of floats, of which each sample is a row, or a window of rows.

    `later` are those without the first window, which splits of a series often share with the split before. `path` is
    that of the leaf of a sample which is a row.
    """

    name: str
    columns: tuple[Column, ...]
    later: tuple[Column, ...] = ()
    path: str = ""


def find_tables(dataset: Any, indices: Sequence[int], sample: Any, index: Index) -> tuple[Table, ...]:
    """The tables of a dataset and of those that it wraps whose row at an index is a leaf of the sample there."""
    arrays = {path: array_of(leaf) for path, leaf in iter_leaves(sample) if isinstance(leaf, torch.Tensor | np.ndarray)}
    leaves = {path: leaf.astype(np.float64) for path, leaf in arrays.items() if leaf.dtype.kind == "f"}
    found = asked_columns(dataset, _arrays, indices, MOST_VALUES) if isinstance(index, int) and leaves else {}
    tables = [
        Table(name, columns_of_rows(column[np.asarray(indices)]), path=path)
        for name, (_, column) in found.items()
        for path in [path for path, leaf in leaves.items() if _is_row(column[index], leaf.reshape(-1))][:1]
    ]
    return (*tables, *_series(dataset, [*leaves.values()]))


def _series(dataset: Any, leaves: Sequence[np.ndarray]) -> Iterator[Table]:
    """The arrays of a dataset, with a row for each step, of which a leaf is a window, perhaps transposed."""
    for name, value in [] if isinstance(dataset, Subset) else list(getattr(dataset, "__dict__", {}).items()):
        rows = _floats(value)
        if rows is None or rows.size > MOST_VALUES or rows.shape[1] > MOST_COLUMNS:
            continue
        windows = (each for leaf in leaves if leaf.ndim == 2 for each in (leaf, leaf.T))
        window = next((each for each in windows if _holds_window(rows, each)), None)
        if window is not None:
            yield Table(name, columns_of_rows(rows), columns_of_rows(rows[len(window) :]))


def _holds_window(rows: np.ndarray, window: np.ndarray) -> bool:
    """Whether some of these rows, but not all, are those of the window."""
    if window.shape[1] != rows.shape[1] or not 1 < len(window) < len(rows):
        return False
    starts = np.arange(len(rows) - len(window) + 1)
    for column, value in enumerate(window[0]):
        starts = starts[np.isclose(rows[starts, column], value, FLOAT_TOLERANCE, FLOAT_TOLERANCE)]
    return any(_is_row(rows[start : start + len(window)], window) for start in starts[:MOST_STARTS])


def recorded_tables(epoch: EpochTrace) -> tuple[Table, ...]:
    """The same of what was read, if all samples were."""
    rows: dict[str, dict[Any, tuple[float, ...]]] = {}
    for one in epoch.value_summaries if epoch.whole else ():
        for each in one.numbers if one.position is not None else ():
            if each.is_float and len(each.shape) == 1 and len(each.values) > 1:
                rows.setdefault(each.path, {})[one.index] = each.values
    even = {
        path: of for path, of in rows.items() if len(of) == len(epoch.indices) and len({*map(len, of.values())}) == 1
    }
    return tuple(table_of_leaf(path, np.array([*of.values()])) for path, of in even.items())


def table_of_leaf(path: str, rows: np.ndarray) -> Table:
    """The table of a leaf that is a row in every sample."""
    return Table(f"sample{path}", columns_of_rows(rows), path=path)


def hashes_of_records(table: Any) -> np.ndarray | None:
    """A hash for each row of a table of pandas or polars, without its label, as uint64; None of anything else.

    Equal rows of two tables have equal hashes. Rows that hold lists or arrays have none.
    """
    if not is_data_frame(table):
        return None
    try:
        if hasattr(table, "hash_rows"):  # polars
            return np.asarray(table.hash_rows(201), np.uint64)
        return np.asarray(sys.modules["pandas"].util.hash_pandas_object(table, index=False), np.uint64)
    except (TypeError, ValueError):
        return None


def columns_of_rows(rows: np.ndarray) -> tuple[Column, ...]:
    """The statistics of each column of a table with this shape: (rows, columns)."""
    if not np.isfinite(rows).all():
        return ()
    means, variances = rows.mean(0, dtype=np.float64), rows.var(0, dtype=np.float64)
    lows, highs = rows.min(0), rows.max(0)
    ends = (lows, highs, (rows == lows).sum(0), (rows == highs).sum(0))
    return tuple(
        Column(len(rows), *each) for each in zip(*(a.tolist() for a in (means, variances, *ends)), strict=True)
    )


def _arrays(dataset: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of floats of one dataset with a row for each index."""
    length = length_of(dataset) or 0
    for name, value in () if isinstance(dataset, Subset) else list(getattr(dataset, "__dict__", {}).items()):
        parts = value if isinstance(value, tuple) and len(value) != length else (value,)
        for position, part in enumerate(parts):
            array = _floats(part)
            if (
                array is not None
                and len(array) == length
                and array.shape[1] <= MOST_COLUMNS
                and array.size <= MOST_VALUES
            ):
                yield f"{name}[{position}]" if len(parts) > 1 else name, array


def _floats(value: Any) -> np.ndarray | None:
    """A table as an array; None of anything else."""
    if hasattr(value, "iloc") and hasattr(value, "select_dtypes"):  # pandas, if the user imported it
        value = value.select_dtypes("floating").to_numpy()
    if isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.layout is torch.strided:
        value = array_of(value)
    wanted = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim == 2 and value.shape[1] > 0
    return value if wanted else None


def _is_row(row: np.ndarray, leaf: np.ndarray) -> bool:
    return row.shape == leaf.shape and bool(np.allclose(row, leaf, rtol=FLOAT_TOLERANCE, atol=FLOAT_TOLERANCE))
