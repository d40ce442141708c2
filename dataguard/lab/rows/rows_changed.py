"""The rows on which each position of a sample depends, found by changing rows and reading the sample again.

Rows are changed bit by bit of their number, under the same random state: first those whose bit is 1, then those whose
bit is 0. A position that depends on one row changes in one of each two reads, and these spell its number: 2 log2(n)
reads decode all positions of all leaves. A position that depends on two rows changes in both reads of a bit in which
their numbers differ; that is how it is recognized. (31 reads and 16 ms name 120 positions of a window over 20,000
rows.)

Most datasets advance by as many rows from each index to the next. So the rows of a further sample are guessed: if no
position depends on any other row, which one read shows, only these have to be decoded. Likewise for columns.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset

from dataguard.lab.core.leaves import array_of, is_pillow, iter_leaves
from dataguard.lab.core.records import Index, plain_index
from dataguard.lab.process.write_protection import forbid_writes
from dataguard.lab.rows.origins import NO_ROW, SEVERAL_ROWS, LeafRows, SampleRows
from dataguard.lab.rows.row_changes import Changeable

NARROW_ROWS, NARROW_BYTES = 1 << 12, 1 << 23
"""From so many rows or bytes on, the rows that matter are first narrowed down: to change half of all rows once takes a
millisecond with 8 MB, and decoding does it some forty times."""
BLOCKS, MOST_BLOCKS = 32, 8
"""The blocks of rows that are changed one by one, and how many may matter: with more, a sample depends on all rows."""
MOST_TESTED_COLUMNS = 64
"""The columns of a table that are changed one by one: a read for each."""
MOST_WRONG = 2
"""Wrong guesses of the rows of a sample, a read for each, after which none are made."""

Values = dict[str, np.ndarray]
"""The values of each leaf, by its path."""


def values_of(sample: Any) -> Values:
    """The arrays, images and single values of a sample; strings as arrays of one element.

    They are copies, because a sample may be a view of rows that are changed later.
    """
    return {path: value.copy() for path, leaf in iter_leaves(sample) if (value := _array(leaf)) is not None}


def _array(leaf: Any) -> np.ndarray | None:
    if isinstance(leaf, torch.Tensor | np.ndarray | np.generic | list | tuple) or is_pillow(leaf):
        try:
            array = array_of(leaf)
        except Exception:  # noqa: BLE001 - a tensor type that cannot be converted is left out
            return None
        return array if array.dtype.kind in "biufcSUMm" else None
    if isinstance(leaf, str | bytes | int | float | bool):
        return np.asarray(leaf)
    return None


def inner_index(dataset: Any, index: Index) -> int | None:
    """The index that the innermost dataset gets from subsets around it."""
    while isinstance(dataset, Subset) and isinstance(index, int):
        index, dataset = int(dataset.indices[index]), dataset.dataset
    return index if isinstance(index, int) else None


@dataclass(slots=True)
class _Guesses:
    """The rows of one source that each of the last two samples depends on, by the number of the sample.

    `columns` are those of each leaf, by its path.
    """

    known: deque[tuple[int, np.ndarray]] = field(default_factory=lambda: deque(maxlen=2))
    columns: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    wrong: int = 0

    def rows_of(self, number: int | None, count: int) -> np.ndarray | None:
        """The rows of a further sample, if all advance by one step a sample, as the last two say; None without them."""
        if number is None or not self.known or self.wrong == MOST_WRONG:
            return None
        (last, rows), step = self.known[-1], 1
        if len(self.known) > 1:
            before, earlier = self.known[-2]
            steps = np.unique(rows - earlier).tolist() if len(rows) == len(earlier) else []
            if len(steps) == 1 and last != before and not steps[0] % (last - before):
                step = steps[0] // (last - before)
        return np.unique((rows + step * (number - last)) % count)  # after the last row, some begin again


class RowTracer:
    """Finds the rows on which samples depend.

    `read` returns a sample for an index, always in the same random state. It may raise anything while rows are changed:
    what those rows hold are not values then, but, for example, where other rows begin. `dataset` is what it reads from,
    if that may be a subset.
    """

    def __init__(self, read: Callable[[Index], Any], stores: Sequence[Changeable], dataset: Any = None) -> None:
        self._read = read
        self.stores = stores
        self._dataset = dataset
        self._base: Values = {}
        self._index: Index = None
        self._guesses: dict[str, _Guesses] = defaultdict(_Guesses)

    def trace(self, index: Index) -> SampleRows:
        """The rows of all stores on which the sample with this index depends."""
        self._index = index
        first, base = self._sample(), self._sample()
        if first is None or base is None:
            return SampleRows(plain_index(index), ())
        self._base = base
        unknown = [path for path, value in self._base.items() if not _same(first.get(path), value)]
        for path in unknown:
            del self._base[path]
        leaves: list[LeafRows] = []
        for store in self.stores:
            leaves += self._of_store(store)
        return SampleRows(plain_index(index), tuple(leaves), tuple(unknown))

    def changes(
        self, index: Index, store: Changeable, rows: np.ndarray, columns: Sequence[int] | None = None
    ) -> Values:
        """The elements of each leaf that change if these rows change: arrays of bool; {} if reading raises then."""
        if index != self._index:
            self._index, self._base = index, {}
            self._base = self._sample() or {}
        return self._changed(store, rows, columns) or {}

    def _sample(self) -> Values | None:
        try:
            return values_of(self._read(self._index))
        except Exception:  # noqa: BLE001 - see the class
            return None

    def _changed(self, store: Changeable, rows: np.ndarray, columns: Sequence[int] | None = None) -> Values | None:
        sample = None
        forbid_writes()
        with contextlib.suppress(Exception), store.changed(rows, columns):  # of what refuses it, nothing is known
            sample = self._sample()
        return (
            None if sample is None else {path: differs(value, sample.get(path)) for path, value in self._base.items()}
        )

    def _of_store(self, store: Changeable) -> Iterator[LeafRows]:
        if not store.count:  # a file that was read at the first read only
            return
        rows, reaches = self._guessed(store) or self._narrowed(store)
        codes = self._decoded(store, rows) if len(rows) else None
        if codes is None:
            return
        self._remember(store, codes, reaches)
        columns = self._columns(store, rows) if store.columns else {}
        for path, reached in reaches.items():
            if reached.any():
                axis, by_position = _by_position(np.where(reached, codes[path], NO_ROW))
                yield LeafRows(path, store.path, axis, by_position, columns.get(path, ()))

    def _guessed(self, store: Changeable) -> tuple[np.ndarray, Values] | None:
        """The same as `_narrowed`, by the rows of earlier samples; None if that does not say all rows that matter."""
        guesses = self._guesses[store.path]
        rows = guesses.rows_of(inner_index(self._dataset, self._index), store.count)
        if rows is None:
            return None
        others = np.setdiff1d(np.arange(store.count), rows, assume_unique=True)
        reaches: Values = {}
        for block in [*_blocks(store, others), rows]:
            changed = self._changed(store, block)
            if changed is None or any(one.any() for one in changed.values()) != (block is rows):
                guesses.wrong += 1
                return None
            reaches = changed
        return rows, reaches

    def _remember(self, store: Changeable, codes: Mapping[str, np.ndarray], reaches: Values) -> None:
        """Keep the rows of this sample, to guess those of the next one."""
        number = inner_index(self._dataset, self._index)
        rows = np.unique(np.concatenate([codes[path][reached] for path, reached in reaches.items()]))
        if number is not None and len(rows) and rows[0] >= 0:
            self._guesses[store.path].known.append((number, rows))

    def _narrowed(self, store: Changeable) -> tuple[np.ndarray, Values]:
        """The rows among which are those that matter, and the elements of leaves that depend on them.

        There are none if reading raises, or if too many blocks matter.
        """
        rows, reaches = np.arange(store.count), None
        while reaches is None or is_large(store, len(rows)):
            matter, found = [], {path: np.zeros(value.shape, bool) for path, value in self._base.items()}
            for block in _blocks(store, rows):
                changed = self._changed(store, block)
                if changed is None:
                    return rows[:0], {}
                if any(one.any() for one in changed.values()):
                    matter.append(block)
                    found = {path: found[path] | one for path, one in changed.items()}
            if not 0 < len(matter) <= MOST_BLOCKS:
                return rows[:0], {}
            rows, reaches = np.concatenate(matter), reaches or found
            if len(rows) <= BLOCKS:
                break
        return rows, reaches

    def _decoded(self, store: Changeable, rows: np.ndarray) -> Mapping[str, np.ndarray] | None:
        """For each element of each leaf that depends on these rows, which one, or `SEVERAL_ROWS`; see the module."""
        if len(rows) == 1:
            return {path: np.full(value.shape, rows[0]) for path, value in self._base.items()}
        places = np.arange(len(rows))
        codes = {path: np.zeros(value.shape, np.int64) for path, value in self._base.items()}
        several = {path: np.zeros(value.shape, bool) for path, value in self._base.items()}
        for bit in range(max(len(rows) - 1, 1).bit_length()):
            is_set = (places >> bit & 1).astype(bool)
            ones, zeros = self._changed(store, rows[is_set]), self._changed(store, rows[~is_set])
            if ones is None or zeros is None:
                return None
            for path in codes:
                codes[path] |= ones[path].astype(np.int64) << bit
                several[path] |= ones[path] == zeros[path]  # both, or neither: what two rows change may cancel out
        return {
            path: np.where(several[path] | (code >= len(rows)), SEVERAL_ROWS, rows[np.minimum(code, len(rows) - 1)])
            for path, code in codes.items()
        }

    def _columns(self, store: Changeable, rows: np.ndarray) -> Mapping[str, tuple[int, ...]]:
        """The columns of a table on which each leaf depends."""
        count, guesses = len(store.columns), self._guesses[store.path]
        if self._are_all(store, rows, guesses.columns):
            return guesses.columns
        found: dict[str, list[int]] = {}
        for column in range(count) if count <= MOST_TESTED_COLUMNS else ():
            for path, changed in (self._changed(store, rows, [column]) or {}).items():
                if changed.any():
                    found.setdefault(path, []).append(column)
        guesses.columns = {path: tuple(columns) for path, columns in found.items()}
        return guesses.columns

    def _are_all(self, store: Changeable, rows: np.ndarray, columns: Mapping[str, Sequence[int]]) -> bool:
        """Whether no leaf depends on other columns than these, which an earlier sample depends on."""
        for own in set(columns.values()):
            others = sorted({*range(len(store.columns))}.difference(own))
            changed = self._changed(store, rows, others) if others else {}
            if changed is None or any(one.any() for path, one in changed.items() if columns.get(path, own) == own):
                return False
        return bool(columns)


def is_large(store: Changeable, rows: int) -> bool:
    """Whether so many rows are too many, or too large, to be changed again and again."""
    return rows > NARROW_ROWS or store.bytes * rows / store.count > NARROW_BYTES


def _blocks(store: Changeable, rows: np.ndarray) -> list[np.ndarray]:
    """Rows in blocks that can be changed again and again."""
    return np.array_split(rows, BLOCKS) if is_large(store, len(rows)) and len(rows) > BLOCKS else [rows]


def _same(one: np.ndarray | None, other: np.ndarray) -> bool:
    return one is not None and not differs(other, one).any()


def differs(value: np.ndarray, other: np.ndarray | None) -> np.ndarray:
    """Which elements differ: all, if the shapes do."""
    if other is None or other.shape != value.shape:
        return np.ones(value.shape, bool)
    with contextlib.suppress(TypeError):
        return np.asarray((value != other) & ~((value != value) & (other != other)))
    return np.asarray(value != other)


def _by_position(codes: np.ndarray) -> tuple[int | None, tuple[int, ...]]:
    """The axis along which rows differ, and the row of each position there; no axis if all elements have one row.

    Several rows for one position, of its elements or of each of them, are `SEVERAL_ROWS`.
    """
    known = np.unique(codes[codes != NO_ROW])
    if len(known) <= 1 or not codes.ndim:
        return None, (int(known[0]) if len(known) else NO_ROW,)
    best: tuple[int, int, tuple[int, ...]] | None = None
    for axis in range(codes.ndim):
        slices = np.moveaxis(codes, axis, 0).reshape(codes.shape[axis], -1)
        rows = tuple(_single(part) for part in slices)
        exact = sum(row >= 0 for row in rows)
        if best is None or exact > best[0]:
            best = exact, axis, rows
    assert best is not None  # it has an axis
    exact, axis, rows = best
    return (axis, rows) if exact else (None, (SEVERAL_ROWS,))


def _single(codes: np.ndarray) -> int:
    rows = np.unique(codes[codes != NO_ROW])
    if not len(rows):
        return NO_ROW
    return int(rows[0]) if len(rows) == 1 else SEVERAL_ROWS
