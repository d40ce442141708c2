"""Rows of Arrow tables, of pyarrow, polars and `datasets`: their buffers are changed in place.

Tables of pyarrow and polars cannot be changed; the memory of their columns can. A string of a column with offsets is
exchanged for one of the same length, as the next one follows without a gap.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dataguard.lab.rows.memory import own_memory
from dataguard.lab.rows.row_changes import Columns, Rows, rows_in

MOST_CHUNKS = 4096
"""Chunks of a column."""


def rows_of_table(table: Any, most_bytes: int) -> Columns | None:
    """The columns of a table of pyarrow that can be changed."""
    parts = []
    for name in table.column_names:
        column = table.column(name)
        if len(table) and column.nbytes <= most_bytes and column.num_chunks <= MOST_CHUNKS:
            parts += [(rows, (f"{name}{step}",)) for step, rows in _rows_of_chunks(column.chunks)]
    return Columns(parts) if parts else None


def _rows_of_chunks(chunks: Sequence[Any]) -> list[tuple[str, Rows]]:
    whole = [_arrays(chunk) for chunk in chunks if len(chunk)]
    if not whole or any(len(arrays) != len(whole[0]) for arrays in whole):
        return []
    found: list[tuple[str, Rows]] = []
    for number, (step, first) in enumerate(whole[0]):
        parts = [arrays[number][1] for arrays in whole]
        if isinstance(first, np.ndarray):
            rows = rows_in(parts) if len({part.dtype for part in parts}) == 1 else None
            if rows is not None:
                found.append((step, rows))
        elif first is not None and all(part is not None for part in parts):
            found.append((step, _Chunks(parts)))
    return found


def _arrays(array: Any) -> list[tuple[str, Any]]:
    """The memory of an array, by its fields: arrays of numpy, or rows of another kind; None of what is not known."""
    kind, types = array.type, _types()
    if hasattr(array, "storage"):  # of an extension type, such as the images of `datasets`
        return _arrays(array.storage)
    if types.is_struct(kind):
        fields = [(kind.field(number).name, array.field(number)) for number in range(kind.num_fields)]
        return [(f".{name}{step}", rows) for name, field in fields for step, rows in _arrays(field)]
    if types.is_dictionary(kind):
        return _arrays(array.indices)
    if types.is_boolean(kind):
        return [("", _Bits.of(array))]
    if types.is_fixed_size_list(kind):
        size = kind.list_size
        return _lists(array, np.arange(array.offset * size, (array.offset + len(array)) * size + 1, size))
    if types.is_list(kind) or types.is_large_list(kind):
        return _lists(array, _view(array, 1, "i4" if types.is_list(kind) else "i8", len(array) + 1))
    if types.is_string(kind) or types.is_binary(kind):
        return [("", _Strings.of(array, _view(array, 1, "i4", len(array) + 1)))]
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return [("", _Strings.of(array, _view(array, 1, "i8", len(array) + 1)))]
    if str(kind) in ("string_view", "binary_view"):
        return [("", _own(_view(array, 1, "V16", len(array))))]
    return [("", _own(_numbers(array)))]


def _lists(array: Any, offsets: np.ndarray | None) -> list[tuple[str, Any]]:
    if offsets is None:
        return []
    first, last = int(offsets[0]), int(offsets[-1])
    values = [(step, _rows_of(found)) for step, found in _arrays(array.values.slice(first, last - first))]
    return [(step, None if rows is None else _Lists(rows, offsets.astype(np.int64) - first)) for step, rows in values]


def _types() -> Any:
    import pyarrow.types  # the array comes from it

    return pyarrow.types


def _numbers(array: Any) -> np.ndarray | None:
    """A column of numbers or times: its buffer as an array of numpy."""
    width = getattr(array.type, "bit_width", 0) if len(array.buffers()) == 2 else 0
    if not width or width % 8:
        return None
    try:
        kind = np.dtype(array.type.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        kind = np.dtype(object)
    plain = kind.kind in "iufmM" and width == 8 * kind.itemsize
    return _view(array, 1, kind if plain else np.dtype(f"V{width // 8}"), len(array))


def _view(array: Any, number: int, kind: Any, count: int) -> np.ndarray | None:
    """The elements of a buffer that belong to an array."""
    buffer = array.buffers()[number]
    if buffer is None or not buffer.size:
        return None
    size = np.dtype(kind).itemsize
    view: np.ndarray = np.frombuffer(buffer, np.uint8)[array.offset * size : (array.offset + count) * size]
    return np.asarray(view.view(kind))


def _own(view: np.ndarray | None) -> np.ndarray | None:
    return None if view is None else own_memory(view)


def _rows_of(found: Any) -> Rows | None:
    return rows_in([found]) if isinstance(found, np.ndarray) else found


class _Chunks:
    """Chunks of a column whose rows are numbered one after the other."""

    columns: tuple[str, ...] = ()

    def __init__(self, parts: Sequence[Rows]) -> None:
        self._parts = parts
        self.count = sum(part.count for part in parts)
        self.bytes = sum(part.bytes for part in parts)

    @contextlib.contextmanager
    def changed(self, rows: np.ndarray, columns: Sequence[int] | None = None) -> Iterator[None]:
        """Change these rows in the chunks that have them."""
        del columns
        with contextlib.ExitStack() as stack:
            first = 0
            for part in self._parts:
                own = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + part.count)]
                if len(own):
                    stack.enter_context(part.changed(own - first))
                first += part.count
            yield


class _Lists:
    """A column of lists: a row is changed with all of its values."""

    columns: tuple[str, ...] = ()

    def __init__(self, values: Rows, offsets: np.ndarray) -> None:
        self._values, self._offsets = values, offsets
        self.count = len(offsets) - 1
        self.bytes = values.bytes

    @contextlib.contextmanager
    def changed(self, rows: np.ndarray, columns: Sequence[int] | None = None) -> Iterator[None]:
        """Change the values of these rows."""
        del columns
        counts = self._offsets[rows + 1] - self._offsets[rows]
        starts = np.repeat(self._offsets[rows] - np.cumsum(counts) + counts, counts)
        with self._values.changed(starts + np.arange(len(starts))):
            yield


class _Bits:
    """A column of bool, of which each byte holds eight."""

    columns: tuple[str, ...] = ()

    def __init__(self, content: np.ndarray, offset: int, count: int) -> None:
        self._content, self._offset, self.count = content, offset, count
        self.bytes = content.nbytes

    @classmethod
    def of(cls, array: Any) -> _Bits | None:
        """The bits of an array."""
        buffer, first = array.buffers()[1], array.offset // 8
        if buffer is None or not buffer.size:
            return None
        content = own_memory(np.frombuffer(buffer, np.uint8)[first : first + len(array) // 8 + 2])
        return None if content is None else cls(content, array.offset % 8, len(array))

    @contextlib.contextmanager
    def changed(self, rows: np.ndarray, columns: Sequence[int] | None = None) -> Iterator[None]:
        """Flip the bits of these rows."""
        del columns
        places, bits = np.divmod(rows + self._offset, 8)
        flips = np.left_shift(1, bits).astype(np.uint8)
        np.bitwise_xor.at(self._content, places, flips)
        try:
            yield
        finally:
            np.bitwise_xor.at(self._content, places, flips)


class _Strings:
    """A column of strings one after the other, each exchanged for another one of the same length."""

    columns: tuple[str, ...] = ()

    def __init__(self, content: np.ndarray, offsets: np.ndarray) -> None:
        self._content, self._offsets = content, offsets
        self.count = len(offsets) - 1
        self.bytes = content.nbytes + offsets.nbytes
        lengths = np.diff(offsets)
        self._groups: list[tuple[np.ndarray, np.ndarray, Rows]] = []
        for length in np.unique(lengths[lengths > 0]).tolist():
            rows = np.flatnonzero(lengths == length)
            strings = content[offsets[rows][:, None] + np.arange(length)].view(f"V{length}").reshape(-1)
            exchanged = rows_in([strings])
            if exchanged is not None and len(rows) > 1:
                self._groups.append((rows, strings, exchanged))

    @classmethod
    def of(cls, array: Any, offsets: np.ndarray | None) -> _Strings | None:
        """The strings of an array."""
        buffer = array.buffers()[2]
        if buffer is None or offsets is None or not buffer.size:
            return None
        first, last = int(offsets[0]), int(offsets[-1])
        content = own_memory(np.frombuffer(buffer, np.uint8)[first:last])
        return None if content is None else cls(content, offsets.astype(np.int64) - first)

    @contextlib.contextmanager
    def changed(self, rows: np.ndarray, columns: Sequence[int] | None = None) -> Iterator[None]:
        """Exchange the strings of these rows."""
        del columns
        before = []
        try:
            for members, strings, exchanged in self._groups:
                places = np.flatnonzero(np.isin(members, rows, assume_unique=True))
                if not len(places):
                    continue
                own = self._offsets[members[places]][:, None] + np.arange(strings.dtype.itemsize)
                before.append((own, self._content[own]))
                with exchanged.changed(places):  # a copy of the strings
                    self._content[own] = strings[places].view(np.uint8).reshape(own.shape)
            yield
        finally:
            for own, values in before:
                self._content[own] = values
