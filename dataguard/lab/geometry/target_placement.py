"""Whether a dense target is placed as its image is, between two draws, by what it shows beside its background.

A target may be a mask, heatmaps, a field of offsets, or a grid of cells that holds classes and boxes. What it shows
moves with the image; its values may change, as offsets within a cell do. So both are compared: values, and the cells
that hold any, which may be off by one where centres are rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from dataguard.lab.geometry.box_alignment import MOVED_DISTANCE, distance
from dataguard.lab.geometry.charts import UNMOVED, Pose
from dataguard.lab.images.painter import is_image, planes_of

SAME_ASPECT = 0.02
"""How far the ratio of the sides of a target and its image may differ; maps of another view have another one."""
FEWEST_CELLS = 7
"""The fewest cells along a side of a grid: YOLO's first had seven."""
FOLLOWING, DISTINCT = 0.5, 0.35
"""The share of what a target shows that agrees where it follows its image, and the largest share that agrees with the
target itself, placed as it would be if it did not: others look the same in both places."""
CLOSE = 0.1
"""How far two values may differ that count as equal, as a share of the range: heatmaps are sampled between points."""
MOST_POINTS = 4096
"""Cells that are compared: a limit of time."""
COVERED = 0.5
"""The share of a target that holds values, above which it is not known by where they are: nearly all places fit."""

Matrix = np.ndarray
"""An affine map, (2, 3)."""


def grids_of(array: np.ndarray) -> Iterator[np.ndarray]:
    """An array as (planes, height, width), for each two of its axes that may be these; as an image first."""
    if is_image(array):
        yield planes_of(array)
    for last in range(array.ndim - 1, 0, -1):
        if min(array.shape[last - 1 : last + 1]) >= FEWEST_CELLS and (last < array.ndim - 1 or not is_image(array)):
            moved = np.moveaxis(array, (last - 1, last), (-2, -1))
            yield moved.reshape(-1, *moved.shape[-2:])


def grid_beside(array: np.ndarray, size: tuple[int, int]) -> np.ndarray | None:
    """An array as the first grid that has the ratio of the sides of an image of this size."""
    return next((grid for grid in grids_of(array) if _has_aspect(grid, size)), None)


def _has_aspect(grid: np.ndarray, size: tuple[int, int]) -> bool:
    height, width = grid.shape[-2:]
    return bool(abs(height * size[1] / (width * size[0]) - 1) <= SAME_ASPECT)


@dataclass(frozen=True, slots=True)
class Missed:
    """What a target does not follow of the way in which its image is placed: a flip along this axis, x or y.

    The axis is None if it follows nothing, or if its axes are `exchanged`. `before_crop`: the file is flipped, and then
    cropped.
    """

    axis: int | None = None
    before_crop: bool = False
    exchanged: bool = False

    def pose(self, pose: Pose) -> Pose:
        """Where the target would come from beside an image of this pose."""
        if self.exchanged:
            return _pose(_matrix(pose)[:, [1, 0, 2]])
        if self.axis is None:
            return UNMOVED
        if not is_flipped(pose, self.axis):
            return pose
        matrix = _matrix(pose)
        if self.before_crop:
            matrix[self.axis] = [0, 0, 1] - matrix[self.axis]
        else:
            matrix[:, 2] += matrix[:, self.axis]
            matrix[:, self.axis] *= -1
        return _pose(matrix)


MISSED = (Missed(), *(Missed(axis, before_crop=before) for axis, before in product((0, 1), (True, False))))
"""What may be missed, the simplest first."""
EXCHANGED = Missed(exchanged=True)


def is_flipped(pose: Pose, axis: int) -> bool:
    """Whether an image of this pose is flipped along an axis, x or y, and not rotated by a quarter."""
    return (pose.across, pose.down)[axis][axis] < 0


def _matrix(pose: Pose) -> Matrix:
    return np.array([pose.across, pose.down])


def _pose(matrix: Matrix) -> Pose:
    return Pose(*map(tuple, matrix.tolist()))


def _inverse(matrix: Matrix) -> Matrix:
    inverse = np.linalg.inv(matrix[:, :2])
    return np.column_stack([inverse, -inverse @ matrix[:, 2]])


