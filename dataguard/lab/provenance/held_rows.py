"""What the rows are that samples are read from, where a dataset holds them: in one process for all checks that ask.

The loader is built and its epoch drawn once. Each question is answered on its own: where one fails, others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from dataguard.core.model import DataguardError, Undecided
from dataguard.lab.core.records import Index, plain_index
from dataguard.lab.process.write_protection import WriteRefused
from dataguard.lab.provenance.boundaries import GroupSearch, find_crossings
from dataguard.lab.provenance.column_shifts import find_shifts
from dataguard.lab.provenance.origins import RowOrigins
from dataguard.lab.provenance.row_axes import find_axes
from dataguard.lab.provenance.rows_changed import RowTracer
from dataguard.lab.provenance.stores import FIRST_AXES, Axes, held_stores
from dataguard.lab.provenance.unread import Reached, find_reached
from dataguard.lab.provenance.window_rows import Windows, find_windows
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.recorded_order import draw_epoch, recorder
from dataguard.lab.reading.sample_reader import Reader
from dataguard.targets.variants import Loader

T = TypeVar("T")
Answer: TypeAlias = T | DataguardError
"""What was found, or why it was not."""


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

    def drawn() -> frozenset[Index]:
        recorded, schedule = recorder(asked.length)
        with gate("sampler"):
            draw_epoch(build(num_workers=0, schedule=schedule, reuse=True), recorded, 0)
        return frozenset(plain_index(one) for record in recorded for batch in record.batches for one in batch)

    of_datasets: dict[int, Axes] = {}

    def axes_of(indices: Sequence[Index]) -> Axes:
        key = id(reader.dataset)  # one inside the loader's own, meanwhile
        if key not in of_datasets:
            of_datasets[key] = _axes(reader, indices)
        return of_datasets[key]

    order = _answer(drawn)
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
    stores = held_stores(reader.dataset, axes)
    tracer = RowTracer(reader.read, stores, reader.dataset)
    samples = tuple(tracer.trace(index) for index in indices)
    used = {leaf.source for sample in samples for leaf in sample.leaves}
    return RowOrigins(
        samples,
        {store.path: store.count for store in stores if store.path in used},
        {store.path: store.columns for store in stores if store.path in used},
        axes,
        find_shifts(samples, {store.path: store for store in stores}, aligned),
    )
