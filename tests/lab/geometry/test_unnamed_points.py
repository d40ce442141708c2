"""Points that nothing names: an affine map takes those of one draw to those of another."""

from __future__ import annotations

import numpy as np
import pytest

from dataguard.lab.geometry.box_tables import are_moved_as_one

POINTS = np.array([[10.0, 12], [40, 15], [22, 31], [35, 44], [14, 40], [28, 20]])
TURN = np.array([[0.8, -0.6], [0.6, 0.8]])
RANDOM = np.random.default_rng(0).uniform(0, 50, POINTS.shape)


@pytest.mark.parametrize(
    ("others", "are"),
    [
        ([POINTS @ TURN.T + 3], True),
        ([POINTS, POINTS * [-1, 1] + [50, 0]], True),
        ([(POINTS @ TURN.T).round(1), POINTS], True),
        ([POINTS, POINTS], False),
        ([RANDOM], False),
        ([POINTS @ TURN.T, RANDOM], False),
        ([POINTS[:5]], False),
    ],
    ids=["rotated", "flipped", "rounded", "unmoved", "random", "once random", "cut off"],
)
def test_points_move_as_one(others: list[np.ndarray], are: bool) -> None:
    assert are_moved_as_one([POINTS, *others]) is are


def test_few_points_and_those_on_a_line_have_a_map_by_chance() -> None:
    line = np.outer(np.arange(6.0), [1, 2])
    assert not are_moved_as_one([POINTS[:4], POINTS[:4] + 5])
    assert not are_moved_as_one([line, line + 5])
