"""The row of a window that each value mainly comes from, and whether inputs depend on the rows of their target.

Each row of a window is changed alone. A standardised value depends on all rows of its window, and on its own row most;
a rolling mean depends on several rows alike, of which its own is the middle one. Then the rows from the target's first
on are changed in the target's columns: an input that changes holds cells of the target, or earlier rows that were
computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dataguard.core.leaf_paths import key_of
from dataguard.lab.core.records import Index, plain_index
from dataguard.lab.process.write_protection import forbid_writes
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.row_changes import Changeable
from dataguard.lab.rows.row_groups import words_of
from dataguard.lab.rows.rows_changed import MOST_TESTED_COLUMNS, RowTracer, Values, differs, values_of
from dataguard.lab.rows.stores import FIRST_AXES, Axes, held_values

WINDOW_SAMPLES = 3
"""Samples that are looked at: what holds for one by chance, as by an equal value, does not hold for all."""
MOST_WINDOW = 512
"""Rows between the first and the last on which a sample depends, beyond which it is no window: a read for each."""
WINDOW_READS = 250
"""About how many reads a window takes: one for each row and column, and 4 log2(n) to find it."""
MOST_SOURCES, FEW_SOURCES = 64, 4
"""Sources that are changed to see on which a sample depends, and how many for a slow loader: a read for each."""
_TIE = 0.5
"""A row moves a value as much as the one that moves it most, from this share on: values are moved up or down by 0.37
or 0.63 of their range."""
_TRACE = 1e-3
"""The same, from which share on a row has an effect on a target: below, it is rounding."""
_PAST = frozenset(("past", "history", "hist", "context", "input", "inputs", "encoder", "enc", "observed", "x"))
_TARGET = frozenset(("target", "targets", "label", "labels", "y"))
_LATER = frozenset(("future", "horizon", "forecast"))
_DECODED = frozenset(("decoder", "dec", "teacher", "tgt"))
_BESIDE = frozenset(("mask", "mark", "marks", "weight", "weights", "id", "ids", "length", "lengths", "pad"))


@dataclass(frozen=True, slots=True)
class InputRows:
    """The rows of an input of a window: those that its values mainly come from, from `first` to `last`, `rows` in all.

    `copies` are values that come from a row of the target and change with its columns; `early` are values from rows
    before the target that change with it nevertheless. `size` is the number of all values.
    """

    path: str
    first: int
    last: int
    rows: int
    size: int
    copies: int
    early: int


@dataclass(frozen=True, slots=True)
class Window:
    """A sample of which the target and at least one input come from rows of one source.

    `target` is the leaf that is to be predicted, from rows `first` to `last`, `rows` in all, and from these `columns`.
    `exact`: each of its values comes from one row only.
    """

    index: Index
    source: str
    target: str
    first: int
    last: int
    rows: int
    columns: tuple[str, ...]
    exact: bool
    inputs: tuple[InputRows, ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of some samples; `target` is the leaf that is to be predicted, and None if nothing says which.

    `unaffordable`: there are windows, but reading them takes too long.
    """

    target: str | None
    windows: tuple[Window, ...] = ()
    unaffordable: bool = False


def target_of(paths: Sequence[str], declared: str | None = None) -> str | None:
    """The leaf that is to be predicted: the declared one, one that is named so, or the last of a pair."""
    if declared is not None:
        return next((path for path in paths if declared in (path, key_of(path))), None)
    words = {path: set(words_of(key_of(path))) for path in paths}
    for names in (_TARGET, _LATER):
        named = [path for path in paths if words[path] & names and not words[path] & (_PAST | _BESIDE | _DECODED)]
        if named:
            return min(named, key=lambda path: len(words[path]))
    second = [path for path in paths if path.startswith("[1]")]
    is_pair = all(path.startswith(("[0]", "[1]")) for path in paths)
    return second[0] if is_pair and len(second) == 1 and len(paths) > 1 else None


def inputs_of(paths: Sequence[str], target: str) -> list[str]:
    """The leaves that are not what is to be predicted, and do not say that they belong to later rows."""
    words = {path: set(words_of(key_of(path))) for path in paths}
    others = [path for path in paths if path != target and not words[path] & _DECODED]
    return [path for path in others if words[path] & _PAST or not words[path] & (_TARGET | _LATER)]


