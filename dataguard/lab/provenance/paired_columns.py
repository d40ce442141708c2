"""Whether the target of a sample is from the same row of a table as its features, in what the factory makes of it.

All columns of what the factory loads are given two values, the same one in each row: which, is drawn at random for the
row. Features and target of a sample then say the same, however they are scaled or coded, unless they are from different
rows: labels that were taken before rows were shuffled or dropped. If so, the factory is called again with other draws,
and what features and target say in all of them spells their rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from dataguard.core.incident import LoaderFailed
from dataguard.lab.core.records import Index
from dataguard.lab.process.write_protection import WriteRefused, forbid_writes
from dataguard.lab.provenance.reads_seen import ReadLog
from dataguard.lab.provenance.refitting import FEWEST_ROWS, MOST_CATEGORIES, Loaded, Samples, samples_of
from dataguard.lab.rows.origins import Read
from dataguard.lab.rows.stores import is_data_frame
from dataguard.process.process_tree import undisturbed_seconds
from dataguard.targets.variants import Loader

COMPARED_SAMPLES = 48
"""Samples that are read. If half of the rows have each value, so many agree by chance by odds of 1 in 2^48."""
FEWEST_APART = 8
"""Samples whose target says something else than their features: so many pairs are not read otherwise by mistake."""
MOST_VALUES = 64
"""Values of a leaf up to which it may hold the columns of a row, and no window."""
MORE_BITS = 5
"""Draws more than spell a row: another row has all of them alike by odds of 1 in 32, and such rows are left out."""
FEWEST_SPELLED = 0.75
"""The share of samples whose rows have to be spelled."""


@dataclass(frozen=True, slots=True)
class PairedColumns:
    """The rows of a table that features and target of samples are from: by index, that of features first.

    `apart` counts those that differ. `group` is a column that has one value in both rows of each sample.
    """

    source: str
    features: str
    target: str
    rows: Mapping[Index, tuple[int, int]]
    apart: int
    group: str | None


@dataclass(slots=True)
class _Table:
    """What the factory loaded as it is, and the values that its rows got in each draw."""

    source: str
    loaded: Any
    bits: list[np.ndarray] = field(default_factory=list)


def find_paired_columns(
    build: Callable[[], Loader], folder: Path, indices: Sequence[Index], seconds: float
) -> tuple[PairedColumns, ...]:
    """Compare the rows of leaves of these samples; nothing if that takes longer, or no leaf holds a row of a table."""
    loaded = Loaded(ReadLog(), lambda _: (loader := build(), loader))
    started = undisturbed_seconds()
    tables: dict[int, _Table] = {}
    forbid_writes()
    seen: list[Samples] = []
    found: list[tuple[str, str]] = []
    needed = 1
    while len(seen) < needed:
        try:
            loader, _ = loaded.built(partial(_in_two, tables, len(seen)))
            if not tables:
                return ()
            seen.append(samples_of(loader, folder, indices))
        except (LoaderFailed, WriteRefused):
            return ()
        if len(seen) == 1:
            found = _apart(seen[0])
            rows = max((len(table.loaded) for table in tables.values()), default=0)
            needed = math.ceil(math.log2(rows)) + MORE_BITS if found and rows else 0
        if len(seen) < needed and undisturbed_seconds() - started > seconds:
            return ()
    return tuple(
        one for features, target in found if (one := _spelled(tables.values(), seen, features, target)) is not None
    )


def _in_two(tables: dict[int, _Table], draw: int, number: int, read: Read, value: Any) -> Any:
    """A table of two values in each column, drawn by row; what is missing stays so."""
    if not is_data_frame(value) or not hasattr(value, "iloc") or len(value) < FEWEST_ROWS:
        return value
    # Rows of another file have other bits: whether they belong together is what the factory says, as by joining them.
    bits = np.random.default_rng((draw, crc32(read.source.encode()))).integers(0, 2, len(value))
    tables.setdefault(number, _Table(read.source, value)).bits.append(bits)
    changed = {}
    for name in value.columns:
        column = value[name]
        kind = column.dtype.kind if hasattr(column.dtype, "kind") else "O"
        if not isinstance(name, str) or kind not in "biufO" or (kind != "f" and column.nunique() > MOST_CATEGORIES):
            continue
        two = column.value_counts().index[:2] if kind != "f" else column.quantile([0.25, 0.75]).tolist()
        if len(two) == 2 and two[0] != two[1]:
            values = type(column)(np.asarray(two)[bits], index=column.index).astype(column.dtype)
            changed[name] = values.where(column.notna(), column)
    return value.assign(**changed)


def _bits(samples: Samples, path: str) -> list[np.ndarray]:
    """What each value of a leaf that has two values in all samples says, as 0 and 1; others are left out."""
    arrays = [leaves[path] for leaves in samples.values() if path in leaves]
    if len(arrays) < len(samples) or len({array.shape for array in arrays}) > 1 or arrays[0].size > MOST_VALUES:
        return []
    if arrays[0].dtype.kind not in "biuf":
        return []
    columns = np.array([array.ravel() for array in arrays], np.float64).T
    return [bits for column in columns if (bits := _two_valued(column)) is not None]


def _two_valued(column: np.ndarray) -> np.ndarray | None:
    low, high = column.min(), column.max()
    if not np.isfinite(column).all() or low == high:
        return None
    place = (column - low) / (high - low)
    return (place > 0.5).astype(np.int64) if bool((np.minimum(place, 1 - place) < TOLERANCE).all()) else None


TOLERANCE = 1e-4
"""How far a value may be from one of the two: what float32 rounds."""


def _apart(samples: Samples) -> list[tuple[str, str]]:
    """Leaves of features that are from one row each, and of single values that say something else."""
    bits = {path: says for path in next(iter(samples.values())) if (says := _bits(samples, path))}
    single = {path: each[0] for path, each in bits.items() if next(iter(samples.values()))[path].size == 1}
    found: list[tuple[str, str]] = []
    for path, each in bits.items():
        if all(_differences(each[0], other) == 0 for other in each[1:]):
            found += [
                (path, other)
                for other, says in single.items()
                if other != path and path not in single and _differences(each[0], says) >= FEWEST_APART
            ]
    return found


def _differences(one: np.ndarray, other: np.ndarray) -> int:
    """In how many samples two say something else, whichever value stands for 1."""
    differ = int((one != other).sum())
    return min(differ, len(one) - differ)


def _spelled(tables: Iterable[_Table], seen: Sequence[Samples], features: str, target: str) -> PairedColumns | None:
    """The rows that both leaves spell; None if they do not spell rows of one table, or some rows twice."""
    own, other = ([each[0] for samples in seen if (each := _bits(samples, path))] for path in (features, target))
    if len(own) < len(seen) or len(other) < len(seen):
        return None
    for table in tables:
        if len(table.bits) < len(seen) or len({len(each) for each in table.bits}) > 1:
            continue
        patterns = [column.tobytes() for column in np.array(table.bits).T.copy()]
        times = Counter(patterns)
        places = {pattern: row for row, pattern in enumerate(patterns) if times[pattern] == 1}
        rows = (_rows(np.array(each), places) for each in (own, other))
        pairs = zip(seen[0], *rows, strict=True)
        known = {index: (one, two) for index, one, two in pairs if one is not None and two is not None}
        single = all(len({pair[side] for pair in known.values()}) == len(known) for side in (0, 1))
        if single and len(known) >= FEWEST_SPELLED * len(seen[0]):
            apart = sum(one != two for one, two in known.values())
            return PairedColumns(table.source, features, target, known, apart, _group_of(table, list(known.values())))
    return None


def _group_of(table: _Table, pairs: Sequence[tuple[int, int]]) -> str | None:
    """A column that has one value in both rows of each pair, and several in all: as that of the next visit has."""
    first, second = (list(side) for side in zip(*pairs, strict=True))
    for name in table.loaded.columns:
        values = np.asarray(table.loaded[name], dtype=object)
        if (values[first] == values[second]).all() and len(set(values[first].tolist())) > 1:
            return str(name)
    return None


def _rows(bits: np.ndarray, places: Mapping[bytes, int]) -> list[int | None]:
    """The rows that the samples spell, with that meaning of 1 that spells more."""
    return max(
        ([places.get(column.tobytes()) for column in each.T.copy()] for each in (bits, 1 - bits)),
        key=lambda rows: sum(row is not None for row in rows),
    )
