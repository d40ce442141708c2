"""What training samples become if rows that only evaluation uses are changed before the factory runs.

A scaler, a mean or a vocabulary that was fitted on them changes every training sample; one that was fitted on training
rows changes none. The factory is called four times: as it is; again, to see that it returns the same; with each row of
what it loads numbered, to see which rows each split uses; and with the rows changed that only evaluation uses. If
reading changes rows where they are stored, it is called once more, and samples are read from copies of the dataset.

Rows are numbered by what survives a scaler: the values of a column become the row's number modulo a few dozen, evenly
spaced within the range of the column. A scaler moves and stretches them, and their rank still spells the remainder.
Columns with coprime moduli spell the number (Chinese remainder theorem), and each is recognized by how many values it
has.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.core.incident import LoaderFailed
from dataguard.lab.core.leaves import array_of
from dataguard.lab.core.records import Index
from dataguard.lab.process.write_protection import WriteRefused, forbid_writes
from dataguard.lab.provenance.altered_values import altered
from dataguard.lab.provenance.reads_seen import ReadLog
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.origins import Read, Refit
from dataguard.lab.rows.row_changes import Store
from dataguard.lab.rows.rows_changed import RowTracer, Values, inner_index, values_of
from dataguard.lab.rows.stores import held_stores, is_data_frame
from dataguard.process.process_tree import undisturbed_seconds
from dataguard.targets.variants import Loader

MOST_POSITIONS = 0.9
"""The share of the values of a leaf that lie on a line: others may be clipped, or rounded."""
COMPARED_SAMPLES = 24
"""Training samples that are read. A line through so many points is not a coincidence. If the factory sorts rows by the
values that number them, a quarter of the changed rows may be training rows: 1 in 1000 sets of 24 samples shows none."""
LINE_TOLERANCE = 1e-3
"""How far from that line a value may lie, relative to their deviation: what float32 and 8-bit pixels round."""
FEWEST_POINTS = 3
"""Values through which a line is no coincidence."""
FEWEST_FILLED = 3
"""Cells of a column that hold the value of a filled gap: so many rows do not agree by chance."""
RULE_SAMPLES = 3
"""Samples of each split from which it is learned which rows an index reads."""
FEWEST_ROWS = 24
"""Rows of a table from which on it may be what is split."""
FACTORY_CALLS = 4
"""How often the factory is called: see the module."""
LEAST_MODULUS, MOST_DIGITS = 7, 5
"""A column of fewer values may be a class; five columns number 16,807 rows with the least moduli, and 10^7 with 26."""
BEYOND = 5.0
"""By how many ranges of its column a row is changed: no statistic of the column stays as it is then."""

Build = Callable[[bool], tuple[Loader, Loader]]
"""Calls the factory, for the loaders of training and of evaluation, with newly imported modules or not."""


def unknown(reason: str) -> Refit:
    """Nothing was compared, for this reason."""
    return Refit(reason=reason)


def find_refit(
    build: Build,
    folder: Path,
    indices: tuple[Sequence[Index], Sequence[Index]],
    reads: tuple[frozenset[Read], frozenset[Read]],
    seconds: float,
) -> Refit:
    """Change what only evaluation uses, and compare training samples.

    `indices` and `reads` are those of training and of evaluation: all indices of an epoch, and what some samples read.
    All calls of the factory take so many `seconds` at most. Those that change what it loads may write no file.
    """
    log, first = ReadLog(), indices[0][:: max(len(indices[0]) // COMPARED_SAMPLES, 1)]
    compared = first[:COMPARED_SAMPLES]
    loaded = Loaded(log, build)
    started = undisturbed_seconds()
    train = loaded.built()[0]
    if not loaded.reads and not loaded.tables:  # modules may have loaded it at import
        loaded.imports = True
        train = loaded.built()[0]
    own = frozenset(loaded.reads) & (reads[1] - reads[0])
    if not own and not loaded.tables:
        return unknown("the factory loads no table, and reads no file of an evaluation sample")
    base = samples_of(train, folder, compared)
    if (undisturbed_seconds() - started) * FACTORY_CALLS > seconds:
        return unknown("the factory takes too long to be called four times")
    read = samples_of
    if _changed_leaves(samples_of(train, folder, compared[:1]), base):  # reading changes the rows
        read = _samples_of_copies
        base = read(loaded.built()[0], folder, compared)
    if _changed_leaves(base, read(loaded.built()[0], folder, compared)):
        return unknown("the factory returns other samples when it is called again")
    forbid_writes()
    try:
        rows = _evaluation_rows(loaded, folder, indices) if loaded.tables and not own else {}
        if not own and not any(map(len, rows.values())):
            return unknown("which rows of a table each split uses cannot be followed")
        train = loaded.built(lambda number, read, value: _changed(value, rows.get(number), read, own))[0]
    except (LoaderFailed, WriteRefused):
        return unknown("the factory writes files, or fails on changed values")
    after = read(train, folder, compared)
    leaves = _changed_leaves(base, after)
    how = next((how for how in CHANGES if any(CHANGES[how](base, after, path) for path in leaves)), None)
    if leaves and how is None:
        return unknown("training samples change with evaluation rows, and not as a scaler or a filled gap does")
    if not leaves and rows and (undisturbed_seconds() - started) * 2 <= seconds:
        with contextlib.suppress(LoaderFailed, WriteRefused):
            train = loaded.built(lambda number, read, value: _dealt(value, rows.get(number)))[0]
            dealt = read(train, folder, compared)
            coded = tuple(path for path in _changed_leaves(base, dealt) if _is_coded(base, dealt, path))
            after, leaves, how = (dealt, coded, CODED) if coded else (after, leaves, how)
    source = (
        min(read.source for read in own)
        if own
        else loaded.tables[max(rows, key=lambda number: len(rows[number]))].source
    )
    changed = [index for index in compared if _changed_leaves({index: base[index]}, after)]
    count = len(own) or sum(map(len, {loaded.tables[number]: one for number, one in rows.items()}.values()))
    files = sum(not read.rows for read in own)
    return Refit(source, count, files, len(changed), len(compared), next(iter(changed), None), leaves, how=how or "")


Samples = dict[Index, Values]


def samples_of(loader: Loader, folder: Path, indices: Sequence[Index]) -> Samples:
    """The values of the leaves of samples. Raises LoaderRaised."""
    reader = Reader(loader, folder)
    return {index: values_of(reader.read(index)) for index in indices}


def _samples_of_copies(loader: Loader, folder: Path, indices: Sequence[Index]) -> Samples:
    """The same, each sample read from a copy of the dataset, if it can be copied."""
    reader, found = Reader(loader, folder), {}
    for index in indices:
        reader.dataset = copied(loader.dataset) or loader.dataset
        found[index] = values_of(reader.read(index))
    return found


def _changed_leaves(base: Samples, after: Samples) -> tuple[str, ...]:
    """The leaves that differ in any of these samples."""
    changed = [
        path for index, leaves in base.items() for path in leaves if not are_equal(leaves[path], after[index].get(path))
    ]
    return tuple(dict.fromkeys(changed))


def are_equal(one: np.ndarray, other: np.ndarray | None) -> bool:
    """Whether two leaves hold the same values."""
    return other is not None and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def _is_rescaled(base: Samples, after: Samples, path: str) -> bool:
    """Whether nearly all values of a leaf that changed are moved and stretched alike in all samples, as a scaler does.

    Samples that were exchanged for others, because the factory sorts or selects rows by their values, are not.
    """
    pairs = [(leaves[path], after[index].get(path)) for index, leaves in base.items() if path in leaves]
    if (
        len({value.shape for pair in pairs for value in pair if value is not None}) != 1
        or pairs[0][0].dtype.kind != "f"
    ):
        return False
    one, two = (np.array([pair[side] for pair in pairs], np.float64).reshape(len(pairs), -1) for side in (0, 1))
    usable = np.isfinite(one).all(0) & np.isfinite(two).all(0) & (one != two).any(0) & (one.std(0) > 0)
    on_line = [_is_moved(own, other) for own, other in zip(one[:, usable].T, two[:, usable].T, strict=True)]
    return bool(on_line) and float(np.mean(on_line)) > MOST_POSITIONS


def _is_moved(own: np.ndarray, other: np.ndarray) -> bool:
    """Whether the values of a column are moved and stretched alike, but for those of gaps, which became one value."""
    values, times = np.unique(own, return_counts=True)
    gaps = own == values[times.argmax()]
    if times.max() > 1 and len(values) > FEWEST_POINTS and len(set(other[gaps])) == 1:
        own, other = own[~gaps], other[~gaps]
    centred, moved = own - own.mean(), other - other.mean()
    slope = (centred * moved).sum() / (centred**2).sum()
    return bool(np.abs(moved - slope * centred).max() < LINE_TOLERANCE * max(np.abs(moved).max(), 1e-12))


def _is_filled(base: Samples, after: Samples, path: str) -> bool:
    """Whether one value of a column became another one wherever it stood, as what fills gaps does, and nothing else."""
    pairs = [(leaves[path], after[index].get(path)) for index, leaves in base.items() if path in leaves]
    if len({value.shape for pair in pairs for value in pair if value is not None}) != 1 or not pairs[0][0].ndim:
        return False
    one, two = (np.array([pair[side] for pair in pairs]).reshape(-1, pairs[0][0].shape[-1]) for side in (0, 1))
    most = 0
    for own, other in zip(one.T, two.T, strict=True):
        changed = own != other
        if not changed.any():
            continue
        if len(set(own[changed])) > 1 or len(set(other[changed])) > 1 or (own[~changed] == own[changed][0]).any():
            return False
        most = max(most, int(changed.sum()))
    return FEWEST_FILLED <= most < len(one)


def _is_coded(base: Samples, after: Samples, path: str) -> bool:
    """Whether each value of some columns became another one wherever it stood, as codes of categories do.

    Others stay as they are, so that these are the same samples.
    """
    pairs = [(leaves[path], after[index].get(path)) for index, leaves in base.items() if path in leaves]
    if len({value.shape for pair in pairs for value in pair if value is not None}) != 1 or not pairs[0][0].ndim:
        return False
    one, two = (np.array([pair[side] for pair in pairs]).reshape(-1, pairs[0][0].shape[-1]) for side in (0, 1))
    changed = [(own, other) for own, other in zip(one.T, two.T, strict=True) if (own != other).any()]
    same = [own for own, other in zip(one.T, two.T, strict=True) if (own == other).all()]
    if not changed or not any(len(set(own)) > len(own) // 2 for own in same):
        return False
    for own, other in changed:
        codes = len(set(own))
        if not 1 < codes <= len(own) // 2 or len(set(zip(own, other, strict=True))) > codes:
            return False
    return True


CODED = "each value of a column becomes another one, as the mean of a target by category does"
CHANGES: Mapping[str, Callable[[Samples, Samples, str], bool]] = {
    "one value of a column becomes another one, as what fills gaps does": _is_filled,
    "alike in all samples, as a scaler moves and stretches them": _is_rescaled,
    CODED: _is_coded,
}
"""How training samples change with what was fitted on evaluation rows."""


def _changed(value: Any, rows: np.ndarray | None, read: Read, own: frozenset[Read]) -> Any:
    """What was loaded, with those rows changed that only evaluation uses, or all of it if it is such a read."""
    if read in own:
        return altered(value, None)
    inner = [row for row, unit in enumerate(read.units) if unit in own]
    if inner:
        return altered(value, np.array(inner), axis=read.axis)
    return value if rows is None else with_columns(value, lambda column, _: moved_far(column, rows))


def moved_far(column: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """A column, in place, in which these rows lie beyond all others."""
    finite = column[np.isfinite(column)]
    if not len(finite):
        return column
    column[rows] += BEYOND * max(float(np.ptp(finite)), 1.0)
    return column


def _dealt(value: Any, rows: np.ndarray | None) -> Any:
    """A table in which the classes and categories of these rows are in another order, each column in one of its own."""
    if rows is None or not is_data_frame(value) or not hasattr(value, "iloc"):
        return value
    dealt = {}
    for number, name in enumerate(value.columns):
        column = value[name]
        if isinstance(name, str) and not is_float(column) and 1 < column.nunique() <= MOST_CATEGORIES:
            values = column.to_numpy().copy()
            values[rows] = values[np.random.default_rng(number).permutation(rows)]
            dealt[name] = type(column)(values, index=column.index).astype(column.dtype)
    return value.assign(**dealt)


MOST_CATEGORIES = 64
"""Values of a column up to which they may be classes or categories."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that the factory loads, perhaps once for each split: where from, its rows and columns of floats."""

    source: str
    rows: int
    columns: int


