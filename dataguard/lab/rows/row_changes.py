"""How rows are changed for a moment where they are stored, because nobody can follow a copy.

Numbers are moved within the range of their column, so that they pass where the user's code expects a class, a byte or
a positive number; anything else is exchanged for another row. Which value a row gets depends on nothing but its own and
the values of all rows: it is the same in each set of rows that changes. A row without a different value stays as it is.
"""

from __future__ import annotations

import contextlib
import functools
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.process.originals import os

MOST_COLUMNS = 4096
"""Columns of a table that have a range of their own; beyond, as in a list of images, all values share one."""
NARROW = 16
"""Columns whose range is found one by one, which takes numpy a tenth of the time for a few."""
_PARTS = 0.25 + 0.5 * (np.arange(1024) * 0.6180339887498949 % 1)
"""By which fraction of its range a value is moved, for each row: a quarter to three quarters, far enough to be seen
after rounding. If neighbouring rows moved alike, their difference would stay the same."""
LARGE_SHARE = 8
"""An eighth of the rows is a large part: a copy of all moved values takes as much memory as the array itself."""
_WIDEST = 1 << 62
"""Integers of a wider range, such as hashes, are exchanged: they could not be moved without overflow."""


class Rows(Protocol):
    """Rows that can be changed."""

    count: int
    bytes: int
    columns: tuple[str, ...]

    def changed(self, rows: np.ndarray, columns: Sequence[int] | None = None) -> AbstractContextManager[None]:
        """Change the rows with these numbers (sorted) meanwhile, or only some columns of them."""


