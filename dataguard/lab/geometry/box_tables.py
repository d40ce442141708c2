"""Boxes and points among the leaves of a sample: tables of numbers, and the forms in which they may be meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of
from dataguard.lab.images.image_containers import is_picture

MOST_ROWS = 512
_BOX, _POINT = re.compile(r"box", re.IGNORECASE), re.compile(r"key_?points?|landmarks?|joints", re.IGNORECASE)
_DEPTH = 6
_SLACK = 0.03
"""How far a box may reach over the edge of its image, as a share of it."""

Table = np.ndarray
"""Rows of numbers, (rows, columns), float64."""


@dataclass(frozen=True, slots=True)
class Form:
    """How the numbers of a row are meant: `kind` is a way to write boxes, or "xy"; in `pixels`, or as shares."""

    kind: str
    first: int
    pixels: bool

    def corners(self, table: Table, size: tuple[int, int]) -> np.ndarray:
        """Boxes as x and y of two corners, (rows, 4), as shares of an image of this height and width."""
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


def forms_of(columns: int, *, points: bool) -> list[Form]:
    """The forms that rows of so many columns may have; a class or a score may stand beside."""
    if points:
        return [Form("xy", 0, pixels) for pixels in (True, False)]
    firsts = {4: (0,), 5: (0, 1), 6: (0, 2)}[columns]
    return [Form(kind, first, pixels) for pixels in (True, False) for kind in BOXES for first in firsts]


def fits(form: Form, tables: Sequence[tuple[Table, tuple[int, int]]], *, strictly: bool) -> bool:
    """Whether all rows may be boxes in this form: of some width and height, and `strictly` inside their images."""
    corners = [form.corners(table, size) for table, size in tables if len(table)]
    if not corners:
        return False
    rows = np.concatenate(corners)
    # Pixels that all count as less than one pixel are shares, and shares of more than the image are pixels.
    if (form.pixels and max(float(table.max()) for table, _ in tables if len(table)) <= 2) or not np.isfinite(
        rows
    ).all():
        return False
    if form.kind != "xy" and not (rows[:, 2:] - rows[:, :2] > 0).all():
        return False
    reach = _SLACK if strictly or not form.pixels else 4.0
    return bool((rows >= -reach).all() and (rows <= 1 + reach).all())


def is_said(path: str, leaf: Any, *, points: bool) -> bool:
    """Whether the type of a leaf, or its name, says that it holds boxes or points."""
    kind = "KeyPoints" if points else "BoundingBoxes"
    return type(leaf).__name__ == kind or (_POINT if points else _BOX).search(path) is not None


def tables_of(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any, Table]]:
    """Every table of two to six columns in a sample: its path, the leaf, and its rows."""
    table = _table(value)
    if table is not None:
        yield path, value, table
    elif depth < _DEPTH and not is_picture(value):
        for step, inner in _inner(value):
            yield from tables_of(inner, path + step, depth + 1)


def _inner(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from ((f".{name}", item) for name, item in zip(value._fields, value, strict=False))
    elif isinstance(value, list | tuple):
        if value and all(isinstance(item, Mapping) for item in value) and len(value) > 1:
            for key in value[0]:  # one dictionary for each object, as in COCO's annotations
                yield f"[...][{key!r}]", [item.get(key) for item in value]
        else:
            yield from ((f"[{place}]", item) for place, item in enumerate(value))


def _table(value: Any) -> Table | None:
    """A leaf as rows of numbers; None for what is no table of that kind."""
    if isinstance(value, list | tuple):
        rows = [item for item in value if isinstance(item, list | tuple | np.ndarray | torch.Tensor)]
        if len(rows) != len(value) or not 0 < len(rows) <= MOST_ROWS or len({len(row) for row in rows}) != 1:
            return None
        try:
            array = np.array([array_of(row) for row in rows], np.float64)
        except (TypeError, ValueError):
            return None
    elif isinstance(value, torch.Tensor | np.ndarray) and not is_picture(value):
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
    return array if good and np.isfinite(array).all() else None
