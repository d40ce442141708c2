"""What the rows are that samples are read from, where a dataset holds them: in one process for all checks that ask.

The loader is built and its epoch drawn once. Each question is answered on its own: where one fails, others do not.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from dataguard.core.model import DataguardError, Undecided
from dataguard.lab.core.records import Index, plain_index
from dataguard.lab.process.write_protection import WriteRefused
from dataguard.lab.provenance.boundaries import GroupSearch, find_crossings
from dataguard.lab.provenance.file_columns import loaded_by
from dataguard.lab.provenance.unread import Reached, find_reached
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.recorded_order import draw_epoch, recorder
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.column_shifts import find_shifts
from dataguard.lab.rows.origins import LabelLookup, RowOrigins, SampleRows
from dataguard.lab.rows.row_axes import find_axes
from dataguard.lab.rows.row_changes import Store
from dataguard.lab.rows.rows_changed import RowTracer, inner_index
from dataguard.lab.rows.stores import FIRST_AXES, Axes, held_values, labels_of
from dataguard.lab.rows.window_rows import Windows, find_windows
from dataguard.targets.variants import Loader

T = TypeVar("T")
Answer: TypeAlias = T | DataguardError
"""What was found, or why it was not."""


FEWEST_MOVED = 3
"""Samples whose row is not the one with the number of their index, but the one with that label."""


MOST_COMPARED = 64
"""Columns of rows that are compared with those of a table: a limit of time."""
CLEAR_DEVIATIONS = 5.0
"""Standard deviations of chance by which rows must depend more on one order than on another."""


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked: the rows of samples with some indices, windows of others, the ends of groups, and what is reached.

    `length` is that of the loader. `rows`, `groups` and `reached` say whether the reads are affordable that find rows,
    search the ends of groups, and find the rows that are reached.
    """

    length: int | None
    indices: tuple[Index, ...]
    windows: tuple[Index, ...]
    target: str | None
    known_future: tuple[str, ...]
    group: str | None
    aligned: tuple[str, ...]
    rows: bool
    in_windows: bool
    groups: bool
    reached: bool


@dataclass(frozen=True, slots=True)
class HeldRows:
    """The answers; `rows` is None if finding them takes too many reads."""

    rows: Answer[RowOrigins | None]
    windows: Answer[Windows]
    groups: Answer[tuple[GroupSearch, ...] | None]
    reached: Answer[Reached]


def find_held_rows(build: Callable[..., Loader], folder: Path, asked: Questions) -> HeldRows:
    """Answer the questions in this disposable process."""
    reader = Reader(build(), folder)

    of_datasets: dict[int, Axes] = {}

    def axes_of(indices: Sequence[Index]) -> Axes:
        key = id(reader.dataset)  # one inside the loader's own, meanwhile
        if key not in of_datasets:
            of_datasets[key] = _axes(reader, indices)
        return of_datasets[key]

    order = _answer(lambda: _drawn(build, asked.length))
    # In this order, as files that are open or cached already are not read again: the first two look at files as well.
    reached = _answer(lambda: find_reached(reader, found(order), axes_of if asked.reached else None))
    axes = _answer(lambda: axes_of(asked.indices) if asked.rows else FIRST_AXES)
    groups = _answer(lambda: find_crossings(reader, found(order), asked.group, found(axes), affordable=asked.groups))
    return HeldRows(
        _answer(lambda: find_rows(reader, asked.indices, found(axes), asked.aligned) if asked.rows else None),
        _answer(
            lambda: find_windows(
                reader, asked.windows, asked.target, asked.known_future, asked.in_windows, axes=found(axes)
            )
        ),
        groups,
        reached,
    )


def _drawn(build: Callable[..., Loader], length: int | None) -> frozenset[Index]:
    """The indices of an epoch."""
    recorded, schedule = recorder(length)
    with gate("sampler"):
        draw_epoch(build(num_workers=0, schedule=schedule, reuse=True), recorded, 0)
    return frozenset(plain_index(one) for record in recorded for batch in record.batches for one in batch)


def find_groups_of_files(
    build: Callable[..., Loader],
    again: Callable[[], Loader],
    folder: Path,
    length: int | None,
    declared: str | None,
    axes: Axes,
) -> tuple[GroupSearch, ...]:
    """Search the samples at the ends of groups that only the files name which the factory reads."""
    order = _drawn(build, length)
    loader, files = loaded_by(again)
    if not files:
        return ()
    return find_crossings(Reader(loader, folder), order, declared, axes, affordable=True, files=files) or ()