Exchange = Callable[[int, Read, Any], Any]
"""Returns what the factory gets in place of what it loads: the number of the load, the read, and the value."""


@dataclass(slots=True)
class Loaded:
    """Calls the factory, and keeps what it loads: its reads, and tables by the number of the load."""

    log: ReadLog
    build: Build
    imports: bool = False
    reads: list[Read] = field(default_factory=list)
    tables: dict[int, Table] = field(default_factory=dict)

    def built(self, exchange: Exchange | None = None) -> tuple[Loader, Loader]:
        """The loaders, built from what `exchange` makes of what is loaded. Raises LoaderRaised."""
        self.tables.clear()
        number = -1

        def loaded(read: Read, value: Any) -> Any:
            nonlocal number
            number += 1
            rows, columns = shape_of(value)
            if rows >= FEWEST_ROWS and columns:
                self.tables[number] = Table(read.source, rows, columns)
            return value if exchange is None else exchange(number, read, value)

        self.log.exchange = loaded
        try:
            with self.log.recorded():
                loaders = self.build(self.imports)
        finally:
            self.log.exchange = None
        self.reads = self.log.units
        return loaders


def _evaluation_rows(
    loaded: Loaded, folder: Path, indices: tuple[Sequence[Index], Sequence[Index]]
) -> dict[int, np.ndarray]:
    """The rows of each table that evaluation uses and training does not, by the number of the load."""
    tables = dict(loaded.tables)
    distinct = dict.fromkeys(tables.values())
    *firsts, total = np.cumsum([0, *(table.rows for table in distinct)]).tolist()
    starts = dict(zip(distinct, firsts, strict=True))
    moduli = moduli_for(total, min(table.columns for table in distinct))

    def numbered(number: int, read: Read, value: Any) -> Any:
        del read
        if number not in tables:
            return value
        rows = starts[tables[number]] + np.arange(tables[number].rows)
        return with_columns(value, lambda column, at: _digits(column, rows, moduli[at]) if at < len(moduli) else column)

    try:
        loaders = loaded.built(numbered)
    except LoaderFailed:  # the values of a column mean something to the factory
        return {}
    held = [_numbers(loader.dataset) for loader in loaders]
    train, evaluation = (
        _used_rows(loader, folder, wanted, moduli, beside)
        for loader, wanted, beside in zip(loaders, indices, reversed(held), strict=True)
    )
    if train is None or evaluation is None:
        return {}
    # A series may be cut between two windows: what lies so close to a training row may have been fitted on.
    near = np.add.outer(train.rows, np.arange(1 - train.span, train.span)).reshape(-1)
    only = np.setdiff1d(evaluation.rows, near)
    found = {table: only[(only >= start) & (only < start + table.rows)] - start for table, start in starts.items()}
    return {number: found[table] for number, table in tables.items() if len(found[table])}


