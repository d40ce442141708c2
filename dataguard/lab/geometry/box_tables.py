"""Boxes and points in a sample: tables of numbers, which are tried in each format that they may have."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.geometry.charted_reader import ChartedSample
from dataguard.lab.images.painter import is_image

FEWEST_UNNAMED_ROWS = 6
"""The smallest number of rows in all samples for which an unnamed table counts as boxes: any few numbers may look like
one."""

FEWEST_UNNAMED_POINTS = 5
"""The fewest points that show by how they move what they are: an affine map fits any three, and two more confirm it."""
SAME_POINT, MOVED_POINT = 0.005, 0.02
"""How far a point may be from where a map takes it, and how far one must move, as shares of what all points extend
over: coordinates may be rounded."""

MOST_ROWS = 512
"""Longer tables are no boxes or points of one image: a limit of time, as each row is compared with all others."""
COLUMNS = "[:, "
"""What the path of a table ends with that is some columns of its leaf, as `[:, 0:4]`."""
_BOX, _POINT = re.compile(r"box", re.IGNORECASE), re.compile(r"key_?points?|landmarks?|joints", re.IGNORECASE)
_MOST_DEPTH = 6
"""How deep containers are searched for tables, as a guard against those that hold themselves."""
_INSIDE_SLACK = 0.03
"""How far a box may extend beyond its image, as a share of the image: for rounding, and labels drawn past the edge."""

Table = np.ndarray
"""Rows of numbers, (rows, columns), float64."""


@dataclass(frozen=True, slots=True)
class BoxFormat:
    """The meaning of columns from `first` on: `kind` is a box format or "xy", in `pixels` or normalized."""

    kind: str
    first: int
    pixels: bool

    def corners(self, table: Table, size: tuple[int, int]) -> np.ndarray:
        """Boxes as x and y of two corners, (rows, 4), normalized by the height and width of the image."""
        columns = table[:, self.first : self.first + (2 if self.kind == "xy" else 4)]
        if self.kind == "xy":
            boxes = np.concatenate([columns, columns], axis=1)
        else:
            first_half, second_half = columns[:, :2], columns[:, 2:]
            first_half = first_half - second_half / 2 if self.kind == "cxcywh" else first_half
            boxes = np.concatenate(
                [first_half, second_half if self.kind == "xyxy" else first_half + second_half], axis=1
            )
        height, width = size
        return boxes / np.array([width, height] * 2) if self.pixels else boxes


BOX_FORMATS = ("xyxy", "xywh", "cxcywh")


def formats_of(columns: int, *, points: bool) -> list[BoxFormat]:
    """The formats that a table with this number of columns may have, besides a class or a score."""
    if points:
        return [BoxFormat("xy", 0, pixels) for pixels in (True, False) if columns in (2, 3)]
    firsts: tuple[int, ...] = {4: (0,), 5: (0, 1), 6: (0, 2)}.get(columns, ())
    return [BoxFormat(kind, first, pixels) for pixels in (True, False) for kind in BOX_FORMATS for first in firsts]


def fits(
    box_format: BoxFormat, tables: Sequence[tuple[Table, tuple[int, int]]], *, strictly: bool, share: float = 1.0
) -> bool:
    """Whether this share of all rows can be boxes in this format: of positive size, and `strictly` inside images."""
    corners = [box_format.corners(table, size) for table, size in tables if len(table)]
    if not corners:
        return False
    rows = np.concatenate(corners)
    # Tiny pixel coordinates are normalized ones, and normalized coordinates far beyond the image are pixels.
    if (box_format.pixels and max(float(table.max()) for table, _ in tables if len(table)) <= 2) or not np.isfinite(
        rows
    ).all():
        return False
    reach = _INSIDE_SLACK if strictly or not box_format.pixels else 4.0
    fitting = (rows >= -reach).all(1) & (rows <= 1 + reach).all(1)
    if box_format.kind != "xy":
        fitting &= (rows[:, 2:] - rows[:, :2] > 0).all(1)
    return bool(fitting.mean() >= share)


def candidates_of(originals: Sequence[ChartedSample], share: float = 1.0) -> dict[str, bool]:
    """The paths of tables of which this share of rows may be boxes or points, and whether those are points."""
    are_points: dict[str, bool] = {}
    wide: dict[str, list[tuple[Table, tuple[int, int]]]] = defaultdict(list)
    tables: dict[str, list[tuple[Table, tuple[int, int]]]] = defaultdict(list)
    for sample in originals:
        size = next(iter(sample.leaves.values())).shape[-2:]
        for path, leaf in iter_leaves(sample.value):
            if table_of(leaf) is None and (rows := wide_of(leaf)) is not None:
                wide[path].append((rows, (size[0], size[1])))
        for path, leaf, table in tables_of(sample.value):
            if table_of(leaf) is None:
                continue
            tables[path].append((table, (size[0], size[1])))
            columns = table.shape[1]
            if columns in (2, 3) and is_declared(path, leaf, points=True):
                are_points[path] = True
            elif columns >= 4 and is_declared(path, leaf, points=False):
                are_points[path] = False
    for path, held in tables.items():
        columns = held[0][0].shape[1]
        if path in are_points or columns < 4 or sum(len(table) for table, _ in held) < FEWEST_UNNAMED_ROWS:
            continue
        varies = len({table.tobytes() for table, _ in held}) > 1
        if varies and any(
            fits(box_format, held, strictly=True, share=share) for box_format in formats_of(columns, points=False)
        ):
            are_points[path] = False
    for path, held in wide.items():
        if len({rows.shape[1] for rows, _ in held}) == 1:
            are_points |= _wide_candidates(path, held)
    return are_points


def unnamed_points(samples: Sequence[ChartedSample], share: float = 1.0) -> frozenset[str]:
    """The paths of tables of two columns that may be points though nothing says so: this share is in their image."""
    held: dict[str, list[tuple[Table, tuple[int, int]]]] = defaultdict(list)
    for sample in samples:
        size = next(iter(sample.leaves.values())).shape[-2:]
        for path, leaf in iter_leaves(sample.value):
            table = table_of(leaf)
            if table is not None and table.shape[1] == 2 and len(table) >= FEWEST_UNNAMED_POINTS:
                held[path].append((table, (size[0], size[1])))
    return frozenset(
        path
        for path, tables in held.items()
        if len(tables) == len(samples)
        and len({table.tobytes() for table, _ in tables}) > 1
        and any(fits(box_format, tables, strictly=True, share=share) for box_format in formats_of(2, points=True))
    )


def are_moved_as_one(tables: Sequence[Table]) -> bool:
    """Whether an affine map takes the points of the first table to those of each other one, and some do move.

    Three points have such a map by chance; what else is drawn at random has none.
    """
    first, *others = tables
    design = np.concatenate([first, np.ones((len(first), 1))], axis=1)
    spread = np.ptp(first, axis=0).min()
    if len(first) < FEWEST_UNNAMED_POINTS or np.linalg.matrix_rank(design, tol=SAME_POINT * spread) < design.shape[1]:
        return False
    moved = False
    for other in others:
        if other.shape != first.shape:
            return False
        fitted, *_ = np.linalg.lstsq(design, other, rcond=None)
        if np.abs(other - design @ fitted).max() > SAME_POINT * np.ptp(other, axis=0).max():
            return False
        moved |= bool(np.abs(other - first).max() > MOVED_POINT * spread)
    return moved


def is_declared(path: str, leaf: Any, *, points: bool) -> bool:
    """Whether the type or the name of a leaf says that it holds boxes or points."""
    kind = "KeyPoints" if points else "BoundingBoxes"
    return type(leaf).__name__ == kind or (_POINT if points else _BOX).search(path) is not None


def tables_of(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any, Table]]:
    """Every table of two to six columns in a sample, and parts of wider ones: its path, the leaf, and its rows."""
    table = table_of(value)
    wide = wide_of(value) if table is None else None
    if table is not None:
        yield path, value, table
    elif wide is not None:
        yield from ((path + part.name, value, part.of(wide)) for part in parts_of(wide.shape[1]))
    elif depth < _MOST_DEPTH and not is_image(value):
        for step, inner in _inner(value):
            yield from tables_of(inner, path + step, depth + 1)


def _inner(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from ((f".{name}", item) for name, item in zip(value._fields, value, strict=False))
    elif isinstance(value, list | tuple):
        if value and all(isinstance(item, Mapping) for item in value) and len(value) > 1:
            for key in value[0]:  # one dictionary per object, as in COCO annotations
                yield f"[...][{key!r}]", [item.get(key) for item in value]
        else:
            yield from ((f"[{position}]", item) for position, item in enumerate(value))


def table_of(value: Any) -> Table | None:
    """A leaf as rows of numbers; None if it is no such table."""
    if isinstance(value, list | tuple):
        rows = [item for item in value if isinstance(item, list | tuple | np.ndarray | torch.Tensor)]
        if len(rows) != len(value) or not 0 < len(rows) <= MOST_ROWS or len({len(row) for row in rows}) != 1:
            return None
        try:
            array = np.array([array_of(row) for row in rows], np.float64)
        except (TypeError, ValueError):
            return None
    elif isinstance(value, torch.Tensor | np.ndarray) and not is_image(value):
        array = array_of(value)
        if array.dtype.kind not in "iuf":
            return None
        array = array.astype(np.float64)
    else:
        return None
    if array.shape == (4,):
        array = array[None]
    if array.ndim > 2 and array.shape[-1] in (2, 3, 4, 5, 6):
        array = array.reshape(-1, array.shape[-1])
    good = array.ndim == 2 and 2 <= array.shape[1] <= 6 and len(array) <= MOST_ROWS
    return _unpadded(array) if good and np.isfinite(array).all() else None


@dataclass(frozen=True, slots=True)
class Part:
    """Columns of wide rows, from the first to the last: a box, or points of so many columns each."""

    first: int
    last: int
    step: int
    box: int | None

    @property
    def count(self) -> int:
        """The number of points."""
        return (self.last - self.first) // self.step

    @property
    def name(self) -> str:
        """The columns, for a path."""
        return f"{COLUMNS}{self.first}:{self.last}]" + (" in threes" if self.step == WITH_FLAG else "")

    def of(self, wide: Table) -> Table:
        """Its boxes; or its points, without those that are missing or outside, which have negative coordinates."""
        rows = wide[:, self.first : self.last].reshape(-1, self.step)
        if self.step == BOX_COLUMNS:
            return rows
        rows = rows[(rows[:, :2] >= 0).all(1)]
        is_share = len(rows) > 0 and rows[:, :2].max() <= MOST_SHARE
        return rows[(rows[:, :2] <= 1 + _INSIDE_SLACK).all(1)] if is_share else rows


BOX_COLUMNS, WITH_FLAG = 4, 3
"""Columns of a box, and of a point with a flag of what is visible."""
FEWEST_POINTS = 3
"""The fewest points beside a box that show by their places that both are these."""
MOST_COLUMNS, MOST_WIDE_ROWS = 160, 64
"""Wider rows are features, and more of them an image."""
MOST_SHARE = 2.0
"""Larger coordinates are pixels."""
INSIDE_SHARE, AROUND = 0.3, 0.2
"""The share of rows whose points are all in their box, of which others are flipped alone, and how far a point may be
outside, as a share of the box. Chosen, not derived."""


@cache
def parts_of(columns: int) -> tuple[Part, ...]:
    """The parts that rows of so many columns may have: points alone, or a box and points, beside up to two numbers."""
    step = next((step for step in (2, WITH_FLAG) if columns % step == 0), None)
    parts = [] if step is None else [Part(0, columns, step, None)]
    for before, after, step in product(range(3), range(3), (2, WITH_FLAG)):
        first, last = before + BOX_COLUMNS, columns - after
        if last - first >= FEWEST_POINTS * step and (last - first) % step == 0:
            parts += [Part(before, first, BOX_COLUMNS, None), Part(first, last, step, before)]
    return tuple(dict.fromkeys(parts))


def part_named(wide: Table, name: str) -> Table | None:
    """The part of wide rows that has this name."""
    return next((part.of(wide) for part in parts_of(wide.shape[1]) if part.name == name), None)


def wide_of(value: Any) -> Table | None:
    """A leaf as wide rows of numbers; None if it has none."""
    if not isinstance(value, torch.Tensor | np.ndarray) or value.ndim not in (1, 2):
        return None
    rows = array_of(value)
    rows = rows[None] if rows.ndim == 1 else rows
    if rows.dtype.kind not in "iuf" or not 2 * FEWEST_POINTS < rows.shape[1] <= MOST_COLUMNS:
        return None
    if len(rows) > MOST_WIDE_ROWS or not np.isfinite(rows).all():
        return None
    return rows[rows.any(axis=1)].astype(np.float64)


def _wide_candidates(path: str, held: Sequence[tuple[Table, tuple[int, int]]]) -> dict[str, bool]:
    """The parts of wide rows that are boxes or points: points that are named so, or are in the box of their row."""
    parts = parts_of(held[0][0].shape[1])
    if _POINT.search(path):
        return {path + part.name: True for part in parts if part.step < BOX_COLUMNS and part.box is None}
    fitting = [(share, part) for part in parts if part.box is not None and (share := _share_in_box(part, held))]
    if not fitting or sum(len(rows) for rows, _ in held) < FEWEST_UNNAMED_ROWS:
        return {}
    share, part = max(fitting, key=lambda fit: fit[0])
    box = f"{COLUMNS}{part.box}:{part.first}]"
    return {path + box: False, path + part.name: True} if share >= INSIDE_SHARE else {}


def _share_in_box(part: Part, held: Sequence[tuple[Table, tuple[int, int]]]) -> float:
    """The share of rows whose points are in their box, in the format that shows most; 0 if there are few such rows."""
    boxes = [(rows[:, part.box : part.first], size) for rows, size in held]
    shares = [0.0]
    for box_format in formats_of(BOX_COLUMNS, points=False):
        if not fits(box_format, boxes, strictly=True):
            continue
        inside: list[bool] = []
        for (rows, size), (box, _) in zip(held, boxes, strict=True):
            corners = box_format.corners(box, size)
            points = rows[:, part.first : part.last].reshape(len(rows), part.count, part.step)[..., :2]
            seen = (points > 0).any(-1)
            points = points / np.array(size[::-1]) if box_format.pixels else points
            slack = AROUND * (corners[:, 2:] - corners[:, :2])[:, None]
            within = (points >= corners[:, None, :2] - slack) & (points <= corners[:, None, 2:] + slack)
            enough = seen.sum(1) >= FEWEST_POINTS
            inside += (within.all(-1) | ~seen).all(1)[enough].tolist()
        shares.append(float(np.mean(inside)) if sum(inside) >= FEWEST_UNNAMED_ROWS // 2 else 0.0)
    return max(shares)


def _unpadded(table: Table) -> Table:
    """A table of boxes without the rows of 0 or -1 at its end, which give all samples as many."""
    if table.shape[1] < 4:  # a point may be at 0, 0
        return table
    last = max(int((table == fill).all(axis=1)[::-1].cumprod().sum()) for fill in (0, -1))
    return table[: len(table) - last]
