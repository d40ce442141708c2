"""The source positions of boxes and points in one draw, and whether they are the same in another draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataguard.lab.core.index import Index
from dataguard.lab.geometry.box_tables import BoxFormat, Table, fits, formats_of
from dataguard.lab.geometry.stripe_charts import Pose

_CLOSE = 0.03
"""How far apart the corners of the same box may be in two draws, as a share of the image, in addition to rounding."""
_OVERLAP, _SHOWN = 0.75, 0.5
"""The smallest overlap (IoU) of the same box in two draws, and the smallest visible share of a box that is expected."""
MOVED = 0.1
"""How far an image must move between two draws for its boxes to be compared."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an image leaf shows its chart: the pose, the leaf's height and width, and the part `shown`.

    `shown` is (1, 4), x and y of two corners as shares of the leaf: other tiles of a mosaic lie outside.
    """

    pose: Pose
    size: tuple[int, int]
    shown: np.ndarray


@dataclass(frozen=True, slots=True)
class BoxDraw:
    """One draw of a sample: the placement of each image, and its tables, by path.

    In a `raw` one the dataset's transforms are bypassed; `has_views` means that its images are moved differently, and
    `is_combined` that one of them shows several images, each with boxes of its own.
    """

    number: int
    draw: int
    index: Index
    raw: bool
    poses: Mapping[str, Placement]
    tables: Mapping[str, Table]
    has_views: bool
    is_combined: bool


def compared(path: str, image: str, box_format: BoxFormat, one: BoxDraw, two: BoxDraw) -> tuple[int, int] | None:
    """The number of boxes expected in the other draw, and of those found there; None if the image does not move."""
    options = []
    for source in _sources(path, image, box_format, one):
        for other in _sources(path, image, box_format, two):
            moved = distance(source[0], other[0]) > MOVED
            if moved or source[1] != other[1]:
                counts = [_matches(source, other, box_format), _matches(other, source, box_format)]
                options.append((sum(count for count, _ in counts), sum(found for _, found in counts)))
    expected = [option for option in options if option[0]]
    return max(expected, key=lambda option: option[1] / option[0], default=None)


Source = tuple[Pose, tuple[int, int], np.ndarray, np.ndarray]
"""The pose and size of a draw, the part of the source image that it shows, and its boxes in the source image."""


def _sources(path: str, image: str, box_format: BoxFormat, draw: BoxDraw) -> Iterator[Source]:
    """The source positions of the boxes of a draw; without transforms they may have another format."""
    names = [image] if image in draw.poses else list(draw.poses) if draw.raw else []
    for name in names:
        pose, size = draw.poses[name].pose, draw.poses[name].size
        table = draw.tables[path]
        formats = formats_of(table.shape[1], points=box_format.kind == "xy") if draw.raw else [box_format]
        for one in formats:
            if len(table) and (one == box_format or fits(one, [(table, size)], strictly=True)):
                shown = in_source(pose, draw.poses[name].shown)[0]
                yield pose, size, shown, in_source(pose, one.corners(table, size))


def in_source(pose: Pose, corners: np.ndarray) -> np.ndarray:
    """Boxes of a leaf as boxes of the source image, (rows, 4)."""
    x = [pose.across[0] * corners[:, i] + pose.across[1] * corners[:, j] + pose.across[2] for i, j in ((0, 1), (2, 3))]
    y = [pose.down[0] * corners[:, i] + pose.down[1] * corners[:, j] + pose.down[2] for i, j in ((0, 1), (2, 3))]
    return np.stack([np.minimum(*x), np.minimum(*y), np.maximum(*x), np.maximum(*y)], axis=1)


def distance(one: Pose, other: Pose) -> float:
    """How far the corners of a leaf move from one pose to another, as a share of the image."""
    corners = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]])
    return float(np.abs(in_source(one, corners) - in_source(other, corners)).max())


def _matches(own: Source, other: Source, box_format: BoxFormat) -> tuple[int, int]:
    """How many boxes of one draw are inside what both show, and how many of those the other has there."""
    boxes, others = _clipped(own[3], other[2]), _clipped(other[3], own[2])
    if box_format.kind == "xy":
        expected = own[3].any(axis=1) & (own[3][:, :2] >= other[2][:2] + _CLOSE).all(axis=1)
        expected &= (own[3][:, :2] <= other[2][2:] - _CLOSE).all(axis=1)
    else:
        expected = _area(_clipped(boxes, own[2])) >= _SHOWN * _area(own[3])
    close = _CLOSE + 1.5 / min(*own[1], *other[1])
    count = found = 0
    for box, whole in zip(boxes[expected], own[3][expected], strict=True):
        count += 1
        same = (np.abs(others - box) <= close).all(axis=1)
        uncropped = (np.abs(other[3] - whole) <= close).all(axis=1)  # boxes may extend beyond their crop
        inner = _area(_clipped(others, box))
        overlap = inner / np.maximum(_area(others) + _area(box[None]) - inner, 1e-12)
        found += bool((same | uncropped | (overlap >= _OVERLAP)).any())
    return count, found


def _clipped(boxes: np.ndarray, frame: np.ndarray) -> np.ndarray:
    return np.concatenate([np.maximum(boxes[:, :2], frame[:2]), np.minimum(boxes[:, 2:], frame[2:])], axis=1)


def _area(boxes: np.ndarray) -> Any:
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
    return sides[:, 0] * sides[:, 1]
