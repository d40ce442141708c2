"""The line of the user's code after which boxes or points are no longer where their image shows them.

A sample is read with every chart under the random state in which they do not follow the image, and followed line by
line. Charts show where the image comes from after each line, and so where its boxes come from.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from dataguard.core.model import Undecided
from dataguard.lab.culprit.line_trace import Look
from dataguard.lab.geometry.alignment_lines import Size, joined, last_parting, state_of, views_of
from dataguard.lab.geometry.box_alignment import distance, in_source
from dataguard.lab.geometry.box_tables import Table, fits, formats_of, part_named, table_of, wide_of
from dataguard.lab.geometry.charted_reader import ChartedReader
from dataguard.lab.geometry.charts import CHARTS, Pose, flattened, located, pose_of

SAME_PLACE = 0.06
"""How far the corners of the same box may be after two lines, as a share of the image: half a stripe."""

Held = tuple[Any, Size]
"""The pose of an image and its size, or a table and the size of the image at that time."""


def state_with_tables(array: np.ndarray, columns: str = "") -> Hashable | None:
    """The state of an image, or the values of a table; or of these columns of wider rows, and of no other table."""
    wide = wide_of(array) if columns else None
    state = state_of(array) if wide is None else None
    if state is not None:
        return state
    table = table_of(array) if not columns else None if wide is None else part_named(wide, columns)
    return None if table is None else (table.shape, table.tobytes(), "table")


def line_of_boxes(reader: ChartedReader, number: int, draw: int, *, points: bool, columns: str = "") -> Look | None:
    """The line after which the boxes or points of a sample do not follow its image to the end of the read."""
    measure = partial(state_with_tables, columns=columns)
    traces = [reader.follow(measure, number, draw, chart) for chart in range(CHARTS)]
    if None in traces:
        raise Undecided("no image is replaced while a sample is read")
    steps = list(_steps([trace.looks for trace in traces if trace], points=points))
    least = next((len(value[0]) for _, side, value in reversed(steps) if side == "table"), 0)
    # Boxes may have been dropped; what has fewer rows is a matrix that moves them.
    steps = [step for step in steps if step[1] == "image" or len(step[2][0]) >= least]
    rows = [len(value[0]) for _, side, value in steps if side == "table"]
    if not rows or max(rows) > rows[0]:
        return None  # boxes of several images are put together
    boxes = _Boxes(points=points)
    return last_parting(steps, boxes.agree, boxes.stay)


def _steps(looks: Sequence[Sequence[Look]], *, points: bool) -> Iterator[tuple[Look, str, Held]]:
    """Images that show their chart, and tables from the first of them on."""
    size: Size | None = None
    early: list[tuple[Look, Table]] = []
    for states in joined(looks):
        look = states[0]
        if len(look.state) == 3:  # type: ignore[arg-type] # a table
            table = np.frombuffer(look.state[1]).reshape(look.state[0])  # type: ignore[index]
            if not formats_of(table.shape[1], points=points) or any(other.state != look.state for other in states):
                continue
            early.append((look, table))
        else:
            planes = [flattened(view) for view in views_of(states)]
            field = located(planes)
            pose = None if field is None else pose_of(field)
            if pose is None:
                continue
            size = look.state[0]  # type: ignore[index]
            yield look, "image", (pose, size)
        if size is not None:
            yield from ((of, "table", (table, size)) for of, table in early)
            early.clear()


class _Boxes:
    """Compares tables with where they were in the image when both were first seen."""

    def __init__(self, *, points: bool) -> None:
        self._points = points
        self._first: list[np.ndarray] = []

    def agree(self, image: Held, held: Held) -> bool | None:
        """Whether the boxes are where they were in the source image, in some format; remembers the first ones."""
        (pose, size), (table, _) = image, held
        sources = [in_source(pose, corners) for corners in self._corners(table, size, strictly=not self._first)]
        if not self._first:
            self._first = sources
            return bool(sources) or None
        return any(_are_same(first, source) for first in self._first for source in sources)

    def stay(self, before: Held, now: Held) -> bool:
        """Whether an image, or the boxes in it, did not move."""
        (first, first_size), (second, second_size) = before, now
        if isinstance(first, Pose):
            return first_size == second_size and distance(first, second) < SAME_PLACE
        pairs = (
            (one, other) for one in self._corners(first, first_size) for other in self._corners(second, second_size)
        )
        return any(_are_same(one, other) for one, other in pairs)

    def _corners(self, table: Table, size: Size, *, strictly: bool = False) -> list[np.ndarray]:
        formats = formats_of(table.shape[1], points=self._points)
        return [one.corners(table, size) for one in formats if fits(one, [(table, size)], strictly=strictly)]


def _are_same(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether each box of the second is one of the first."""
    apart = np.abs(second[:, None] - first[None]).max(axis=-1)
    return bool((apart.min(axis=1) < SAME_PLACE).all())
