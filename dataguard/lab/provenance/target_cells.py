"""Inputs that change with the cell of a file that is their own target, as a mean that includes it does.

The targets of successive samples are looked for in the columns of what the factory loads. Three of these cells are
changed before it runs: the input of none of the samples should follow, but for a statistic of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.core.incident import LoaderFailed
from dataguard.lab.core.records import Index
from dataguard.lab.process.write_protection import WriteRefused, forbid_writes
from dataguard.lab.provenance.reads_seen import ReadLog
from dataguard.lab.provenance.refitting import (
    Loaded,
    are_equal,
    columns_of,
    is_float,
    moved_far,
    samples_of,
    with_columns,
)
from dataguard.lab.rows.origins import Read, TargetCells
from dataguard.lab.rows.stores import is_data_frame
from dataguard.process.process_tree import undisturbed_seconds
from dataguard.targets.variants import Loader


def find_target_cells(
    build: Callable[[], Loader], folder: Path, indices: Sequence[Index], target: str, seconds: float
) -> TargetCells | None:
    """Change cells of the column that targets are, and compare inputs; None if targets are not found in a column.

    The factory is called twice, which takes so many `seconds` at most. The samples are those of consecutive indices.
    """
    columns: dict[int, tuple[Read, list[np.ndarray], list[str]]] = {}

    def keep(number: int, read: Read, value: Any) -> Any:
        names = [str(name) for name in value.columns if is_float(value[name])] if is_data_frame(value) else []
        columns[number] = read, [np.array(column, np.float64) for column in columns_of(value)], names
        return value

    def loaders(imports: bool) -> tuple[Loader, Loader]:
        del imports
        loader = build()
        return loader, loader

    started = undisturbed_seconds()
    loaded = Loaded(ReadLog(), loaders)
    base = samples_of(loaded.built(keep)[0], folder, indices)
    targets = np.array([leaves[target].ravel() for leaves in base.values()], np.float64)[:, 0]
    held = {
        number: (at, first)
        for number, (_, arrays, _) in columns.items()
        for at, column in enumerate(arrays)
        if (first := _place_in(column, targets)) is not None
    }
    if not held or (undisturbed_seconds() - started) * 2 > seconds:
        return None
    number, (at, first) = next(iter(held.items()))
    chosen = [len(indices) * part // 4 for part in (1, 2, 3)]
    places = np.array(chosen)
    read, _, names = columns[number]

    def change(number: int, read: Read, value: Any) -> Any:
        del read
        if number not in held:
            return value
        at, first = held[number]
        return with_columns(value, lambda column, of: moved_far(column, first + places) if of == at else column)

    forbid_writes()
    try:
        after = samples_of(loaded.built(change)[0], folder, indices)
    except (LoaderFailed, WriteRefused):
        return None
    moved = {
        path: [not are_equal(leaves[path], after[index].get(path)) for index, leaves in base.items()]
        for path in base[indices[0]]
    }
    if not all(moved[target][place] for place in chosen):
        return None
    few = {path: here for path, here in moved.items() if path != target and _is_local(here, chosen[0])}
    paths = tuple(path for path, here in few.items() if here[chosen[0]] and any(here[place] for place in chosen[1:]))
    name = f"column {names[at]}" if at < len(names) else f"column {at}"
    index = indices[chosen[0]]
    place = _last_place(base[index][paths[0]], after[index][paths[0]]) if paths else 0
    return TargetCells(read.source, name, len(indices), index, first + chosen[0], paths, place)


def _last_place(one: np.ndarray, other: np.ndarray) -> int:
    """Where in its last axis a leaf last differs."""
    return int(np.argwhere(np.atleast_1d(one != other))[-1][-1]) if one.shape == other.shape else 0


def _is_local(moved: Sequence[bool], first: int) -> bool:
    """Whether samples change because of rows near theirs, or before: not by a statistic of all rows, as of a scaler."""
    return sum(moved) * MOST_MOVED <= len(moved) or not any(moved[: first // 2])


MOST_MOVED = 4
"""Up to a quarter of the samples change with rows near theirs."""
FEWEST_TARGETS, MOST_FIRSTS = 32, 1_000
"""Different targets that are needed to find them in a column, and rows that may hold the first of them."""


def _place_in(column: np.ndarray, targets: np.ndarray) -> int | None:
    """The row of a column from which on it holds these targets; None if there is none, or there are several."""
    if len(set(targets.tolist())) < FEWEST_TARGETS or column.ndim != 1 or len(column) < len(targets):
        return None
    firsts = np.flatnonzero(np.isclose(column[: len(column) - len(targets) + 1], targets[0], 1e-6, 0))[:MOST_FIRSTS]
    places = [int(first) for first in firsts if np.allclose(column[first : first + len(targets)], targets, 1e-6, 0)]
    return places[0] if len(places) == 1 else None