def _after(second: Matrix, first: Matrix) -> Matrix:
    return np.column_stack([second[:, :2] @ first[:, :2], second[:, :2] @ first[:, 2] + second[:, 2]])


class Shown:
    """What a target shows beside its background, the most common value."""

    def __init__(self, grid: np.ndarray) -> None:
        self.grid = grid
        values, counts = np.unique(grid, return_counts=True)
        self.near = CLOSE * max(float(np.ptp(values)), 1e-9)
        self.planes = np.abs(grid.astype(np.float64) - float(values[counts.argmax()])) > self.near
        self.cells = np.asarray(self.planes.any(axis=0))
        places = np.flatnonzero(self.cells)
        self.points = places[:: -(-len(places) // MOST_POINTS) or 1]

    @property
    def is_symmetric(self) -> bool:
        """Whether each plane is its own transpose, as a table of relations is."""
        return self.cells.shape[0] == self.cells.shape[1] and np.array_equal(self.grid, self.grid.swapaxes(-1, -2))

    def agreement(self, other: Shown, places: Matrix, *, plane_by_plane: bool = False) -> float | None:
        """The share of both that agrees with the other one, placed there by this map; None if nothing is shown.

        With `plane_by_plane`, only values count, and not the cells in which any plane holds one.
        """
        counts = self._found(other, places) + other._found(self, _inverse(places))
        counts = counts[:1] if plane_by_plane else counts
        return max((float(hits / total) for hits, total in counts if total), default=None)

    def _found(self, other: Shown, places: Matrix) -> np.ndarray:
        """How many values, and how many cells, are in the other one as well, and of how many that are inside it."""
        height, width = self.cells.shape
        high, wide = other.cells.shape
        rows, columns = np.divmod(self.points, width)
        x, y = places @ np.stack([(columns + 0.5) / width, (rows + 0.5) / height, np.ones(len(rows))])
        column, row = np.floor(x * wide).astype(int), np.floor(y * high).astype(int)
        inside = (column >= 0) & (column < wide) & (row >= 0) & (row < high)
        rows, columns, row, column = rows[inside], columns[inside], row[inside], column[inside]
        shown = self.planes[:, rows, columns]
        apart = np.abs(self.grid[:, rows, columns].astype(np.float64) - other.grid[:, row, column])
        equal = apart <= max(self.near, other.near)
        sparse = max(self.cells.mean(), other.cells.mean()) <= COVERED
        cells = [_grown(other.cells)[row, column].sum(), len(row)] if sparse else [0, 0]
        return np.array([[(equal & shown).sum(), shown.sum()], cells])


def _grown(cells: np.ndarray) -> np.ndarray:
    """Cells, and those beside them."""
    padded = np.pad(cells, 1)
    height, width = cells.shape
    parts = [padded[row : row + height, column : column + width] for row, column in product(range(3), repeat=2)]
    return np.asarray(np.logical_or.reduce(parts))


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether a target in two draws agrees where both follow their image, and where they miss something."""

    follows: bool
    misses: bool


def compared(one: Shown, other: Shown, poses: tuple[Pose, Pose], missed: Missed) -> Agreement | None:
    """How a target agrees between two draws, beside images of these poses; None if these would not show it."""
    first, second = (_matrix(pose) for pose in poses)
    missed_first, missed_second = (_matrix(missed.pose(pose)) for pose in poses)
    following, missing = _after(_inverse(second), first), _after(_inverse(missed_second), missed_first)
    if distance(_pose(following), _pose(missing)) <= MOVED_DISTANCE:
        return None
    if missed.exchanged and any(is_flipped(pose, axis) for pose in poses for axis in (0, 1)):
        return None  # a flip may also exchange planes, as those of left and right joints
    plane_by_plane = missed.exchanged
    alike = one.agreement(one, _after(_inverse(missing), following), plane_by_plane=plane_by_plane)
    follows, misses = (one.agreement(other, places, plane_by_plane=plane_by_plane) for places in (following, missing))
    if alike is None or alike >= DISTINCT or follows is None or misses is None:
        return None  # it looks the same in both places
    return Agreement(follows >= FOLLOWING, misses >= FOLLOWING)
