"""Where boxes and points of a draw came from in the picture, and whether another draw shows them there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataguard.lab.core.index import Index
from dataguard.lab.geometry.box_tables import Form, Table, fits, forms_of
from dataguard.lab.geometry.stripe_charts import Pose

_CLOSE = 0.03
"""How far the corners of two boxes may lie apart, as a share of the image and besides rounding, to be one."""
_OVERLAP, _SHOWN = 0.75, 0.5
"""The share in which two boxes overlap at least, to be one; and the share of a box that a draw shows, to count."""
MOVED = 0.1
"""How far an image moves at least from one draw to another, for its boxes to tell something."""


@dataclass(frozen=True, slots=True)
class Place:
    """How one draw shows a sample: what happened to the image, its size, and its tables by path.

    `raw` is one without the dataset's transforms; `has_views` tells that its images were moved in different ways.
    """

    number: int
    draw: int
    index: Index
    raw: bool
    poses: Mapping[str, tuple[Pose, tuple[int, int]]]
    tables: Mapping[str, Table]
    has_views: bool


def compared(path: str, picture: str, form: Form, one: Place, other: Place) -> tuple[int, int] | None:
    """How many boxes of either draw the other one must show, and how many it does; None where nothing differs."""
    options = []
    for mine in _sources(path, picture, form, one):
        for theirs in _sources(path, picture, form, other):
            moved = distance(mine[0], theirs[0]) > MOVED
            if moved or mine[1] != theirs[1]:
                counts = [_matches(mine, theirs, form), _matches(theirs, mine, form)]
                options.append((sum(count for count, _ in counts), sum(found for _, found in counts)))
    told = [option for option in options if option[0]]
    return max(told, key=lambda option: option[1] / option[0], default=None)


Source = tuple[Pose, tuple[int, int], np.ndarray, np.ndarray]
"""A draw's pose and size, the part of the picture that it shows, and the boxes as they were in the picture."""


def _sources(path: str, picture: str, form: Form, place: Place) -> Iterator[Source]:
    """Where the boxes of a draw came from; without transforms they may be written in another form."""
    names = [picture] if picture in place.poses else list(place.poses) if place.raw else []
    for name in names:
        pose, size = place.poses[name]
        table = place.tables[path]
        forms = forms_of(table.shape[1], points=form.kind == "xy") if place.raw else [form]
        for own in forms:
            if len(table) and (own == form or fits(own, [(table, size)], strictly=True)):
                shown = _back(pose, np.array([[0.0, 0.0, 1.0, 1.0]]))[0]
                yield pose, size, shown, _back(pose, own.corners(table, size))


def _back(pose: Pose, corners: np.ndarray) -> np.ndarray:
    """Boxes of a leaf as boxes of the picture, (rows, 4)."""
    x = [pose.across[0] * corners[:, i] + pose.across[1] * corners[:, j] + pose.across[2] for i, j in ((0, 1), (2, 3))]
    y = [pose.down[0] * corners[:, i] + pose.down[1] * corners[:, j] + pose.down[2] for i, j in ((0, 1), (2, 3))]
    return np.stack([np.minimum(*x), np.minimum(*y), np.maximum(*x), np.maximum(*y)], axis=1)


def distance(one: Pose, other: Pose) -> float:
    """How far the corners of a leaf move from one pose to another, as a share of the picture."""
    corners = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]])
    return float(np.abs(_back(one, corners) - _back(other, corners)).max())


def _matches(mine: Source, theirs: Source, form: Form) -> tuple[int, int]:
    """How many of my boxes lie in what they show, and how many of those they have there."""
    boxes, others = _clipped(mine[3], theirs[2]), _clipped(theirs[3], mine[2])
    if form.kind == "xy":
        held = mine[3].any(axis=1) & (mine[3][:, :2] >= theirs[2][:2] + _CLOSE).all(axis=1)
        held &= (mine[3][:, :2] <= theirs[2][2:] - _CLOSE).all(axis=1)
    else:
        held = _area(boxes) >= _SHOWN * _area(mine[3])
    close = _CLOSE + 1.5 / min(*mine[1], *theirs[1])
    count = found = 0
    for box, whole in zip(boxes[held], mine[3][held], strict=True):
        count += 1
        same = (np.abs(others - box) <= close).all(axis=1)
        uncut = (np.abs(theirs[3] - whole) <= close).all(axis=1)  # boxes that reach beyond their crop are still theirs
        inner = _area(_clipped(others, box))
        overlap = inner / np.maximum(_area(others) + _area(box[None]) - inner, 1e-12)
        found += bool((same | uncut | (overlap >= _OVERLAP)).any())
    return count, found


def _clipped(boxes: np.ndarray, frame: np.ndarray) -> np.ndarray:
    return np.concatenate([np.maximum(boxes[:, :2], frame[:2]), np.minimum(boxes[:, 2:], frame[2:])], axis=1)


def _area(boxes: np.ndarray) -> Any:
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
    return sides[:, 0] * sides[:, 1]
