"""Whether the labels of boxes stay with their boxes.

Two draws of one sample keep different boxes, such as those in a crop. Charts show which box of one draw is which of the
other, and so which label it should have. Labels that are the first of one list in every draw, whichever boxes are left,
were shortened to the number of boxes, and not selected with them. Sorting or shuffling boxes alone looks the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of
from dataguard.lab.core.records import Index

if TYPE_CHECKING:
    from dataguard.lab.culprit.line_trace import Look
    from dataguard.lab.geometry.charted_reader import ChartedReader

FEWEST_WRONG, FEWEST_PAIRS = 2, 2
"""Boxes that have the label of another one, and pairs of draws that show it, for a verdict."""
BOX_COLUMNS, FEWEST_WIDE = 4, 7
"""The columns of a table of boxes: four coordinates, and up to two more numbers."""
_MOST_DEPTH = 4
_SCALARS = str | int | np.integer

Rows = tuple[Any, ...]
"""The label of each box."""


@dataclass(frozen=True, slots=True)
class BoxLabels:
    """Labels of `path` that do not stay with the boxes of `table`: one box of `index` has `labels` in two draws.

    `read` is the number of the sample and the draw in which fewer boxes are left.
    """

    path: str
    table: str
    wrong: int
    pairs: int
    index: Index
    labels: tuple[str, str]
    read: tuple[int, int]
    kept: Rows


@dataclass(frozen=True, slots=True)
class LabelledDraw:
    """The labels of one draw, by path, and where its boxes are."""

    number: int
    draw: int
    index: Index
    rows: Mapping[str, Rows]
    boxes: int


def rows_of(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Rows]]:
    """The leaves of a sample that hold an integer or a string for each of several things."""
    if isinstance(value, torch.Tensor | np.ndarray):
        array = array_of(value)
        if array.ndim == 1 and array.dtype.kind in "iuU" and len(array):
            yield path, tuple(array.tolist())
    elif isinstance(value, Mapping) and depth < _MOST_DEPTH:
        for key, item in value.items():
            yield from rows_of(item, f"{path}[{key!r}]", depth + 1)
    elif isinstance(value, list | tuple) and depth < _MOST_DEPTH:
        if value and all(isinstance(item, _SCALARS) and not isinstance(item, bool) for item in value):
            yield path, tuple(value)
        else:
            for position, item in enumerate(value):
                yield from rows_of(item, f"{path}[{position}]", depth + 1)


Matches = Sequence[tuple[int, int]]
"""Positions of the same boxes in two draws."""
Labelled = tuple[list[LabelledDraw], list[tuple[int, int, Matches]]]
"""The labels of draws, and which boxes are the same in pairs of these draws, by position."""


def separated(
    table: str, draws: Sequence[LabelledDraw], matches: Sequence[tuple[int, int, Matches]]
) -> Iterator[BoxLabels]:
    """The labels that do not stay with their boxes; `matches` are those of pairs of these draws, by position."""
    for path, wrong in _cut_labels(draws, matches):
        if _is_enough(wrong):
            pairs = _pairs(wrong)
            first, second, one, other = wrong[0]
            fewer = min(draws[first], draws[second], key=lambda draw: draw.boxes)
            labels = str(draws[first].rows[path][one]), str(draws[second].rows[path][other])
            read, kept = (fewer.number, fewer.draw), fewer.rows[path]
            yield BoxLabels(path, table, len(wrong), len(pairs), fewer.index, labels, read, kept)


def are_undecided(draws: Sequence[LabelledDraw], matches: Sequence[tuple[int, int, Matches]]) -> bool:
    """Whether labels may be those of other boxes in draws with fewer boxes, and too few draws show it."""
    undecided = (
        len({(draw.number, draw.boxes) for draw in draws}) > len({draw.number for draw in draws})
        and not _is_enough(wrong)
        for _, wrong in _cut_labels(draws, matches)
    )
    return any(undecided)


Wrong = list[tuple[int, int, int, int]]
"""Two draws, and the positions in them of one box that has two labels."""


def _cut_labels(
    draws: Sequence[LabelledDraw], matches: Sequence[tuple[int, int, Matches]]
) -> Iterator[tuple[str, Wrong]]:
    """The lists of labels that are the first ones of one list in all draws, and the boxes with two labels."""
    for path in dict.fromkeys(path for draw in draws for path in draw.rows):
        held = [draw.rows.get(path, ()) for draw in draws]
        if any(len(rows) != draw.boxes for rows, draw in zip(held, draws, strict=True)):
            continue
        if _are_cut(draws, held) and not _are_numbered(held):
            wrong = [
                (first, second, one, other)
                for first, second, same in matches
                for one, other in same
                if held[first][one] != held[second][other]
            ]
            yield path, wrong


def _is_enough(wrong: Wrong) -> bool:
    return len(wrong) >= FEWEST_WRONG and len(_pairs(wrong)) >= FEWEST_PAIRS


def _pairs(wrong: Wrong) -> set[tuple[int, int]]:
    return {(first, second) for first, second, *_ in wrong}


def _are_cut(draws: Sequence[LabelledDraw], held: Sequence[Rows]) -> bool:
    """Whether the labels of each sample are the first ones of one list in all draws."""
    longest: dict[int, Rows] = {}
    for draw, rows in zip(draws, held, strict=True):
        longest[draw.number] = max(longest.get(draw.number, ()), rows, key=len)
    return all(rows == longest[draw.number][: len(rows)] for draw, rows in zip(draws, held, strict=True))


def _are_numbered(held: Sequence[Rows]) -> bool:
    """Whether all lists begin alike, as numbers of rows do."""
    return all(one[: len(other)] == other[: len(one)] for one, other in combinations(held, 2))


def line_of_labels(reader: ChartedReader, labels: BoxLabels) -> Look | None:
    """The line of the user's code after which labels are cut, or else after which boxes have another order."""
    trace = reader.follow(_state_of, *labels.read, 0)
    seen: list[Rows] = []
    moved: Look | None = None
    for look in trace.looks if trace else []:
        rows: Any = look.state
        if rows == labels.kept and any(len(one) > len(rows) and one[: len(rows)] == rows for one in seen):
            return look
        if moved is None and any(one != rows and Counter(one) == Counter(rows) for one in seen):
            moved = look if isinstance(rows[0], tuple) else None
        seen.append(rows)
    return moved


def _state_of(array: np.ndarray) -> Rows | None:
    """The labels of an array, or the rows of a table of boxes."""
    if array.ndim == 1 and array.dtype.kind in "iuU" and len(array):
        return tuple(array.tolist())
    is_table = array.ndim == 2 and len(array) > 1 and BOX_COLUMNS <= array.shape[1] < FEWEST_WIDE
    return tuple(map(tuple, array.tolist())) if is_table else None
