"""Frames that are stacked on the channel axis of an image."""

from __future__ import annotations

import numpy as np
import pytest

from dataguard.lab.images.chart_fit import response_to

RED = np.array([0.9, 0.2, 0.1])


def shades(leaf: np.ndarray) -> list[list[float]]:
    response = response_to((255, 0, 0), 0, leaf)
    return [np.round(shade, 3).tolist() for shade in response.shades.get("", ())]


@pytest.mark.parametrize(
    "channels", [np.tile(RED, 2), np.tile(RED, 5), np.repeat(RED, 2)], ids=["two", "five", "by channel"]
)
def test_each_frame_has_the_colour(channels: np.ndarray) -> None:
    image = np.broadcast_to(channels[:, None, None], (len(channels), 16, 20)).astype(np.float32)
    assert shades(image) == [RED.tolist()]
    assert shades(np.moveaxis(image, 0, -1)) == [RED.tolist()]


def test_seven_channels_are_no_frames() -> None:
    assert shades(np.ones((7, 16, 20), np.float32)) == []