def _answer(question: Callable[[], T]) -> Answer[T]:
    try:
        return question()
    except DataguardError as failure:
        return failure
    except WriteRefused as refused:
        return Undecided(refused.in_words)


def found(answer: Answer[T]) -> T:
    """What was found. Raises why it was not."""
    if isinstance(answer, DataguardError):
        raise answer
    return answer


def _axes(reader: Reader, indices: Sequence[Index]) -> Axes:
    for index in indices[:1]:
        reader.read(index)  # so that what is cached at the first read is held
    return find_axes(reader.read, reader.dataset, indices)


def find_rows(
    reader: Reader, indices: Sequence[Index], axes: Axes | None = None, aligned: Sequence[str] = ()
) -> RowOrigins:
    """Change the rows that a dataset holds, along these axes, and read samples again; compare `aligned` leaves."""
    axes = _axes(reader, indices) if axes is None else axes
    held = [(value, store) for _, value, store in held_values(reader.dataset, axes) if store is not None]
    stores = [store for _, store in held]
    tracer = RowTracer(reader.read, stores, reader.dataset)
    samples = tuple(tracer.trace(index) for index in indices)
    used = {leaf.source for sample in samples for leaf in sample.leaves}
    return RowOrigins(
        samples,
        {store.path: store.count for store in stores if store.path in used},
        {store.path: store.columns for store in stores if store.path in used},
        axes,
        find_shifts(samples, {store.path: store for store in stores}, aligned),
        tuple(_lookups(reader.dataset, samples, held)),
    )


def _lookups(dataset: Any, samples: Sequence[SampleRows], held: Sequence[tuple[Any, Store]]) -> Iterator[LabelLookup]:
    """Each leaf that comes from the row whose label is the index in every sample, with one by position beside it."""
    labels = {store.path: own for value, store in held if (own := labels_of(value)) is not None}
    if not labels:
        return
    counts = {store.path: store.count for _, store in held}
    values = {store.path: value for value, store in held}
    rows: dict[tuple[str, str], list[tuple[int, int, Index]]] = defaultdict(list)
    for sample in samples:
        index = inner_index(dataset, sample.index)
        for leaf in sample.leaves:
            if index is not None and len({*leaf.known}) == 1:
                rows[leaf.path, leaf.source].append((index, leaf.known[0], sample.index))
    whole = {key: found for key, found in rows.items() if len(found) == len(samples)}
    by_number = [key for key, found in whole.items() if all(index == row for index, row, _ in found)]
    for (path, source), found in whole.items():
        moved = [one for one in found if one[0] != one[1]]
        other = next((key for key in by_number if key[0] != path and counts[key[1]] == counts[source]), None)
        by_label = source in labels and all(labels[source][row] == index for index, row, _ in found)
        if (
            by_label
            and other
            and len(moved) >= FEWEST_MOVED
            and not _is_in_order_of(labels[source], values[other[1]], values[source])
        ):
            index, row, asked = moved[0]
            yield LabelLookup(path, source, row, *other, index, asked)


def _is_in_order_of(labels: np.ndarray, rows: Any, table: Any) -> bool:
    """Whether rows are in the order of these labels, and the table is not: only then do both depend on each other."""
    try:
        one, two = (np.asarray(each).reshape(len(labels), -1) for each in (rows, table))
        one = one[:, :: one.shape[1] // MOST_COMPARED + 1].astype(np.float64)
        two = np.stack([np.unique(column, return_inverse=True)[1] for column in two.T[:MOST_COMPARED]], 1)
    except (TypeError, ValueError):  # rows that are no numbers, or too many different ones
        return False
    known = (labels >= 0) & (labels < len(labels))
    by_label, by_number = (_dependence(some, two[known]) for some in (one[labels[known]], one[known]))
    return by_label > by_number + CLEAR_DEVIATIONS / math.sqrt(max(int(known.sum()), 1))


def _dependence(one: np.ndarray, two: np.ndarray) -> float:
    """The largest correlation of two columns."""
    first, second = (each - each.mean(0) for each in (one, two))
    spread = np.outer(np.linalg.norm(first, axis=0), np.linalg.norm(second, axis=0))
    return float(np.abs(np.divide(first.T @ second, spread, out=np.zeros_like(spread), where=spread > 0)).max())
