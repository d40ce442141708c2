"""Where groups of rows begin in what a dataset holds, such as episodes, recordings or patients.

Groups are known by a column that names them, flags at their ends, an array of their ends, separate arrays in one
list, or the place at which a ring of rows is written next.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dataguard.core.leaf_paths import key_of
from dataguard.lab.core.object_graph import attributes_of
from dataguard.lab.rows.row_changes import Changeable
from dataguard.lab.rows.stores import FEWEST_ROWS, FIRST_AXES, MOST_ENTRIES, Axes, held_values

GROUP_WORDS = frozenset(
    [
        *("episode", "trajectory", "traj", "rollout", "demo", "demonstration", "session", "subject", "patient"),
        *("speaker", "participant", "recording", "record", "utterance", "sequence", "seq", "clip", "video", "scene"),
        *("drive", "trip", "log", "run", "group", "series", "ticker", "symbol", "unit", "engine", "machine", "file"),
        *("user", "household", "station", "trial"),
    ]
)
"""What a column of groups is named after, in the singular: rows of two of them do not follow each other in time."""
_NUMBER_WORDS = frozenset(
    ("id", "ids", "no", "number", "num", "name", "names", "key", "keys", "idx", "index", "indices", "code", "codes")
)
_ENDS = frozenset(("done", "terminal", "terminated", "termination", "timeout", "truncated", "truncation", "last"))
_FIRST = frozenset({"first"})
_OFFSETS = frozenset(
    ("end", "ends", "start", "starts", "offset", "offsets", "ptr", "indptr", "boundary", "boundaries", "index")
)
_CURSORS = frozenset(("pos", "position", "ptr", "pointer", "cursor", "head", "idx", "index", "write", "next", "insert"))
"""What the number of the row is named after that a ring writes next, where its newest row meets its oldest one."""
_TOKENS = frozenset((*map(np.dtype, ("i4", "i8", "u2", "u4")), torch.int32, torch.int64))
"""The types that tokens are stored in."""
FEWEST_GROUP_ROWS = 4
"""Rows of the median group below which groups are no series, such as the visits of a shuffled table."""
MOST_KINDS = 2
"""Ways in which rows are grouped that are judged, such as sessions and subjects."""


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Rows of sources in groups: the first row of each, and the sources, without what names the groups."""

    named: str
    starts: np.ndarray
    count: int
    stores: tuple[Changeable, ...]
    entries: bool = False
    """Whether groups are the entries of a list, whose rows have no numbers."""


class GroupStore:
    """Groups of rows as a source, whose rows are the groups."""

    columns: tuple[str, ...] = ()

    def __init__(self, groups: RowGroups) -> None:
        self.path = groups.named
        self.count = len(groups.starts)
        self.starts: tuple[int, ...] = ()
        self.bytes = sum(store.bytes for store in groups.stores)
        self._stores = groups.stores
        self._lengths = np.diff([*groups.starts.tolist(), groups.count])

    @contextlib.contextmanager
    def changed(self, rows: np.ndarray, columns: Sequence[int] | None = None) -> Iterator[None]:
        """Change all rows of these groups."""
        del columns
        chosen = np.zeros(self.count, bool)
        chosen[rows] = True
        with contextlib.ExitStack() as stack:
            for store in self._stores:
                stack.enter_context(store.changed(np.flatnonzero(np.repeat(chosen, self._lengths))))
            yield


class _SomeColumns:
    """A table without some of its columns."""

    def __init__(self, store: Changeable, columns: Sequence[int]) -> None:
        self.path, self.count, self.bytes, self.starts = store.path, store.count, store.bytes, store.starts
        self.columns: tuple[str, ...] = ()
        self._store, self._columns = store, columns

    @contextlib.contextmanager
    def changed(self, rows: np.ndarray, columns: Sequence[int] | None = None) -> Iterator[None]:
        """Change these rows in the other columns."""
        del columns
        with self._store.changed(rows, self._columns):
            yield