def moduli_for(rows: int, columns: int) -> list[int]:
    """Different pairwise coprime moduli, at most one for each column, whose product is at least the number of rows."""
    for digits in range(1, min(columns, MOST_DIGITS) + 1):
        least = max(LEAST_MODULUS, math.ceil(rows ** (1 / digits)))
        if digits < min(columns, MOST_DIGITS) and least > 4 * LEAST_MODULUS:
            continue  # more columns allow smaller moduli, all of whose values few rows show
        found: list[int] = []
        candidate = least
        while len(found) < digits:
            if all(math.gcd(candidate, other) == 1 for other in found):
                found.append(candidate)
            candidate += 1
        return found
    return []


def _digits(column: np.ndarray, rows: np.ndarray, modulus: int) -> np.ndarray:
    """The numbers of rows modulo something, as values within the range of the column."""
    finite = column[np.isfinite(column)]
    low, width = (float(finite.min()), float(np.ptp(finite)) or 1.0) if len(finite) else (0.0, 1.0)
    values = low + width * (rows % modulus) / (modulus - 1)
    column[...] = values.reshape(-1, *[1] * (column.ndim - 1))
    return column


def rows_spelled(values: np.ndarray, moduli: Sequence[int]) -> np.ndarray | None:
    """The numbers of rows that the columns of an array spell; None if they spell none."""
    known: dict[int, np.ndarray] = {}
    for column in values.T:
        if not np.isfinite(column).all():
            continue
        levels, digits = np.unique(np.round(column.astype(np.float64), 9), return_inverse=True)
        close = np.diff(levels) < 1e-5 * max(float(np.ptp(levels)), 1e-30)  # two roundings of one value
        digits = np.concatenate([[0], np.cumsum(~close)])[digits] if len(levels) else digits
        count = len(levels) - int(close.sum())
        if count in moduli and count not in known:
            known[count] = digits
    if len(known) < len(moduli):
        return None
    total, number = math.prod(moduli), np.zeros(len(values), np.int64)
    for modulus in moduli:
        rest = total // modulus
        number = (number + known[modulus].astype(np.int64) * (rest * pow(rest, -1, modulus) % total)) % total
    return number


