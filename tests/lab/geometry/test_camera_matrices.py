"""Camera matrices: which arrays are one, and whether they follow their image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dataguard.lab.geometry.box_alignment import BoxDraw, Placement
from dataguard.lab.geometry.camera_matrices import camera_of, is_in_pixels, judged_pairs, numbers_of, scaled_camera
from dataguard.lab.geometry.charts import UNMOVED, Pose

SIZE = (48, 64)
CAMERA = np.array([[50.0, 0, 20], [0, 50, 20], [0, 0, 1]])
FLIPPED = Pose((-1.0, 0.0, 1.0), (0.0, 1.0, 0.0))
CROPPED = Pose((0.5, 0.0, 0.25), (0.0, 0.5, 0.25))
CROP = np.array([[2.0, 0, -32], [0, 2, -24], [0, 0, 1]])
MIRROR = np.array([[-1.0, 0, 64], [0, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    ("numbers", "is_one"),
    [
        (CAMERA, True),
        (CAMERA[None].astype(np.float32), True),
        (np.column_stack([CAMERA, [1, 2, 0]]), True),
        (np.linalg.inv(CAMERA), False),
        (np.array([[1.2, 0, 30], [0, 1.2, 20], [0, 0, 1]]), False),
        (CAMERA / [[64], [48], [1]], False),
        (MIRROR, False),
        (np.array([[0.8, -0.6, 20], [0.6, 0.8, 20], [0, 0, 1]]), False),
        (np.stack([CAMERA] * 6), False),
        (np.arange(9.0), False),
    ],
    ids=["plain", "batch", "3 x 4", "inverse", "crop", "shares", "flip", "rotation", "six", "row"],
)
def test_a_camera_is_known_by_its_structure(numbers: Any, is_one: bool) -> None:
    camera = camera_of(numbers)
    assert (camera is not None and is_in_pixels(camera, SIZE)) is is_one


def draw(number: int, pose: Pose, camera: np.ndarray) -> tuple[BoxDraw, dict[str, np.ndarray]]:
    places = {"image": Placement(pose, SIZE, np.array([[0.0, 0.0, 1.0, 1.0]]))}
    return BoxDraw(0, number, 3, False, places, {}, False, False), {"K": camera}


@pytest.mark.parametrize(
    ("pose", "camera", "verdict"),
    [
        (CROPPED, CROP @ CAMERA, [(None, True)]),
        (CROPPED, CAMERA, [(None, False)]),
        (FLIPPED, MIRROR @ CAMERA, [(0, True)]),
        (FLIPPED, np.abs(MIRROR @ CAMERA), [(0, True)]),
        (FLIPPED, CAMERA, [(0, False)]),
        (UNMOVED, CAMERA, []),
    ],
    ids=["crop", "forgotten crop", "flip", "positive after a flip", "forgotten flip", "unmoved"],
)
def test_a_camera_follows_its_image(pose: Pose, camera: np.ndarray, verdict: list[Any]) -> None:
    pairs = judged_pairs("K", "image", [draw(0, UNMOVED, CAMERA), draw(1, pose, camera)])
    assert [(axis, follows) for axis, follows, *_ in pairs] == verdict


def test_a_flip_around_the_principal_point_changes_nothing() -> None:
    central = np.array([[50.0, 0, 32], [0, 50, 24], [0, 0, 1]])
    assert not list(judged_pairs("K", "image", [draw(0, UNMOVED, central), draw(1, FLIPPED, central)]))


def test_small_leaves_are_numbers() -> None:
    sample = {"K": CAMERA, "name": "a", "image": np.zeros((3, 48, 64)), "scale": 0.5}
    assert set(numbers_of(sample)) == {"['K']", "['scale']"}


FILE = (96, 192)
"""Twice as high as the image, and three times as wide."""
OWN = np.array([[150.0, 0, 99], [0, 150.0, 45], [0, 0, 1]])


@pytest.mark.parametrize(
    ("camera", "beside", "factors"),
    [
        (OWN, {}, (1 / 3, 1 / 2)),
        (np.diag([1 / 2, 1 / 3, 1]) @ OWN, {}, (2 / 3, 3 / 2)),
        (np.diag([1 / 3, 1 / 2, 1]) @ OWN, {}, None),
        (OWN, {"size": np.array([96, 192])}, None),
        (OWN, {"ratio": np.array([1 / 3, 1 / 2])}, None),
        (OWN, {"scaled": np.diag([1 / 3, 1 / 2, 1]) @ OWN}, None),
        (OWN @ np.array([[1, 0, 0.9], [0, 1, 0], [0, 0, 1]]), {}, None),
    ],
    ids=["of the file", "other sides", "scaled", "beside a size", "beside ratios", "beside another", "off centre"],
)
def test_a_camera_is_scaled_with_its_image(camera: np.ndarray, beside: Any, factors: Any) -> None:
    placed = [draw(number, UNMOVED, camera) for number in range(4)]
    found = scaled_camera("K", "image", [(one, {**numbers, **beside}, FILE) for one, numbers in placed])
    assert (found and found.factors) == (factors and pytest.approx(factors))
    assert scaled_camera("K", "image", [(*one, FILE) for one in placed[:3]]) is None
