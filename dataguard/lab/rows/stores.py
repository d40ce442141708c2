"""The arrays, tables and lists that a dataset holds in memory, whose rows can be changed for a moment.

All this happens in a disposable process; memory that it shares with others, such as a mapped file, is made its own
first. What cannot be changed is left out: it is unknown then what depends on it.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset

from dataguard.lab.core.object_graph import attributes_of
from dataguard.lab.core.source_location import is_own
from dataguard.lab.rows.arrow_rows import rows_of_table
from dataguard.lab.rows.memory import forget_regions, own_memory
from dataguard.lab.rows.origins import along
from dataguard.lab.rows.row_changes import Columns, Entries, Exchanged, NamedRows, Numbers, Rows, Store, rows_in

FEWEST_ROWS = 8
"""Rows of an array that may be data; shorter ones are, for example, the mean and deviation of a transform."""
MOST_BYTES = 1 << 28
"""Larger arrays are left out: each page that is changed is copied, so this is the memory that changing may take."""
MOST_ENTRIES = 1_000_000
"""Entries of a list: each is a Python object that is compared and replaced, 0.1 us for one."""
MOST_PARTS = 4096
"""Arrays in one list, such as one for each episode, that are taken for parts of one source."""
DEEPEST, MOST_CHILDREN = 5, 64
"""How far from the dataset arrays are searched, and how many entries of a container of objects are entered."""
_CHOOSING = {Subset: ("indices",), ConcatDataset: ("cumulative_sizes",)}
"""Attributes of datasets of torch that choose rows, and are none."""
_WITHOUT_NUMPY = {
    kind: torch.int16 if kind.itemsize == 2 else torch.uint8
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    if (kind := getattr(torch, name, None)) is not None
}
"""Types that numpy does not have, and types of the same size."""
Axes: TypeAlias = Mapping[str, int]
"""The axis of the rows of arrays, by the path at which a dataset holds them, where it is not the first one."""
FIRST_AXES: Axes = MappingProxyType({})
"""The rows of all arrays are along their first axis."""


def held_stores(dataset: Any, axes: Axes = FIRST_AXES) -> list[Store]:
    """What a dataset, and the datasets and objects in it, hold for each of several rows, nearest first."""
    return [store for _, _, store in held_values(dataset, axes) if store is not None]


def held_values(dataset: Any, axes: Axes = FIRST_AXES) -> Iterator[tuple[str, Any, Store | None]]:
    """What a dataset, and the datasets and objects in it, hold: the path, the value, and its rows if it has some."""
    forget_regions()
    seen: set[int] = set()
    queue: deque[tuple[str, Any, int]] = deque([("dataset", dataset, 0)])
    while queue:
        path, value, depth = queue.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        store = None
        with contextlib.suppress(Exception):  # an object of another version of a library, or one that raises
            store = _store_of(path, value, axes.get(path, 0))
        yield path, value, store
        if store is None and depth < DEEPEST:
            queue.extend((f"{path}{step}", child, depth + 1) for step, child in _children(value))


def _children(value: Any) -> list[tuple[str, Any]]:
    kind = type(value)
    if issubclass(kind, dict):
        return [(f"[{key!r}]", item) for key, item in list(dict.items(value))[:MOST_CHILDREN]]
    if issubclass(kind, list | tuple):
        return [(f"[{number}]", item) for number, item in enumerate(_entries(value)[:MOST_CHILDREN])]
    if issubclass(kind, Dataset) or (is_own(value) and not callable(value)):
        left_out = [name for known, names in _CHOOSING.items() if issubclass(kind, known) for name in names]
        return [(f".{name}", item) for name, item in attributes_of(value).items() if name not in left_out]
    return []


def _entries(value: Any) -> Sequence[Any]:
    """A list or tuple as a plain one, without calling methods of a subclass."""
    if type(value) in (list, tuple):
        return value  # type: ignore[no-any-return]
    return list(list.__iter__(value)) if issubclass(type(value), list) else list(tuple.__iter__(value))


def store_of(path: str, value: Any, axis: int = 0) -> Store | None:
    """The rows of an array along an axis, of a table or list; None of anything else, and of what cannot be changed."""
    forget_regions()
    return _store_of(path, value, axis)


def _store_of(path: str, value: Any, axis: int) -> Store | None:
    kind = type(value)
    if issubclass(kind, np.ndarray | torch.Tensor):
        return _stored(along(path, axis), _array(value, axis))
    if issubclass(kind, list | tuple):
        return _listed(path, _entries(value), axis)
    if issubclass(kind, dict):
        return _joined(f"{path}[*]", list(dict.values(value)), axis) if _are_numbered(dict.keys(value)) else None
    if _is_of(value, "pandas", "DataFrame") or _is_of(value, "pandas", "Series"):
        return _stored(path, _pandas_table(value))
    if _is_of(value, "pyarrow", "Table"):
        return _stored(path, rows_of_table(value, MOST_BYTES))
    if _is_of(value, "polars", "DataFrame") or _is_of(value, "polars", "Series"):
        return _stored(path, _polars_table(value))
    if _is_of(value, "datasets", "Dataset"):  # its indices choose rows, and are none
        return _stored(path, rows_of_table(value._data.table, MOST_BYTES))
    return None


def _are_numbered(names: Iterable[Any]) -> bool:
    """Whether names differ in a number only, as those of episodes do and those of columns do not."""
    return len({re.sub(r"\d+", "", name) if isinstance(name, str) else "" for name in names}) == 1


def _is_of(value: Any, module: str, name: str) -> bool:
    """Whether this is an object of a library that may be imported."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and issubclass(type(value), kind)