class Changeable(Rows, Protocol):
    """Rows of one source. `starts` are the first rows of its parts, if it is a list of arrays."""

    path: str
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A row: its content, and the address where it is. The content of a number or a name of a file is empty.

    Such an entry of a list is not where a sample comes from, but says where that is.
    """

    content: bytes
    address: int


class Store(Changeable, Protocol):
    """Rows that a dataset holds."""

    @property
    def numbers(self) -> np.ndarray | None:
        """All floats, with this shape: (rows, floats); None if there are none, or unlike many in each row."""

    def entry(self, row: int) -> Entry:
        """One row."""

    def column(self, number: int) -> np.ndarray | None:
        """The values of a column, or of all rows if each is one value: (rows,); None of anything else."""


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the largest value of an array, or of each of its columns."""

    low: np.ndarray
    high: np.ndarray

    @property
    def is_wide(self) -> bool:
        """Whether moving integers within it could overflow."""
        if self.low.dtype.kind not in "iu":
            return False
        low, high = float(self.low.min()), float(self.high.max())
        return high - low > _WIDEST or max(abs(low), abs(high)) > _WIDEST

    def moved(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Other values of the same range for rows with these numbers.

        None is the value before, unless the range is a single integer.
        """
        if values.dtype.kind == "b":
            return ~values
        with np.errstate(all="ignore"):
            return self._moved(values, rows % len(_PARTS) if values.ndim else rows[0] % len(_PARTS))

    def _moved(self, values: np.ndarray, places: Any) -> np.ndarray:
        width = self.high - self.low
        steps = _PARTS.reshape(-1, *[1] * width.ndim) * width

        def by_row(kinds: np.ndarray) -> np.ndarray:
            found = np.asarray(kinds[places])
            return found.reshape((*found.shape, *[1] * (values.ndim - found.ndim)))

        if values.dtype.kind in "iu":
            bound = max(abs(int(self.low.min())), abs(int(self.high.max())))
            kind = np.int16 if values.dtype.itemsize == 1 else np.int32 if bound < 1 << 29 else np.int64
            # The sum is of a type that has room for it.
            moved = np.asarray(values + by_row(np.maximum(1, steps).astype(kind)))
            np.subtract(moved, (width + 1).astype(kind), out=moved, where=moved > self.high.astype(kind))
            return np.asarray(moved.astype(values.dtype))
        low, high = self.low.astype(values.dtype), self.high.astype(values.dtype)
        moved = np.asarray(values + by_row(steps.astype(values.dtype)))
        np.subtract(moved, high - low, out=moved, where=moved > high)
        same = (moved == values) | ~np.isfinite(values)  # of a range that is narrower than the step of its numbers
        if same.any():
            moved = np.where(same, np.where(values == low, np.where(high > low, high, low + 1), low), moved)
        return np.asarray(moved)


def range_of(array: np.ndarray, *, by_column: bool = False) -> Range:
    """The range of an array, without what is not finite."""
    if by_column and array.shape[1] <= NARROW and array.dtype.kind != "b":
        ranges = [range_of(column) for column in array.T]
        return Range(np.array([one.low for one in ranges]), np.array([one.high for one in ranges]))
    axis = 0 if by_column else None
    if array.dtype.kind == "b":
        return Range(np.array(False), np.array(True))
    if array.dtype.kind in "iu":
        kind = np.uint64 if array.dtype == np.uint64 else np.int64
        return Range(array.min(axis).astype(kind), array.max(axis).astype(kind))
    low, high = np.asarray(array.min(axis)), np.asarray(array.max(axis))
    if np.isfinite(low).all() and np.isfinite(high).all():
        return Range(low, high)
    finite = np.isfinite(array)
    low = np.where(finite, array, np.inf).min(axis)
    high = np.where(finite, array, -np.inf).max(axis)
    known = low <= high
    return Range(np.where(known, low, 0), np.where(known, high, 0))


def rows_in(arrays: Sequence[np.ndarray]) -> Rows | None:
    """The rows of one array, or of several whose rows are numbered one after the other; None for other types."""
    kind = arrays[0].dtype.kind
    if kind in "biuf":
        numbers = Numbers(arrays)
        if not numbers.range.is_wide:
            return numbers
    return Exchanged(arrays) if kind in "biufcmMSUVO" else None


class _Numbered(ABC):
    """Arrays whose rows are numbered one after the other."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arrays = arrays
        self.starts = (0, *accumulate(map(len, arrays)))
        self.count = self.starts[-1]
        self.bytes = sum(array.nbytes for array in arrays)
        self.columns: tuple[str, ...] = ()

    @abstractmethod
    def others(self, number: int, own: Any, values: np.ndarray) -> np.ndarray:
        """Other values for rows of one array."""

    def entry(self, row: int) -> Entry:
        """One row."""
        part = bisect_right(self.starts, row) - 1
        values = self.arrays[part][row - self.starts[part] :][:1]
        return Entry(values.tobytes(), values.__array_interface__["data"][0])

    @contextlib.contextmanager
    def changed(self, rows: np.ndarray, columns: Sequence[int] | None = None) -> Iterator[None]:
        """Change these rows, or some columns of them."""
        before: list[tuple[np.ndarray, Any, np.ndarray]] = []
        try:
            self._change(rows, columns, before)
            yield
        finally:
            for array, own, values in before:
                array[own] = values

    def _change(self, rows: np.ndarray, columns: Sequence[int] | None, before: list[Any]) -> None:
        bounds = np.searchsorted(rows, self.starts).tolist()
        first = int(np.searchsorted(self.starts, rows[0], "right")) - 1 if len(rows) else len(self.arrays)
        for number in range(first, len(self.arrays)):
            low, high = bounds[number], bounds[number + 1]
            if low == len(rows):
                return
            if low == high:
                continue
            array, own = self.arrays[number], _as_slice(rows[low:high] - self.starts[number])
            values = array[own].copy()
            others = self.others(number, own, values)
            if columns is not None and self.columns:
                others = np.where(np.isin(np.arange(values.shape[1]), columns), others, values)
            before.append((array, own, values))
            array[own] = others


def _as_slice(rows: np.ndarray) -> Any:
    """Neighbouring rows as a slice, which is copied three times as fast."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows


class Numbers(_Numbered):
    """Numbers, moved within their range: that of all arrays, and of each column of a table."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        super().__init__(arrays)
        if arrays[0].ndim == 2 and arrays[0].shape[1] <= MOST_COLUMNS:
            self.columns = tuple(map(str, range(arrays[0].shape[1])))
        ranges = [range_of(array, by_column=bool(self.columns)) for array in arrays if len(array)]
        low, high = (np.min([one.low for one in ranges], axis=0), np.max([one.high for one in ranges], axis=0))
        self.range = Range(np.asarray(low), np.asarray(high))
        self._moved: dict[int, np.ndarray] = {}

    def others(self, number: int, own: Any, values: np.ndarray) -> np.ndarray:
        """Values moved within the range; of large parts they are kept, as these are changed again and again."""
        array = self.arrays[number]
        if len(values) * LARGE_SHARE > len(array):
            if number not in self._moved:
                self._moved[number] = self.range.moved(array, np.arange(len(array)) + self.starts[number])
            return np.array(self._moved[number][own])
        rows = np.arange(own.start, own.stop) if isinstance(own, slice) else own
        return self.range.moved(values, rows + self.starts[number])


class Exchanged(_Numbered):
    """Anything of a fixed size, exchanged for another row of its array."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        super().__init__(arrays)
        self._anchors = [(0, _first_other(array)) for array in arrays]

    def others(self, number: int, own: Any, values: np.ndarray) -> np.ndarray:
        """The values of rows that differ: of some fixed distance, or one of two rows that differ."""
        array = self.arrays[number]
        rows = np.arange(len(array))[own]
        return np.asarray(
            array[
                _exchanged(
                    rows, len(array), self._anchors[number], lambda one, other: _row_differs(array[one], array[other])
                )
            ]
        )


def _exchanged(
    rows: np.ndarray,
    count: int,
    anchors: Sequence[int],
    differ: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """The different row of `count` that each of these is exchanged for; itself if those that are tried are equal."""
    others, alike = rows.copy(), np.arange(len(rows))
    candidates = [(rows + step) % count for step in _steps(rows, count)]
    for candidate in (*candidates, *(np.full(len(rows), anchor) for anchor in anchors)):
        if not len(alike):
            break
        differs = differ(rows[alike], candidate[alike])
        others[alike[differs]] = candidate[alike[differs]]
        alike = alike[~differs]
    return others


def _steps(rows: Any, count: int) -> tuple[Any, ...]:
    """How far from a row are those that it may be exchanged for, first one that depends on its number."""
    return (_PARTS[rows % len(_PARTS)] * count).astype(int), count // 2, 1, count // 3, 2


def _first_other(array: np.ndarray) -> int:
    """The first row that differs from the first one; 0 if all are equal."""
    for start in range(0, len(array), 4096):
        part = array[start : start + 4096]
        differs = _row_differs(part, np.broadcast_to(array[:1], part.shape))
        if differs.any():
            return start + int(np.argmax(differs))
    return 0


def _row_differs(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    if one.dtype.hasobject:
        return np.array([not equal(a, b) for a, b in zip(one, other, strict=True)], bool)
    if one.dtype.kind in "fcmMV":  # bytes, so that NaN equals itself
        shape = (len(one), -1)
        bytes_of = [np.ascontiguousarray(values).reshape(len(one), -1).view(np.uint8) for values in (one, other)]
        return np.asarray((bytes_of[0].reshape(shape) != bytes_of[1].reshape(shape)).any(1))
    return np.asarray((one != other).reshape(len(one), -1).any(1))


class Entries:
    """A list of numbers, names, records or arrays, one for each row; or an array of objects."""

    def __init__(self, entries: Any) -> None:
        self._entries = entries
        self.columns: tuple[str, ...] = ()
        self.count = len(entries)
        self.bytes = 8 * len(entries)
        kinds = {type(entry) for entry in entries}
        self._number: Callable[[Any], Any] | None = None
        if kinds in ({int}, {float}, {bool}):
            with contextlib.suppress(OverflowError, TypeError):
                self._range = range_of(np.array(entries, np.int64 if kinds == {int} else None))
                self._number = None if self._range.is_wide else kinds.pop()
        self._anchors: tuple[int, ...] = ()
        if self._number is None:
            self._anchors = 0, next((row for row in range(self.count) if not equal(entries[row], entries[0])), 0)

    @contextlib.contextmanager
    def changed(self, rows: np.ndarray, columns: Sequence[int] | None = None) -> Iterator[None]:
        """Move numbers within their range; exchange any other entry for a different one of the list."""
        del columns
        before = [(row, self._entries[row]) for row in rows.tolist()]
        if self._number:
            moved = self._range.moved(np.array([entry for _, entry in before]), rows).tolist()
            others = [self._number(entry) for entry in moved]
        else:
            others = [self._entries[place] for place in self._others[rows].tolist()]
        try:
            for (row, _), other in zip(before, others, strict=True):
                self._entries[row] = other
            yield
        finally:
            for row, entry in before:
                self._entries[row] = entry

    def entry(self, row: int) -> Entry:
        """One row."""
        entry = self._entries[row]
        if self._number:
            return Entry(b"", id(entry))
        leaves = [leaf for _, leaf in iter_leaves(entry)]
        if any(isinstance(leaf, os.PathLike) or (isinstance(leaf, str) and os.path.exists(leaf)) for leaf in leaves):
            return Entry(b"", id(entry))
        arrays = [array_of(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        content = b"".join(
            one.tobytes() if isinstance(one, np.ndarray) else repr(one).encode("utf-8", "surrogatepass")
            for one in arrays
        )
        return Entry(content, id(entry))

    @property
    def values(self) -> np.ndarray | None:
        """All entries, if they are numbers: (entries,); None otherwise."""
        return np.array(self._entries) if self._number else None

    @property
    def numbers(self) -> np.ndarray | None:
        """The floats of all entries, with this shape: (entries, floats); None if they have unlike many."""
        found = [_floats(entry) for entry in self._entries]
        return np.array(found) if found[0] and len(set(map(len, found))) == 1 else None

    @functools.cached_property
    def _others(self) -> np.ndarray:
        """The row of a different entry for each row, found once: lists of 400,000 files are changed many times."""
        entries = self._entries

        def differ(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
            pairs = zip(rows.tolist(), others.tolist(), strict=True)
            return np.array([not equal(entries[row], entries[other]) for row, other in pairs], bool)

        return _exchanged(np.arange(self.count), self.count, self._anchors, differ)


def equal(one: Any, other: Any) -> bool:
    """Whether two entries are equal."""
    if one is other:
        return True
    if isinstance(one, np.ndarray | torch.Tensor):
        return type(one) is type(other) and one.shape == other.shape and bool(np.array_equal(one, other))
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - records may hold arrays, whose equality is no single value
        return False


class NamedRows:
    """Rows as a store: with the path at which the dataset holds them, and the names of their columns."""

    def __init__(self, path: str, rows: Rows, starts: tuple[int, ...] = ()) -> None:
        self.path, self.starts, self._rows = path, starts, rows
        self.count, self.bytes, self.columns = rows.count, rows.bytes, rows.columns
        self.changed = rows.changed

    @property
    def numbers(self) -> np.ndarray | None:
        """All floats, with this shape: (rows, floats); None if there are none, or unlike many in each row."""
        return numbers_of(self._rows)

    def entry(self, row: int) -> Entry:
        """One row."""
        return entry_of(self._rows, row)

    def column(self, number: int) -> np.ndarray | None:
        """The values of a column, or of all rows if each is one value: (rows,); None of anything else."""
        return column_of(self._rows, number)


class Columns:
    """Columns of a table, some of which are held together, and their names."""

    def __init__(self, parts: Sequence[tuple[Rows, Sequence[str]]]) -> None:
        self._parts = [(rows, len(names)) for rows, names in parts]
        self.columns = tuple(name for _, names in parts for name in names)
        self.count = parts[0][0].count
        self.bytes = sum(rows.bytes for rows, _ in parts)

    @contextlib.contextmanager
    def changed(self, rows: np.ndarray, columns: Sequence[int] | None = None) -> Iterator[None]:
        """Change these rows in each part, or some columns of them."""
        with contextlib.ExitStack() as stack:
            first = 0
            for part, width in self._parts:
                own = None if columns is None else [one - first for one in columns if first <= one < first + width]
                if own is None or own:
                    stack.enter_context(part.changed(rows, own))
                first += width
            yield

    def column(self, number: int) -> np.ndarray | None:
        """The values of a column: (rows,); None of anything but numbers, times and strings of a fixed size."""
        for part, width in self._parts:
            if number < width:
                return column_of(part, number)
            number -= width
        return None

    def entry(self, row: int) -> Entry:
        """One row."""
        parts = [entry_of(part, row) for part, _ in self._parts]
        return Entry(b"".join(part.content for part in parts), parts[0].address)

    @property
    def numbers(self) -> np.ndarray | None:
        """The floats of all columns, with this shape: (rows, columns); None without any."""
        found = [numbers for part, _ in self._parts if (numbers := numbers_of(part)) is not None]
        return np.concatenate(found, 1) if found else None


def numbers_of(rows: Rows) -> np.ndarray | None:
    """All values of rows of floats, with this shape: (rows, values); None of anything else."""
    if isinstance(rows, Numbers):
        flat = [array.reshape(len(array), -1) for array in rows.arrays]
        return np.concatenate(flat) if flat[0].dtype.kind == "f" else None
    if isinstance(rows, Columns):
        return rows.numbers
    return rows.numbers if isinstance(rows, Entries) else None


def column_of(rows: Rows, number: int) -> np.ndarray | None:
    """The values of a column, or of all rows if each is one value: (rows,); None of anything else."""
    if isinstance(rows, Columns):
        return rows.column(number)
    if isinstance(rows, Entries):
        return rows.values
    if not isinstance(rows, Numbers | Exchanged) or (not rows.columns and rows.arrays[0][:1].size != 1):
        return None
    return np.concatenate([array.reshape(len(array), -1)[:, number] for array in rows.arrays])


def entry_of(rows: Rows, row: int) -> Entry:
    """One row; its content is empty if it is held in another way than as an array or a list."""
    if isinstance(rows, Columns):
        return rows.entry(row)
    return rows.entry(row) if isinstance(rows, Numbers | Exchanged | Entries) else Entry(b"", id(rows) + row)


def _floats(entry: Any) -> list[float]:
    """The floats of an entry of a list: of a number, or of a record, sequence or array of them."""
    if isinstance(entry, np.ndarray | torch.Tensor):
        return [float(number) for number in np.asarray(entry).reshape(-1)[:MOST_COLUMNS]]
    if isinstance(entry, Mapping | list | tuple):
        parts = entry.values() if isinstance(entry, Mapping) else entry
        return [number for part in parts for number in _floats(part)]
    return [entry] if isinstance(entry, float) else []