def find_windows(
    reader: Reader,
    indices: Sequence[Index],
    declared: str | None,
    known_future: Collection[str],
    affordable: bool,
    *,
    axes: Axes = FIRST_AXES,
) -> Windows:
    """The rows of the targets and inputs of some samples; nothing if these come from different sources.

    `axes` are those of the rows of the arrays that the dataset holds.
    """
    one = values_of(reader.read(indices[0]))
    paths = list(one)
    target = target_of(paths, declared)
    if target is None:
        return Windows(None)
    tracer = RowTracer(reader.read, [])
    found: list[Window] = []
    again = values_of(reader.read(indices[0]))
    unsteady = {path for path, value in one.items() if differs(value, again.get(path)).any()}  # each read changes it
    inputs = [] if target in unsteady else [path for path in inputs_of(paths, target) if path not in unsteady]
    held = [
        (value, store) for _, value, store in held_values(reader.dataset, axes) if store and not _are_records(value)
    ]
    for value, store in held[: MOST_SOURCES if affordable else FEW_SOURCES] if inputs else ():
        changed = tracer.changes(indices[0], store, np.arange(store.count))
        matter = {path for path, one in changed.items() if one.any()}
        if target not in matter or matter.isdisjoint(inputs):
            continue
        if not affordable:
            return Windows(target, unaffordable=True)
        cells = bool(store.columns) or getattr(value, "ndim", 1) == 1
        seen = _WindowReader(reader.read, tracer, store, target, inputs, known_future, cells)
        found += [window for index in indices if (window := seen.window(index)) is not None]
    return Windows(target, tuple(found))


def _are_records(value: Any) -> bool:
    """Whether it is a list of records, which are changed as a whole: which values of one are meant is not known."""
    return isinstance(value, list) and not isinstance(value[0], int | float | np.ndarray | torch.Tensor)


