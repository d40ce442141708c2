"""Dense targets that are drawn by code: whether they are placed as their image is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dataguard.lab.geometry.charts import UNMOVED, Pose
from dataguard.lab.geometry.target_placement import EXCHANGED, MISSED, Missed, Shown, compared, grid_beside

FLIPPED = Pose((-1.0, 0.0, 1.0), (0.0, 1.0, 0.0))
CROPPED = Pose((0.75, 0.0, 0.0), (0.0, 0.75, 0.0))
TO_THE_LEFT, DOWN = Pose((0.75, 0.0, 0.0), (0.0, 0.75, 0.25)), Pose((0.75, 0.0, 0.25), (0.0, 0.75, 0.0))
FLIPPED_THEN_CROPPED = Pose((-0.75, 0.0, 1.0), (0.0, 0.75, 0.0))


def peak(x: float, y: float = 0.3, side: int = 32) -> np.ndarray:
    rows, columns = np.indices((side, side))
    return np.exp(-((columns + 0.5 - x * side) ** 2 + (rows + 0.5 - y * side) ** 2) / 4)[None]


@pytest.mark.parametrize(
    ("one", "other", "poses", "missed", "verdict"),
    [
        (peak(0.2), peak(0.8), (UNMOVED, FLIPPED), Missed(), (True, False)),
        (peak(0.2), peak(0.2), (UNMOVED, FLIPPED), Missed(), (False, True)),
        (peak(0.2), peak(0.2 / 0.75, 0.4), (UNMOVED, FLIPPED_THEN_CROPPED), Missed(0, before_crop=True), (False, True)),
        (peak(0.8), peak(0.2 / 0.75, 0.4), (UNMOVED, FLIPPED_THEN_CROPPED), Missed(0, before_crop=True), (True, False)),
        (peak(0.2), peak(0.2 / 0.75, 0.4), (UNMOVED, CROPPED), Missed(0, before_crop=True), None),
        (peak(0.5), peak(0.5), (UNMOVED, FLIPPED), Missed(), None),
        (peak(0.2) * 0, peak(0.2) * 0, (UNMOVED, FLIPPED), Missed(), None),
        (peak(0.6, 0.3), peak(0.2667, 0.6333), (TO_THE_LEFT, DOWN), EXCHANGED, (True, False)),
        (peak(0.3, 0.6), peak(0.6333, 0.2667), (TO_THE_LEFT, DOWN), EXCHANGED, (False, True)),
        (peak(0.3, 0.6), peak(0.6333, 0.2667), (TO_THE_LEFT, FLIPPED), EXCHANGED, None),
    ],
    ids=[
        "follows",
        "stays",
        "misses a flip",
        "flips before its crop",
        "nothing to miss",
        "symmetric",
        "empty",
        "rows and columns",
        "x and y",
        "flipped x and y",
    ],
)
def test_where_a_target_is(one: Any, other: Any, poses: Any, missed: Missed, verdict: Any) -> None:
    found = compared(Shown(one), Shown(other), poses, missed)
    assert (found and (found.follows, found.misses)) == verdict


def test_channels_may_change_places_and_values_may_change_in_their_cells() -> None:
    left_and_right = np.concatenate([peak(0.2), peak(0.3, 0.7)])
    swapped = np.concatenate([peak(0.7, 0.7), peak(0.8)])
    found = compared(Shown(left_and_right), Shown(swapped), (UNMOVED, FLIPPED), Missed())
    assert found
    assert found.follows
    assert not found.misses
    cells, other = np.zeros((2, 9, 9)), np.zeros((2, 9, 9))
    cells[:, 2, 1], other[:, 2, 7] = (0.2, 0.9), (0.8, 0.5)
    found = compared(Shown(cells), Shown(other), (UNMOVED, FLIPPED), Missed())
    assert found
    assert found.follows


def test_rows_and_columns_are_two_neighbouring_axes_with_the_sides_of_the_image() -> None:
    shapes = {
        shape: grid_beside(np.zeros(shape), (48, 64)) for shape in [(9, 12, 30), (3, 9, 12), (9, 9, 5), (6, 8, 5)]
    }
    assert [None if grid is None else grid.shape for grid in shapes.values()] == [(30, 9, 12), (3, 9, 12), None, None]


def test_a_table_of_relations_is_no_target() -> None:
    assert Shown(np.eye(12)[None]).is_symmetric
    assert not Shown(peak(0.2)).is_symmetric
    assert MISSED[0].pose(FLIPPED) == UNMOVED