def is_data_frame(value: Any) -> bool:
    """Whether this is a table of pandas or polars itself, and of no class that is derived from it."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] in ("pandas", "polars")


def _stored(path: str, rows: Rows | None, starts: tuple[int, ...] = ()) -> Store | None:
    return NamedRows(path, rows, starts) if rows is not None and rows.count >= FEWEST_ROWS else None


def _listed(path: str, value: Sequence[Any], axis: int) -> Store | None:
    if not value:
        return None
    kinds = {type(entry) for entry in value[:MOST_CHILDREN]}
    if kinds <= {np.ndarray, torch.Tensor}:
        shapes = {tuple(entry.shape) for entry in value[:MOST_CHILDREN]}
        # Equal ones in a tuple are different columns, as in a TensorDataset.
        if len(shapes) > 1 or (type(value) is list and len(value) < FEWEST_ROWS):
            return _joined(f"{path}[*]", value, axis)
    if type(value) is not list or not FEWEST_ROWS <= len(value) <= MOST_ENTRIES:
        return None
    if any(callable(entry) or issubclass(type(entry), Dataset) for entry in value[:MOST_CHILDREN]):
        return None  # transforms, or datasets that have rows of their own
    return _stored(path, Entries(value))


def _joined(path: str, parts: Sequence[Any], axis: int) -> Store | None:
    """Arrays that are alike but for their number of rows, as one source; `axis` is that of rows if all are alike."""
    if not 1 < len(parts) <= MOST_PARTS or not all(issubclass(type(part), np.ndarray | torch.Tensor) for part in parts):
        return None
    arrays = [_memory_of(part) for part in parts]
    known = [array for array in arrays if array is not None]
    if len(known) < len(arrays) or len({(array.dtype, array.ndim) for array in known}) != 1:
        return None
    unlike = [
        each for each, counts in enumerate(zip(*(array.shape for array in known), strict=True)) if len({*counts}) > 1
    ]
    if len(unlike) > 1:
        return None
    axis = unlike[0] if unlike else axis
    rows = rows_in([np.moveaxis(array, axis, 0) for array in known])
    return _stored(along(path, axis), rows, rows.starts[:-1]) if isinstance(rows, Numbers | Exchanged) else None


def _array(value: Any, axis: int) -> Rows | None:
    """The rows of an array or tensor along an axis; of a structured one, its fields are columns."""
    if isinstance(value, np.ndarray) and value.dtype.names:
        fields = [(name, _memory_of(value[name])) for name in value.dtype.names]
        parts = [
            (rows, (name,)) for name, array in fields if array is not None and (rows := _column(array)) is not None
        ]
        return Columns(parts) if parts else None
    if isinstance(value, np.ndarray) and value.dtype == object:
        return _objects(value)
    array = _memory_of(value)
    if array is None or (axis and array.shape != tuple(value.shape)):  # a view of overlapping windows
        return None
    return rows_in([np.moveaxis(array, axis, 0)])


def _column(array: np.ndarray) -> Rows | None:
    """The rows of one column, whatever its own shape."""
    rows = rows_in([array])
    return rows if rows is None or not rows.columns else rows_in([array.reshape(*array.shape, 1)])


def _objects(array: np.ndarray) -> Rows | None:
    """An array of objects, one for each row."""
    if array.ndim != 1 or not FEWEST_ROWS <= len(array) <= MOST_ENTRIES:
        return None
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    for held in (root, array):  # what pandas returns cannot be written, and belongs to it
        held.flags.writeable = True
    return Entries(array)


def _polars_table(table: Any) -> Rows | None:
    """The columns of a table of polars, which share their memory with a table of Arrow that is made of them."""
    polars = sys.modules["polars"]
    columns = table.get_columns() if hasattr(table, "get_columns") else [table]
    plain = polars.DataFrame([column.to_physical() for column in columns])  # categories as numbers
    newest = polars.CompatLevel.newest()  # with any other, strings are copied
    return rows_of_table(plain.to_arrow(compat_level=newest), MOST_BYTES)


def _pandas_table(table: Any) -> Rows | None:
    """The columns of a table of pandas, or the values of a series."""
    names = [str(name) for name in (table.columns if hasattr(table, "columns") else [table.name])]
    parts: list[tuple[Rows, Sequence[str]]] = []
    for block in table._mgr.blocks:
        own = [names[number] for number in block.mgr_locs] if hasattr(table, "columns") else names
        with contextlib.suppress(Exception):  # of another version: these columns are left out
            parts += _pandas_block(block.values, own)
    return Columns(parts) if parts else None


def _pandas_block(values: Any, names: Sequence[str]) -> list[tuple[Rows, Sequence[str]]]:
    """Columns of one type: an array of numpy, or an object that holds one, or that holds a column of Arrow."""
    if hasattr(values, "_pa_array"):
        return [(_Replaced(values), names)]
    plain = next((getattr(values, name) for name in ("_ndarray", "_data", "_codes") if hasattr(values, name)), values)
    if not isinstance(plain, np.ndarray):
        return []
    if plain.dtype == object:
        columns = [plain] if plain.ndim == 1 else list(plain)
        found = [(_objects(column), [name]) for column, name in zip(columns, names, strict=True)]
        return [(rows, name) for rows, name in found if rows is not None]
    array = _memory_of(plain.T)
    if array is None:
        return []
    array = array.reshape(len(array), -1)
    if array.dtype.kind in "biuf":
        numbers = Numbers([array])
        if not numbers.range.is_wide:
            return [(numbers, names if numbers.columns else ())]
    return [
        (rows, [name]) for column, name in zip(array.T, names, strict=True) if (rows := rows_in([column])) is not None
    ]


def labels_of(value: Any) -> np.ndarray | None:
    """The labels of the rows of a table of pandas, if they are whole numbers, and not those of the rows."""
    if not (_is_of(value, "pandas", "DataFrame") or _is_of(value, "pandas", "Series")):
        return None
    labels = value.index.to_numpy()
    is_named = labels.dtype.kind in "iu" and labels.ndim == 1 and bool((labels != np.arange(len(labels))).any())
    return labels if is_named else None


class _Replaced:
    """A column of pandas that holds a column of Arrow, which is replaced by one with other rows."""

    columns: tuple[str, ...] = ()

    def __init__(self, column: Any) -> None:
        self._column = column
        self._values = column._pa_array
        self.count, self.bytes = len(self._values), self._values.nbytes
        encoded = self._values.combine_chunks().dictionary_encode("encode")
        self._codes = encoded.indices.to_numpy(zero_copy_only=False).copy()
        self._first = np.unique(self._codes, return_index=True)[1]  # codes are numbered from 0 without a gap
        self._exchanged = Exchanged([self._codes])

    @contextlib.contextmanager
    def changed(self, rows: np.ndarray, columns: Sequence[int] | None = None) -> Iterator[None]:
        """Exchange the values of these rows."""
        del columns
        with self._exchanged.changed(rows):
            other = self._values.take(self._first[self._codes])
        self._column._pa_array = other
        try:
            yield
        finally:
            self._column._pa_array = self._values


def _memory_of(value: Any) -> np.ndarray | None:
    """The memory of an array or tensor of values of a fixed size, as an array that can be changed."""
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or value.layout is not torch.strided:
            return None
        plain = value.detach().as_subclass(torch.Tensor)
        if plain.dtype in _WITHOUT_NUMPY:
            value = plain.view(_WITHOUT_NUMPY[plain.dtype]).numpy()
            value = value.view(f"V{value.itemsize}")
        else:
            value = plain.numpy()
    if not value.ndim or not value.size or value.nbytes > MOST_BYTES:
        return None
    array = own_memory(np.asarray(value))
    return None if array is None else _without_overlap(array)


def _without_overlap(array: np.ndarray) -> np.ndarray:
    """The rows of a series of which an array is a view of overlapping windows, as `unfold` makes it; or the array."""
    for axis in range(1, array.ndim) if len(array) > 1 else ():
        stride, count = array.strides[axis], array.shape[axis]
        step, rest = divmod(array.strides[0], stride) if stride else (0, 1)
        if not rest and 0 < step < count:
            others = [other for other in range(1, array.ndim) if other != axis]
            return np.lib.stride_tricks.as_strided(
                array,
                ((len(array) - 1) * step + count, *(array.shape[other] for other in others)),
                (stride, *(array.strides[other] for other in others)),
            )
    return array
