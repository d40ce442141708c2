"""Boxes and points in a sample: tables of numbers, and the box formats that they may have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of
from dataguard.lab.images.image_containers import is_image

MOST_ROWS = 512
_BOX, _POINT = re.compile(r"box", re.IGNORECASE), re.compile(r"key_?points?|landmarks?|joints", re.IGNORECASE)
_DEPTH = 6
_SLACK = 0.03
"""How far a box may extend beyond its image, as a share of the image."""

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
            found = np.concatenate([columns, columns], axis=1)
        else:
            one, two = columns[:, :2], columns[:, 2:]
            one = one - two / 2 if self.kind == "cxcywh" else one
            found = np.concatenate([one, two if self.kind == "xyxy" else one + two], axis=1)
        height, width = size
        return found / np.array([width, height] * 2) if self.pixels else found


BOXES = ("xyxy", "xywh", "cxcywh")


def formats_of(columns: int, *, points: bool) -> list[BoxFormat]:
    """The formats that a table with this number of columns may have, besides a class or a score."""
    if points:
        return [BoxFormat("xy", 0, pixels) for pixels in (True, False)]
    firsts = {4: (0,), 5: (0, 1), 6: (0, 2)}[columns]
    return [BoxFormat(kind, first, pixels) for pixels in (True, False) for kind in BOXES for first in firsts]


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
    reach = _SLACK if strictly or not box_format.pixels else 4.0
    fitting = (rows >= -reach).all(1) & (rows <= 1 + reach).all(1)
    if box_format.kind != "xy":
        fitting &= (rows[:, 2:] - rows[:, :2] > 0).all(1)
    return bool(fitting.mean() >= share)


def is_declared(path: str, leaf: Any, *, points: bool) -> bool:
    """Whether the type or the name of a leaf says that it holds boxes or points."""
    kind = "KeyPoints" if points else "BoundingBoxes"
    return type(leaf).__name__ == kind or (_POINT if points else _BOX).search(path) is not None


def tables_of(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any, Table]]:
    """Every table of two to six columns in a sample: its path, the leaf, and its rows."""
    table = _table(value)
    if table is not None:
        yield path, value, table
    elif depth < _DEPTH and not is_image(value):
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
            yield from ((f"[{place}]", item) for place, item in enumerate(value))


def _table(value: Any) -> Table | None:
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


def _unpadded(table: Table) -> Table:
    """A table of boxes without the rows of 0 or -1 at its end, which give all samples as many."""
    if table.shape[1] < 4:  # a point may be at 0, 0
        return table
    last = max(int((table == fill).all(axis=1)[::-1].cumprod().sum()) for fill in (0, -1))
    return table[: len(table) - last]