def words_of(name: str) -> list[str]:
    """The words in a name or path, in lower case: `episode`, `ids` of `episodeIds` or `episode_ids`."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def _singular(words: Sequence[str]) -> set[str]:
    return {word if word == "series" else word.removesuffix("s") for word in words}


def names_group(name: str, declared: str | None) -> bool:
    """Whether a column of this name names the group of each row."""
    words = words_of(name)
    own = _singular([word for word in words if word not in _NUMBER_WORDS])
    return name == declared or words == ["unique", "id"] or (bool(own) and own <= GROUP_WORDS)


def find_groups(
    dataset: Any, declared: str | None, axes: Axes = FIRST_AXES, files: Sequence[FileColumns] = ()
) -> list[RowGroups]:
    """The groups of rows that a dataset holds, along these axes of arrays: named ones first.

    `files` may name the groups of rows that the dataset holds from them.
    """
    held = list(held_values(dataset, axes))
    columns = [column for path, value, _ in held for column in _columns(path, value, declared)]
    columns += [column for one in files for column in _columns_beside(one, held)]
    restarting = set(_restarting(columns))
    named: list[tuple[str, np.ndarray]] = []
    flags: list[tuple[str, str, np.ndarray]] = []
    offsets: list[tuple[str, np.ndarray]] = []
    for path, name, values in columns:
        if names_group(name, declared) or path in restarting:
            named.append((path, values))
        elif _singular(words_of(name)) & (_ENDS | _FIRST) and _are_flags(values):
            flags.append((path, name, values))
        elif _names_offsets(words_of(path.removeprefix("dataset"))) and _are_offsets(values):
            offsets.append((path, values))
    unused = {path for path, _ in (*named, *offsets)} | {path for path, *_ in flags}
    rows = ((path, store) for path, value, store in held if store is not None and not _is_text(value))
    stores = [part for path, store in rows if path not in unused and (part := _without(store, unused))]
    found = []
    for path, values in named:
        _, codes = np.unique(values, return_inverse=True)
        found.append(_grouped(path, 1 + np.flatnonzero(np.diff(codes.ravel())), len(values), stores))
    for count in dict.fromkeys(len(values) for *_, values in flags):
        own = [(path, name, values) for path, name, values in flags if len(values) == count]
        starts = {start for _, name, values in own for start in _starts_of_flags(name, values)} - {0, count}
        found.append(_grouped(" or ".join(path for path, *_ in own), np.array(sorted(starts), int), count, stores))
    for path, values in offsets:
        counts = {store.count for store in stores if store.count == values[-1]}
        if not counts and values[0] == 0 and GROUP_WORDS & _singular(words_of(path)):
            counts = {min((store.count for store in stores if store.count > values[-1]), default=0)} - {0}
        found += [_grouped(path, values[(values > 0) & (values < count)], count, stores) for count in counts]
    ends = {start for one in found for start in one.starts.tolist()}
    found += [_grouped(path, np.array([row]), count, stores) for path, row, count in _cursors(held, ends)]
    for parts in dict.fromkeys(store.starts for store in stores if store.starts):
        alike = tuple(store for store in stores if store.starts == parts)
        found.append(RowGroups(f"the arrays in {alike[0].path}", np.array(parts), alike[0].count, alike))
    for path, value, store in held:
        if store is None or store.starts or not isinstance(value, list) or any(store in one.stores for one in found):
            continue  # the entries of a list are the rows of groups that are known, and no groups
        if all(map(_holds_rows, value[:FEWEST_ROWS])):
            every = np.arange(store.count)
            found.append(RowGroups(f"the entries of {path}", every, store.count, (store,), entries=True))
    distinct: dict[tuple[bytes, int], RowGroups] = {}
    for one in found:
        distinct.setdefault((one.starts.tobytes(), one.count), one)
    usable = (one for one in distinct.values() if len(one.starts) > 1 and one.stores)
    return [one for one in usable if one.entries or median_length(one) >= FEWEST_GROUP_ROWS][:MOST_KINDS]


def _restarting(columns: Sequence[tuple[str, str, np.ndarray]]) -> Iterator[str]:
    """The columns that change exactly where the dates of their table begin again, which ascend everywhere else."""
    tables: dict[tuple[str, int], list[tuple[str, np.ndarray]]] = defaultdict(list)
    for path, _, values in columns:
        if path.endswith("]") and len(values) >= FEWEST_RESTARTS * FEWEST_GROUP_ROWS:
            tables[path.rpartition("[")[0], len(values)].append((path, values))
    for table in tables.values():
        falls = [np.flatnonzero(values[1:] <= values[:-1]) for _, values in table if _are_dates(values)]
        for path, values in table if falls else ():
            ends = np.flatnonzero(values[1:] != values[:-1])
            distinct = len(set(values[[*ends, -1]].tolist())) == len(ends) + 1 > FEWEST_RESTARTS
            if distinct and any(np.array_equal(ends, places) for places in falls):
                yield path


FEWEST_RESTARTS = 3
"""How often dates begin again where another column changes: hours do so each day, and dates do not."""
_DATE = re.compile(r"\d{4}([-/.]?)\d\d\1\d\d")


def _are_dates(values: np.ndarray) -> bool:
    """Whether values are dates with a year, or strings of such, which are in order as text."""
    if values.dtype.kind == "M":
        return True
    return values.dtype.kind in "OU" and all(isinstance(one, str) and _DATE.match(one) for one in values.tolist())


@dataclass(frozen=True, slots=True)
class FileColumns:
    """What a file holds that the factory reads: arrays with one entry per row, or the ends of groups, by name."""

    file: str
    arrays: Mapping[str, np.ndarray]


def _columns_beside(of: FileColumns, held: Sequence[tuple[str, Any, Any]]) -> Iterator[tuple[str, str, np.ndarray]]:
    """The columns of a file with rows in the order in which a dataset holds them, and the ends of their groups.

    The order is that of the file if a column is held as it is there, or scaled.
    """
    numbers = [column for array in of.arrays.values() for column in _numbers(array)]
    counts = {
        len(column)
        for _, value, store in held
        if store is not None
        for column in _numbers(value)
        if any(len(other) == len(column) and _are_proportional(column, other) for other in numbers)
    }
    for name, array in of.arrays.items():
        ends = bool(array.size) and array.dtype.kind in "iu" and array.ndim == 1 and int(array[-1]) in counts
        if array.size == len(array) and (len(array) in counts or ends):
            yield f"{of.file}[{name!r}]", name, array.reshape(-1)


def _numbers(value: Any) -> Iterator[np.ndarray]:
    """Some columns of floats of an array or table."""
    if hasattr(value, "iloc") and hasattr(value, "columns"):
        arrays = [value[name].to_numpy() for name in list(value.columns)[:MOST_COMPARED]]
    elif isinstance(value, np.ndarray | torch.Tensor) and value.ndim and value.dtype is not torch.bfloat16:
        array = value if isinstance(value, np.ndarray) else value.detach().cpu().numpy()
        rows = array.reshape(len(array), -1) if array.size else array[:, None]
        arrays = list(rows[:, :MOST_COMPARED].T)
    else:
        arrays = []
    for array in arrays:
        if array.dtype.kind == "f" and len(array) >= FEWEST_COMPARED and np.isfinite(array).all() and np.ptp(array):
            yield array.astype(np.float64)


MOST_COMPARED, FEWEST_COMPARED = 8, 24
"""Columns that are compared, and rows that are needed for it."""
EQUAL = 1 - 1e-5
"""A correlation above which two columns of floats are one, scaled or rounded to single precision."""


def _are_proportional(one: np.ndarray, other: np.ndarray) -> bool:
    return abs(float(np.corrcoef(one, other)[0, 1])) > EQUAL


def _grouped(path: str, starts: np.ndarray, count: int, stores: Sequence[Changeable]) -> RowGroups:
    own = tuple(store for store in stores if store.count == count and not store.starts)
    return RowGroups(path, np.array([0, *starts.tolist()]), count, own)


def median_length(groups: RowGroups) -> int:
    """How many rows the median group has; 0 if they are not known."""
    return 0 if groups.entries else int(np.median(np.diff([*groups.starts.tolist(), groups.count])))


def _columns(path: str, value: Any, declared: str | None) -> Iterator[tuple[str, str, np.ndarray]]:
    """What may name the group of each row: arrays and lists of numbers or words, and columns of tables and records."""
    if hasattr(value, "iloc") and hasattr(value, "columns") and hasattr(value, "_mgr"):
        for name in value.columns:
            if isinstance(name, str) and words_of(name):
                yield f"{path}[{name!r}]", name, np.asarray(value[name])
        return
    name = key_of(path) if path.endswith("]") else path.rpartition(".")[2]
    if isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.layout is torch.strided:
        value = value.detach().numpy() if value.dtype is not torch.bfloat16 else None
    if isinstance(value, np.ndarray) and value.ndim and value.size == len(value) and words_of(path):
        yield path, name, value.reshape(-1)
    elif isinstance(value, list) and 1 < len(value) <= MOST_ENTRIES:
        if isinstance(value[0], Mapping):
            for key in [key for key in value[0] if isinstance(key, str) and names_group(key, declared)]:
                entries = [one.get(key) for one in value if isinstance(one, Mapping)]
                if len(entries) == len(value) and all(isinstance(entry, str | int) for entry in entries):
                    yield f"{path}[*][{key!r}]", key, np.asarray(entries)
        elif words_of(path) and all(isinstance(entry, str | int) for entry in value):
            yield path, name, np.asarray(value)


def _are_flags(values: np.ndarray) -> bool:
    """Whether a few of the values are true, and the others false."""
    if values.dtype.kind not in "biuf" or len(values) < FEWEST_ROWS:
        return False
    return bool(np.isin(values, (0, 1)).all()) and 0 < int(values.astype(bool).sum()) <= len(values) / FEWEST_GROUP_ROWS


def _starts_of_flags(name: str, values: np.ndarray) -> list[int]:
    places = np.flatnonzero(values)
    return (places if _singular(words_of(name)) & _FIRST else places + 1).tolist()


def _names_offsets(words: Sequence[str]) -> bool:
    return bool(_OFFSETS & set(words) or _ENDS & _singular(words))


def _are_offsets(values: np.ndarray) -> bool:
    return values.dtype.kind in "iu" and len(values) > 1 and bool((np.diff(values.astype(np.int64)) > 0).all())


def _cursors(held: Sequence[tuple[str, Any, Any]], ends: Collection[int]) -> Iterator[tuple[str, int, int]]:
    """Where rings of rows are written next: the path of the number, the row, and how many rows there are.

    A number of that name is one if values change more from the row before it to that row than between any others that
    follow each other in one group: an offset into a series, or a ring that is not full yet, is none.
    """
    arrays = [(path, value) for path, value, store in held if store is not None and isinstance(value, np.ndarray)]
    for path, holder, store in held:
        own = [value for name, value in arrays if name.rpartition(".")[0] == path] if store is None else []
        for name, row in attributes_of(holder).items() if own else ():
            if type(row) is not int or row in ends or not _CURSORS & set(words_of(name)):
                continue
            for count in {len(value) for value in own if 0 < row < len(value) <= MOST_COMPARED_ROWS}:
                rows = [value for value in own if len(value) == count and value.dtype.kind == "f"]
                if count >= FEWEST_RING_ROWS and any(_is_seam(value, row, ends) for value in rows):
                    yield f"{path}.{name}", row, count


MOST_COMPARED_ROWS, FEWEST_RING_ROWS = 1 << 20, 64
"""Rows of a ring that are compared at most: a limit of time; and at least, so that a largest change is no chance."""


def _is_seam(rows: np.ndarray, row: int, ends: Collection[int]) -> bool:
    """Whether values change more before this row than before any other that begins no group."""
    flat = rows.reshape(len(rows), -1)[:, :MOST_COMPARED].astype(np.float64)
    changes = np.abs(np.diff(flat, axis=0)).sum(axis=1)
    seam, changes[row - 1] = changes[row - 1], 0.0
    changes[[end - 1 for end in ends if 0 < end < len(rows)]] = 0.0
    return bool(flat[row:].any() and seam > changes.max())


def _holds_rows(entry: Any) -> bool:
    """Whether an entry of a list is a series: an array of several rows, or a record with one."""
    if isinstance(entry, Mapping):
        return any(isinstance(one, np.ndarray | torch.Tensor) and _holds_rows(one) for one in entry.values())
    return isinstance(entry, np.ndarray | torch.Tensor) and entry.ndim > 0 and len(entry) >= FEWEST_GROUP_ROWS


def _is_text(value: Any) -> bool:
    """Whether rows are one integer each, as tokens are: blocks of text run on from one document into the next."""
    arrays = [value] if isinstance(value, np.ndarray | torch.Tensor) else value if isinstance(value, list) else ()
    return bool(arrays) and all(
        isinstance(one, np.ndarray | torch.Tensor) and one.ndim == 1 and one.dtype in _TOKENS for one in arrays[:8]
    )


def _without(store: Changeable, columns: set[str]) -> Changeable | None:
    """A source without the columns that name groups; None if there are no others."""
    left = [number for number, name in enumerate(store.columns) if f"{store.path}[{name!r}]" not in columns]
    return store if len(left) == len(store.columns) else _SomeColumns(store, left) if left else None