@dataclass(frozen=True, slots=True)
class _Used:
    """The numbers of the rows that samples use, and over how many rows one sample extends."""

    rows: np.ndarray
    span: int


def _used_rows(
    loader: Loader, folder: Path, indices: Sequence[Index], moduli: Sequence[int], beside: Sequence[np.ndarray]
) -> _Used | None:
    """The rows that samples with these indices use; None if they cannot be followed.

    `beside` is what the other split holds.
    """
    reader, dataset = Reader(loader, folder), loader.dataset
    unread = copied(dataset) if _spelling(dataset, moduli, beside) else None
    reader.read(indices[0])  # so that what is loaded at the first read is held
    read, spelling = reader.read, _spelling(dataset, moduli, beside)
    if unread is not None and not spelling:  # reading changed the rows
        dataset, spelling = unread, _spelling(unread, moduli, beside)

        def read(index: Index, draw: int = 0) -> Any:
            reader.dataset = copied(unread)
            return reader.read(index, draw)

    chosen = indices[:: max(len(indices) // RULE_SAMPLES, 1)][:RULE_SAMPLES]
    for store, spelled in spelling:
        tracer = RowTracer(read, [store], dataset)
        found = {index: {row for leaf in tracer.trace(index).leaves for row in leaf.known} for index in chosen}
        every = rows_of_all(dataset, indices, found, store.count)
        if every is not None:
            one = next(iter(found.values()))
            return _Used(np.unique(spelled[every]), max(one) - min(one) + 1)
    return None


def _spelling(dataset: Any, moduli: Sequence[int], beside: Sequence[np.ndarray]) -> list[tuple[Store, np.ndarray]]:
    """What a dataset holds whose columns spell numbers of rows, and these numbers.

    A small split may lack some values of a column. It has them together with the other split, if scaled alike.
    """
    found = []
    for store in held_stores(dataset):
        if (values := store.numbers) is None:
            continue
        rows = rows_spelled(values, moduli)
        for other in beside if rows is None else ():
            if rows is None and other.shape[1:] == values.shape[1:]:
                both = rows_spelled(np.concatenate([values, other]), moduli)
                rows = None if both is None else both[: len(values)]
        if rows is not None:
            found.append((store, rows))
    return found


def _numbers(dataset: Any) -> list[np.ndarray]:
    return [values for store in held_stores(dataset) if (values := store.numbers) is not None]


def copied(dataset: Any) -> Any:
    """A copy of a dataset; None of one that cannot be copied, such as one with open files."""
    with contextlib.suppress(Exception):
        return copy.deepcopy(dataset)
    return None


def rows_of_all(
    dataset: Any, indices: Sequence[Index], known: Mapping[Index, set[int]], count: int
) -> np.ndarray | None:
    """The rows that all of these indices use, if `known` samples use rows at the same distances from their index."""
    offsets = set()
    for index, rows in known.items():
        inner = inner_index(dataset, index)
        if inner is None or not rows:
            return None
        offsets.add(frozenset(row - inner for row in rows))
    if len(offsets) != 1:
        return None
    inner_indices = [inner for inner in (inner_index(dataset, index) for index in indices) if inner is not None]
    every = np.unique(np.add.outer(np.array(inner_indices), np.array(sorted(next(iter(offsets))))))
    return np.asarray(every[(every >= 0) & (every < count)])


def shape_of(value: Any) -> tuple[int, int]:
    """The rows of a table, and how many columns of floats it has; (0, 0) of anything else."""
    columns = list(columns_of(value))
    return (len(columns[0]), len(columns)) if columns and len({len(column) for column in columns}) == 1 else (0, 0)


def columns_of(value: Any) -> Iterator[np.ndarray]:
    """The columns of floats of a table."""
    if is_data_frame(value):
        yield from (np.asarray(value[name]) for name in value.columns if is_float(value[name]))
    elif isinstance(value, np.ndarray | torch.Tensor):
        array = array_of(value)
        if array.dtype.kind == "f" and array.ndim:
            yield from np.moveaxis(array, -1, 0) if array.ndim > 1 else [array]


def is_float(column: Any) -> bool:
    """Whether a column holds floats."""
    return "float" in str(column.dtype).lower()


def with_columns(value: Any, change: Callable[[np.ndarray, int], np.ndarray]) -> Any:
    """A copy of a table in which `change` has replaced each column of floats, from its values and its number."""
    if is_data_frame(value):
        names = [name for name in value.columns if is_float(value[name])]
        made = {name: change(np.array(value[name], np.float64), at) for at, name in enumerate(names)}
        if hasattr(value, "iloc"):
            return value.assign(**{str(name): made[name] for name in names if isinstance(name, str)})
        return value.with_columns(**{name: type(value[name])(name, made[name]) for name in names})
    if not isinstance(value, np.ndarray | torch.Tensor) or not shape_of(value)[0]:
        return value
    array = np.array(array_of(value))
    columns = np.moveaxis(array, -1, 0) if array.ndim > 1 else array[None]
    for at, column in enumerate(columns):
        columns[at] = change(column.copy(), at)
    return torch.from_numpy(array).to(value.dtype) if isinstance(value, torch.Tensor) else array
