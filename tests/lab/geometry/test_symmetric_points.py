"""Points without names that mirror each other."""

from __future__ import annotations

import numpy as np
import pytest

from dataguard.lab.geometry.symmetric_points import may_be_points, partners_of

FACE = np.array([[12.0, 10], [24, 10], [18, 18], [13, 26], [23, 26]])
SIDE = np.array([[8.0, 14], [14, 10], [22, 18], [40, 20], [52, 26], [24, 40]])
MIRROR = np.array([-1, 1])


def drawn(shape: np.ndarray, *, flips: bool = True) -> list[np.ndarray]:
    source = np.random.default_rng(0)
    shapes = [shape * (1 + number / 8) + source.normal(0, 0.4, shape.shape) for number in range(6)]
    return [one * MIRROR if flips and number % 2 else one for number, one in enumerate(shapes)]


def test_eyes_and_corners_of_the_mouth_change_places() -> None:
    assert partners_of(drawn(FACE)) == (1, 0, 2, 4, 3)
    assert partners_of(drawn(FACE, flips=False)) == (1, 0, 2, 4, 3)


def test_what_has_no_sides() -> None:
    assert partners_of(drawn(SIDE)) is None, "an animal from the side"
    assert partners_of(drawn(FACE)[:3]) is None, "too few samples"
    swapped = [one[[1, 0, 2, 4, 3]] if number < 3 else one for number, one in enumerate(drawn(FACE, flips=False))]
    mixed = [shape + np.random.default_rng(number).normal(0, 12, shape.shape) for number, shape in enumerate(swapped)]
    assert partners_of(mixed) is None, "no order from left to right"


@pytest.mark.parametrize(
    ("shape", "dtype", "may_be"),
    [
        ((5, 2), "int64", True),
        ((1, 17, 3), "float32", True),
        ((17, 64, 48), "float32", True),
        ((17, 64, 48), "uint8", True),
        ((17, 64, 48), "int64", False),  # the slices of a label map
        ((4, 2), "float32", False),
        ((1024, 3), "float32", False),
        ((3, 64, 48), "float32", False),
    ],
)
def test_shapes_of_points(shape: tuple[int, ...], dtype: str, may_be: bool) -> None:
    assert may_be_points(shape, dtype) is may_be