class _WindowReader:
    """Finds the rows of one source on which the leaves of a sample depend."""

    def __init__(
        self,
        read: Callable[[Index], object],
        tracer: RowTracer,
        store: Changeable,
        target: str,
        inputs: Sequence[str],
        known_future: Collection[str],
        cells: bool,
    ) -> None:
        self._read, self._tracer, self._store = read, tracer, store
        self._cells = cells
        """Whether it is known which values of a row are meant: it has columns, or one value."""
        self._target, self._inputs, self._known = target, inputs, known_future

    def window(self, index: Index) -> Window | None:
        """The rows of the target and of the inputs of a sample; None if they are none, or too many."""
        low, high = self._outermost(index)
        if not 0 < high - low < MOST_WINDOW:
            return None
        before, moves, reshaped = self._moves(index, range(low, high + 1))
        if self._target not in moves or not moves[self._target].any():
            return None
        own, exact = _target_rows(moves.pop(self._target), low)
        rows = {path: _main_rows(each, low) for path, each in moves.items()}
        known = np.unique(own[own >= 0])
        first = int(known[0])
        columns = self._columns(index, np.arange(low, high + 1))
        if columns is None:
            return None
        names = tuple(self._store.columns[column] for column in columns)
        left = [column for column, name in zip(columns, names, strict=True) if name not in self._known]
        changed: Mapping[str, np.ndarray] = {}
        if left or not columns:
            changed = self._tracer.changes(index, self._store, np.arange(first, high + 1), left or None)
            reshaped |= self._reshaped(index, before, np.arange(first, high + 1), left or None)
        if self._target in reshaped:  # what the rows hold decides which of them are kept
            return None
        rows = {path: own for path, own in rows.items() if path not in reshaped}
        inputs = tuple(self._inputs_of(before, rows, changed, first))
        count, last = len(known), int(known[-1])
        return Window(plain_index(index), self._store.path, self._target, first, last, count, names, exact, inputs)

    def _inputs_of(
        self, before: Values, rows: Values, changed: Mapping[str, np.ndarray], first: int
    ) -> Iterator[InputRows]:
        labels = before[self._target]
        discrete = labels.dtype.kind not in "f" or bool((labels == np.floor(labels)).all())
        for path, own in rows.items():
            known = np.unique(own[own >= 0])
            if len(known):
                reached = changed.get(path, np.zeros(own.shape, bool))
                # A label that is computed of a later row, such as whether it is higher, may not change with that.
                doubtful = discrete or not self._cells
                copied = reached & (own >= first) & (np.isin(before[path], labels) if doubtful else True)
                early = reached & (own < first) & (own >= 0)
                yield InputRows(
                    path, int(known[0]), int(known[-1]), len(known), own.size, int(copied.sum()), int(early.sum())
                )

    def _outermost(self, index: Index) -> tuple[int, int]:
        """The first and the last row on which the target or an input depends."""
        low, high = 0, self._store.count - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._any(index, 0, middle + 1) else (middle + 1, high)
        first, high = low, self._store.count - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._any(index, middle, self._store.count) else (low, middle - 1)
        return first, low

    def _any(self, index: Index, start: int, stop: int) -> bool:
        changed = self._tracer.changes(index, self._store, np.arange(start, stop))
        return any(changed[path].any() for path in (self._target, *self._inputs) if path in changed)

    def _columns(self, index: Index, rows: np.ndarray) -> list[int] | None:
        """The columns of the source on which the target depends; None if they are too many to find."""
        found: list[int] = []
        parts = [list(range(len(self._store.columns)))] if self._store.columns else []
        for _ in range(MOST_TESTED_COLUMNS):
            if not parts:
                return sorted(found)
            part = parts.pop()
            changed = self._tracer.changes(index, self._store, rows, part)
            if self._target in changed and changed[self._target].any():
                halves = [part[: len(part) // 2], part[len(part) // 2 :]]
                found += part if len(part) == 1 else []
                parts += halves if len(part) > 1 else []
        return None

    def _reshaped(self, index: Index, before: Values, rows: np.ndarray, columns: Sequence[int] | None) -> set[str]:
        """The leaves that have another shape if these rows change, so that their positions are other ones."""
        try:
            with self._store.changed(rows, columns):
                after = values_of(self._read(index))
        except Exception:  # noqa: BLE001 - see `_moves`
            return set()
        return {path for path, value in before.items() if path in after and after[path].shape != value.shape}

    def _moves(self, index: Index, window: range) -> tuple[Values, Values, set[str]]:
        """The values of the target and the inputs, by how much each row moves them, and those that it gives a shape."""
        sample = values_of(self._read(index))
        before = {path: value for path, value in sample.items() if path in (self._target, *self._inputs)}
        moves: dict[str, list[np.ndarray]] = {path: [] for path in before}
        reshaped = set[str]()
        forbid_writes()
        for row in window:
            with self._store.changed(np.array([row])):
                try:
                    after = values_of(self._read(index))
                except Exception:  # noqa: BLE001 - what the row holds is no value, but says where others are
                    after = before
                for path, value in before.items():
                    moves[path].append(_moved_by(value, after.get(path)))
                    reshaped |= {path} if path in after and after[path].shape != value.shape else set()
        return before, {path: np.array(each) for path, each in moves.items()}, reshaped


def _moved_by(value: np.ndarray, other: np.ndarray | None) -> np.ndarray:
    """By how much each element changed; 1 if it is no number."""
    if other is None or other.shape != value.shape or value.dtype.kind not in "iuf":
        return differs(value, other).astype(float)
    with np.errstate(all="ignore"):
        moved = np.abs(value.astype(float) - other.astype(float))
    return np.where(np.isfinite(moved), moved, differs(value, other).astype(float))


def _main_rows(moves: np.ndarray, start: int) -> np.ndarray:
    """The row that each value comes from mainly, -1 for none: of several that move it alike, the middle one."""
    most = moves.max(0)
    earliest, latest = _span(moves, _TIE * most)
    return np.where(most > 0, start + (earliest + latest) // 2, -1)


def _target_rows(moves: np.ndarray, start: int) -> tuple[np.ndarray, bool]:
    """The row of each value of a target, and whether each comes from one row only.

    A value of several rows is a difference or mean, up to the last of them; unless the main rows of all positions
    follow each other, as in a window that was normalized.
    """
    most = moves.max(0)
    earliest, latest = _span(moves, _TRACE * most)
    if np.array_equal(earliest[most > 0], latest[most > 0]):
        return np.where(most > 0, start + latest, -1), True
    main = np.where(most > 0, start + moves.argmax(0), -1)
    for axis in range(main.ndim):
        slices = np.moveaxis(main, axis, 0).reshape(main.shape[axis], -1)
        if len(slices) > 2 and (slices == slices[:, :1]).all() and (np.diff(slices[:, 0]) == 1).all():
            return main, False
    return np.where(most > 0, start + latest, -1), False


def _span(moves: np.ndarray, least: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the first and the last row that move each element at least by so much."""
    order = np.arange(len(moves)).reshape([-1, *[1] * (moves.ndim - 1)])
    matter = (moves >= least) & (moves > 0)
    return np.where(matter, order, len(moves)).min(0), np.where(matter, order, -1).max(0)
