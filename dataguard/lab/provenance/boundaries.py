"""Samples that hold rows of two groups, such as episodes, recordings or files.

Few samples cross the end of a group, so they are searched for: every other group is changed and then the rest, and a
sample that depends on both holds rows of two. Between two samples of different groups, bisection over the index finds
one in which they meet: 20 samples, where 10,000 lie between. The same is done with the names of files and members of
files that samples are read from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from dataguard.core.leaf_paths import key_of
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.records import Index
from dataguard.lab.process.write_protection import forbid_writes
from dataguard.lab.provenance.reads_seen import ReadLog, trace_reads
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.origins import SEVERAL_ROWS, LeafRows
from dataguard.lab.rows.row_groups import FileColumns, GroupStore, RowGroups, find_groups, median_length, words_of
from dataguard.lab.rows.rows_changed import RowTracer, Values, differs, values_of
from dataguard.lab.rows.stores import FIRST_AXES, Axes

SPREAD, GOLDEN = 16, 0.618034
"""Samples that say how many groups an ordinary one holds, and the step between them as a share of all: even steps may
be as long as a group, so that each of them is near an end or none is."""
SEARCHED, MOST_CROSSING = 6, 2
"""Ends of groups that are searched, and samples across them that are looked at closer."""
NEIGHBOURS = 6
"""Pairs of neighbouring samples that say whether samples share files."""
LARGE, LARGE_PARTS = 1 << 23, 8
"""From so many bytes on, to change them takes longer than to read a few samples: then more are read each time."""
NEAR = 3
"""How far from the end of a group samples are looked at that may be padded, beside the last of each group."""
ORDINARY = 5
"""Samples that say which value a flag usually has."""
SEARCH_READS = 600
"""About how many reads a search takes: 3 for each of 16 samples, and of 6 by log2(n) steps, and 60 for each row."""
MASK_WORDS = frozenset(["mask", "masks", "pad", "padding", "padded", "valid"])
"""What a leaf that says which rows are padding is named after."""
_FLAG_WORDS = MASK_WORDS | {
    *("done", "dones", "terminal", "terminals", "terminated", "truncated", "discount", "discounts", "last")
}
"""What a single value is named after that says that the next row belongs to another group."""


@dataclass(frozen=True, slots=True)
class CrossingSample:
    """A sample that holds rows of two groups, `before` and `after` (rows, or names of files).

    `positions` are how many positions of the leaf `path` come from either; None if leaves come from one each. `marks`
    are leaves that show where the second group begins, such as a mask or the numbers of episodes.
    """

    index: Index
    before: int | str
    after: int | str
    path: str
    positions: tuple[int, int] | None = None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """Positions of a leaf that hold rows of the source, though a mask says that they are padding, as in no full sample.

    `rows` are the rows in these positions.
    """

    index: Index
    path: str
    mask: str
    source: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupSearch:
    """What was found at the ends of groups.

    `named` is what says where groups begin, `count` how many there are, `length` the rows of the median one (0 for
    files). Of `spread` samples, evenly spaced, `spread_crossing` hold rows of two groups.
    """

    named: str
    source: str
    count: int
    length: int
    spread: int
    spread_crossing: int
    searched: int = 0
    crossing: tuple[CrossingSample, ...] = ()
    hidden: tuple[HiddenRows, ...] = ()


Mark = frozenset[Any]
"""The groups of which a sample holds rows, or their parity."""
Marks = Callable[[Sequence[Index]], list[Mark]]


@dataclass(frozen=True, slots=True)
class _Found:
    """Positions in the order of indices of samples that hold two groups, and pairs of neighbours of one group each."""

    spread: int
    spread_crossing: int
    crossing: tuple[int, ...] = ()
    apart: tuple[tuple[int, int], ...] = ()
    read: int = 0


def search(order: Sequence[Index], marks: Marks, parts: int = 2) -> _Found:
    """Look for samples of two groups between evenly spaced samples of different ones, by dividing what is between."""
    places = _places(len(order), SPREAD)
    known = dict(zip(places, marks([order[place] for place in places]), strict=True))
    crossing = [place for place in places if len(known[place]) > 1]
    if 3 * len(crossing) > len(places):  # then it is how samples are made
        return _Found(len(places), len(crossing), read=len(places))
    single = [place for place in places if len(known[place]) == 1]
    pairs = evenly([pair for pair in pairwise(single) if known[pair[0]] != known[pair[1]]], SEARCHED)
    found = list(crossing)
    apart: list[tuple[int, int]] = []
    while pairs:
        inner = [[low + (high - low) * part // parts for part in range(1, parts)] for low, high in pairs]
        wanted = sorted({place for each in inner for place in each} - known.keys())
        known |= dict(zip(wanted, marks([order[place] for place in wanted]), strict=True))
        left = []
        for (low, high), between in zip(pairs, inner, strict=True):
            found += [place for place in between if len(known[place]) > 1]
            if any(len(known[place]) > 1 for place in between):
                continue
            rest = [low, *(place for place in between if known[place]), high]
            pair = next(pair for pair in pairwise(rest) if known[pair[0]] != known[pair[1]])
            if pair[1] - pair[0] == 1:
                apart.append(pair)
            elif pair != (low, high):
                left.append(pair)
        pairs = left
    return _Found(len(places), len(crossing), tuple(dict.fromkeys(found)), tuple(apart), len(known))


def _places(length: int, count: int) -> list[int]:
    return sorted({int(length * (number * GOLDEN % 1)) for number in range(count)})


def find_crossings(
    reader: Reader,
    drawn: Collection[Index],
    declared: str | None,
    axes: Axes = FIRST_AXES,
    *,
    affordable: bool,
    files: Sequence[FileColumns] = (),
) -> tuple[GroupSearch, ...] | None:
    """Search at the ends of all groups that a dataset holds, and of files; None if there are some, but not the time.

    `drawn` are the indices of an epoch, and `axes` those of the rows of the arrays that the dataset holds. `files` may
    name the groups of these rows; then those of files are not searched.
    """
    order = sorted(one for one in drawn if isinstance(one, int))
    if len(order) < SPREAD:
        return ()
    reader.read(order[0])  # so that what is cached at the first read is held
    groups = find_groups(reader.dataset, declared, axes, files)
    if groups and not affordable:
        return None
    found = [_GroupSearcher(reader, one).search(order) for one in groups]
    return (*found, *(_of_files(reader, order) if affordable and not files else ()))


class _GroupSearcher:
    """Searches at the ends of the groups of one dataset."""

    def __init__(self, reader: Reader, groups: RowGroups) -> None:
        self._reader, self._groups = reader, groups
        self._store = GroupStore(groups)
        self._tracer = RowTracer(reader.read, [self._store])
        self._rows = RowTracer(reader.read, groups.stores)
        self._flags = cache(self._flags_of)  # each takes a read, and is asked for twice
        self._ordinary: Sequence[Index] = ()
        self._usual = cache(lambda: [self._values(index) or {} for index in self._ordinary])

    def search(self, order: Sequence[Index]) -> GroupSearch:
        """Find samples of two groups, and rows that a mask hides near the ends of groups."""
        self._ordinary = [order[place] for place in _places(len(order), ORDINARY)]
        parts = LARGE_PARTS if self._store.bytes > LARGE else 2
        found, groups = search(order, self._parities, parts), self._groups
        looked = found.crossing[:MOST_CROSSING]
        if self._all_flagged(order, looked):  # other ends of groups may have no flag
            looked += tuple(place for place in found.crossing[MOST_CROSSING:] if not self._flags(order[place]))[:1]
        crossing = [one for place in looked if (one := self._crossing(order[place])) is not None]
        near = [place for low, high in found.apart[:2] for place in (low - NEAR, low, high, high + NEAR)]
        return GroupSearch(
            groups.named,
            groups.stores[0].path,
            len(groups.starts),
            median_length(groups),
            found.spread,
            found.spread_crossing,
            found.read,
            tuple(crossing),
            tuple(self._hidden([order[min(max(place, 0), len(order) - 1)] for place in near], evenly(order, SPREAD))),
        )

    def _all_flagged(self, order: Sequence[Index], places: Sequence[int]) -> bool:
        return bool(places) and all(self._flags(order[place]) for place in places)

    def _parities(self, indices: Sequence[Index]) -> list[Mark]:
        """Of groups of which parity each sample holds rows; of neither, if reading raises while they are changed."""
        before = [self._values(index) for index in indices]
        marks: list[set[int]] = [set() for _ in indices]
        forbid_writes()
        for parity in (0, 1):
            with self._store.changed(np.arange(parity, self._store.count, 2)):
                after = [self._values(index) for index in indices]
            for mark, old, new in zip(marks, before, after, strict=True):
                if old is not None and new is not None and _changed(old, new):
                    mark.add(parity)
        return [frozenset(mark) for mark in marks]

    def _values(self, index: Index) -> Values | None:
        try:
            return values_of(self._reader.read(index))
        except Exception:  # noqa: BLE001 - what a row holds may be no value, but say where others begin
            return None

    def _crossing(self, index: Index) -> CrossingSample | None:
        """The ends of the two groups of which a sample holds rows, if one follows the other."""
        leaves = self._tracer.trace(index).leaves
        known = {row for leaf in leaves for row in leaf.rows if row >= 0}
        blurred = any(SEVERAL_ROWS in leaf.rows for leaf in leaves)
        first, last = self._outermost(index) if blurred or not known else (min(known), max(known))
        if last - first != 1:
            return None
        end = int(self._groups.starts[last])
        if not self._groups.entries and not all(self._depends(index, row) for row in (end - 1, end)):
            return None  # partners that were chosen, and no series that runs on
        values = self._values(index) or {}
        for leaf in leaves:
            sides = np.array([row - first if row >= 0 else -1 for row in leaf.rows])
            if leaf.axis is not None and _are_runs(sides):
                both = _both_sides(leaf, sides, values)
                if self._groups.entries:
                    path = self._groups.stores[0].path
                    return CrossingSample(index, f"{path}[{first}]", f"{path}[{last}]", leaf.path, *both)
                return CrossingSample(index, end - 1, end, leaf.path, *both)
        if self._groups.entries or not leaves:
            return None
        path = next((leaf.path for leaf in leaves if last in leaf.rows), leaves[0].path)
        return CrossingSample(index, end - 1, end, path, None, self._flags(index))

    def _outermost(self, index: Index) -> tuple[int, int]:
        """The first and the last group on which a sample depends."""
        count = self._store.count
        low, high = 0, count - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._any(index, 0, middle + 1) else (middle + 1, high)
        first, high = low, count - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._any(index, middle, count) else (low, middle - 1)
        return first, low

    def _any(self, index: Index, start: int, stop: int) -> bool:
        changed = self._tracer.changes(index, self._store, np.arange(start, stop))
        return any(one.any() for one in changed.values())

    def _depends(self, index: Index, row: int) -> bool:
        stores = self._groups.stores
        return any(one.any() for store in stores for one in self._rows.changes(index, store, np.array([row])).values())

    def _flags_of(self, index: Index) -> tuple[str, ...]:
        """Single values that are named after the end of a group, and differ from those of most samples.

        The sample before may be near the same end: of several steps until the reward, some end there.
        """
        values = self._values(index) or {}
        named = [one for one in values if values[one].size == 1 and _FLAG_WORDS & set(words_of(key_of(one)))]
        usual = self._usual() if named else []
        return tuple(
            path
            for path in named
            if 2 * sum(_changed({path: values[path]}, {path: other[path]}) for other in usual if path in other)
            > len(usual)
        )

    def _hidden(self, near: Sequence[Index], ordinary: Sequence[Index]) -> list[HiddenRows]:
        """Rows that a mask hides in samples near the ends of groups, and in no sample without padding."""
        masks = [path for path, one in (self._values(ordinary[0]) or {}).items() if _is_mask(path, one)]
        if not masks:
            return []
        traced = [(self._values(index) or {}, self._rows.trace(index).leaves) for index in ordinary[1:-1][:3]]
        levels = {
            (leaf.path, mask): {float(value) for value in values[mask].ravel()}
            for values, leaves in traced
            for leaf in leaves
            for mask in masks
            if mask in values and leaf.exact and len(set(leaf.rows)) == len(leaf.rows) == values[mask].size > 1
        }
        shown = {pair: next(iter(values)) for pair, values in levels.items() if len(values) == 1}
        found = []
        for index in dict.fromkeys(near) if shown else ():
            values = self._values(index) or {}
            for leaf in self._rows.trace(index).leaves:
                for mask in masks:
                    if (leaf.path, mask) in shown and mask in values and values[mask].size == len(leaf.rows):
                        hidden = self._rows_hidden(leaf, values[mask].ravel() != shown[leaf.path, mask])
                        found += [HiddenRows(index, leaf.path, mask, leaf.source, hidden)] if hidden else []
        return found

    def _rows_hidden(self, leaf: LeafRows, masked: np.ndarray) -> tuple[int, ...]:
        """The rows that stand in hidden positions only, if the sample holds those of one group."""
        rows = np.array(leaf.rows)
        groups = set(np.searchsorted(self._groups.starts, rows[rows >= 0], "right").tolist())
        shown = set(rows[~masked].tolist())
        return tuple(int(row) for row in np.unique(rows[rows >= 0]) if row not in shown) if len(groups) == 1 else ()


def _changed(old: Values, new: Values) -> bool:
    return any(differs(value, new.get(path)).any() for path, value in old.items())


def _are_runs(sides: np.ndarray) -> bool:
    """Whether positions of the one side are followed by those of the other, whatever belongs to neither."""
    known = sides[sides >= 0]
    return bool(len(known)) and known[0] == 0 and known[-1] == 1 and int(np.abs(np.diff(known)).sum()) == 1


def _both_sides(leaf: LeafRows, sides: np.ndarray, values: Values) -> tuple[tuple[int, int], tuple[str, ...]]:
    """How many positions of a leaf are on either side, and the leaves that show where the second one begins."""
    marks = tuple(path for path, value in values.items() if path != leaf.path and _marks(path, value, sides))
    return (int((sides == 0).sum()), int((sides == 1).sum())), marks


def _is_mask(path: str, value: np.ndarray) -> bool:
    return value.size > 1 and value.dtype.kind in "biuf" and bool(MASK_WORDS & set(words_of(key_of(path))))


def _marks(path: str, value: np.ndarray, sides: np.ndarray) -> bool:
    """Whether a leaf shows where the second group begins: by values, a flag, positions or a square mask."""
    own, other = sides == 0, sides == 1
    if value.shape == (len(sides),) * 2 and value.dtype.kind in "biuf":
        across = np.unique(value[own][:, other])
        return len(across) == 1 and bool((value[own][:, own] != across[0]).any())
    if value.size != len(sides) or value.dtype.kind not in "biufSU":
        return False
    value = value.ravel()
    end = int(np.flatnonzero(own)[-1])
    if "position" in key_of(path) and value.dtype.kind in "iuf":
        return bool(np.diff(value.astype(float))[end] < 0)
    parts = np.unique(value[own]), np.unique(value[other])
    if len(parts[0]) == len(parts[1]) == 1 and parts[0][0] != parts[1][0]:
        return True
    if len(np.unique(value)) != 2:
        return False
    return any(np.all(np.delete(value, place) != value[place]) for place in (end, int(np.flatnonzero(other)[0])))


def _of_files(reader: Reader, order: Sequence[Index]) -> list[GroupSearch]:
    """Search samples that are read from two files, or members of a file, where others are read from one."""
    log = ReadLog()

    def sources(index: Index, draw: int = 0) -> frozenset[str]:
        with log.recorded():
            try:
                reader.read(index, draw)
            except Exception:  # noqa: BLE001 - it is reported as what does not run
                return frozenset()
        return frozenset(read.source for read in log.reads if read.changeable)

    first = [sources(index) for index in evenly(order, SPREAD)]
    counts = Counter(role for one in first for role, count in Counter(map(_role, one)).items() if count == 1)
    usual = [role for role, count in counts.items() if 3 * count >= 2 * len(first)]
    names = {role: {one for each in first for one in each if _role(one) == role} for role in usual}
    role = next((role for role in usual if len(names[role]) > 1), None)
    if role is None:
        return []

    def marks(indices: Sequence[Index], draw: int = 0) -> list[Mark]:
        return [frozenset(one for one in sources(index, draw) if _role(one) == role) for index in indices]

    places = evenly(range(len(order) - 1), NEIGHBOURS)
    pairs = [marks([order[place], order[place + 1]]) for place in places]
    if 2 * sum(bool(one & other) for one, other in pairs) <= len(pairs):
        return []  # each sample has files of its own
    found = search(order, marks)
    steady = [
        order[place] for place in found.crossing[:MOST_CROSSING] if marks([order[place]]) == marks([order[place]], 1)
    ]
    crossing = tuple(one for index in steady for one in _across_files(reader, log, index, role))
    return [GroupSearch(role, role, len(names[role]), 0, found.spread, found.spread_crossing, found.read, crossing)]


def _role(source: str) -> str:
    """The source without its numbers, which are those of groups."""
    return re.sub(r"\d+", "*", source)


def _across_files(reader: Reader, log: ReadLog, index: Index, role: str) -> list[CrossingSample]:
    """The leaf of a sample whose positions come from one source and then from the next."""
    values, units, leaves = trace_reads(reader, log, index)
    for leaf in leaves:
        names = [units[row].source if 0 <= row < len(units) else "" for row in leaf.rows]
        own = list(dict.fromkeys(name for name in names if name and _role(name) == role))
        sides = np.array([own.index(name) if name in own else -1 for name in names])
        if leaf.axis is not None and len(own) == 2 and _are_runs(sides):
            return [CrossingSample(index, own[0], own[1], leaf.path, *_both_sides(leaf, sides, values))]
    return []
