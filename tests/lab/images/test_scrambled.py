"""Images that were reshaped to another layout, by the channels of a chart of one pure colour."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dataguard.lab.images.scrambled import bright_shares, is_scrambled, scrambled_paths, shares_of

RED = np.zeros((20, 26, 3), np.uint8)
RED[..., 0] = 255
PADDED = np.full((20, 26, 3), 114, np.uint8)
PADDED[:, 4:22] = RED[:, 4:22]


@pytest.mark.parametrize(
    ("array", "scrambled"),
    [
        (RED, False),
        (RED.transpose(2, 0, 1), False),
        (RED.reshape(3, 20, 26), True),
        (RED.reshape(3, 20, 26)[..., ::-1] / 255 - 0.5, True),
        (RED.transpose(2, 0, 1).reshape(20, 26, 3), True),
        (np.stack([RED.transpose(2, 0, 1)] * 8).reshape(3, 8, 20, 26), True),
        (np.stack([RED.transpose(2, 0, 1)] * 8).transpose(1, 0, 2, 3), False),
        (PADDED, False),
        (PADDED.transpose(2, 0, 1), False),
        (np.full((3, 20, 26), 0.3), False),
    ],
    ids=["last", "first", "view", "flipped", "back", "frames", "right frames", "padding", "padding first", "grey"],
)
def test_channels_hold_one_colour(array: np.ndarray, scrambled: bool) -> None:
    shares = shares_of(array)
    assert (shares is not None and is_scrambled(shares)) is scrambled


@pytest.mark.parametrize("made", [lambda: np.zeros((9, 4)), lambda: np.linspace(0, 1, 300).reshape(100, 3)])
def test_other_pixels_show_nothing(made: Callable[[], np.ndarray]) -> None:
    assert bright_shares(made()) is None


def test_all_colours_and_draws_must_agree() -> None:
    third, pure = {"[0]": (0.33, 0.33, 0.34)}, {"[0]": (1.0, 0.0, 0.0)}
    assert list(scrambled_paths([third.items()] * 6)) == ["[0]"]
    assert not list(scrambled_paths([third.items()] * 3))
    assert not list(scrambled_paths([*[third.items()] * 5, pure.items()]))
