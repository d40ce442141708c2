"""How values become colours, and what lies over them."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dataguard.core.figures import Undo
from dataguard.lab.pictures.sample_views import (
    CLOSEUP_SIDE,
    LONGEST_DISPLAY,
    boxes_of,
    closeup,
    displayed,
    overlay,
    reduced,
    thumbnail,
    upright,
)

RAMP = np.linspace(0, 1, 16 * 16 * 3).reshape(16, 16, 3)
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def shown(leaf: Any, undo: Undo | None = None) -> tuple[np.ndarray, str]:
    (pixels,), note = displayed([reduced(leaf)], undo)
    return pixels, note


def decoded(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(png)))


BYTES = (255 * RAMP).round().astype(np.uint8)


@pytest.mark.parametrize(
    "leaf",
    [
        BYTES,
        Image.fromarray(BYTES),
        torch.from_numpy(BYTES).permute(2, 0, 1),
        torch.from_numpy(BYTES).permute(2, 0, 1)[None],
        torch.from_numpy(BYTES / 255).permute(2, 0, 1),
        torch.from_numpy(BYTES / 255).bfloat16().permute(2, 0, 1),
        BYTES.astype(np.float32),
        BYTES.astype(np.int64),
    ],
    ids=["array", "Pillow", "channels first", "batch of one", "unit floats", "bfloat16", "floats", "int64"],
)
def test_usual_images_are_shown_as_they_are(leaf: Any) -> None:
    pixels, note = shown(leaf)
    assert np.abs(pixels.astype(int) - BYTES).max() <= 1
    assert note == ""


@pytest.mark.parametrize(
    ("leaf", "note"),
    [
        (torch.from_numpy(RAMP * 4 - 2).permute(2, 0, 1), "min-max scaled from -2 to 2"),
        ((RAMP * 60000).astype(np.uint16), "min-max scaled from 0 to 6e+04"),
        (np.concatenate([BYTES, BYTES], axis=-1).transpose(2, 0, 1), "channels 0, 1, 2 of 6"),
        (np.concatenate([BYTES, BYTES[..., :1]], axis=-1), "channels 0, 1, 2 of 4"),
        (BYTES[..., :2], "channels 0 of 2"),
    ],
    ids=["normalized", "16 bit", "bands", "alpha", "two"],
)
def test_a_label_says_how_unusual_ones_were_changed(leaf: Any, note: str) -> None:
    pixels, words = shown(leaf)
    assert (words, pixels.shape) == (note, (16, 16, 3))
    assert pixels.min() == 0
    assert pixels.max() >= 252


def test_grey_and_flags_have_three_equal_channels() -> None:
    assert np.unique(shown(BYTES[..., 0])[0]).tolist() == np.unique(BYTES[..., 0]).tolist()
    assert set(np.unique(shown(torch.eye(8, dtype=torch.bool))[0])) == {0, 255}


def test_a_normalization_is_undone_and_what_is_out_of_range_clipped() -> None:
    undo = Undo(tuple(1 / 255 / STD), tuple(-MEAN / STD), "undone")
    normalized = torch.from_numpy((BYTES / 255 - MEAN) / STD).permute(2, 0, 1)
    pixels, note = shown(normalized, undo)
    assert (note, np.abs(pixels.astype(int) - BYTES).max()) == ("undone", 0)
    assert shown(300 * normalized.abs() + 300, undo)[0].min() == 255


def test_several_images_share_one_scale() -> None:
    (dark, light), _ = displayed([reduced(RAMP - 1.0), reduced(RAMP + 1.0)])
    assert dark.max() < light.min()


def test_pixels_that_are_not_finite_are_magenta() -> None:
    image = RAMP.copy()
    image[3, 4, 0] = np.nan
    image[5, 6, 2] = np.inf
    pixels, note = shown(image)
    assert note == "NaN and Inf are magenta"
    assert [tuple(pixels[3, 4]), tuple(pixels[5, 6])] == [(255, 0, 255)] * 2
    assert len(np.flatnonzero((pixels == (255, 0, 255)).all(axis=-1))) == 2


def test_a_picture_is_small_and_keeps_its_form() -> None:
    assert decoded(thumbnail(shown(np.zeros((900, 3000, 3), np.uint8))[0])).shape == (
        round(0.3 * LONGEST_DISPLAY),
        LONGEST_DISPLAY,
        3,
    )
    assert decoded(thumbnail(BYTES)).shape == (16, 16, 3)
    assert decoded(overlay(np.zeros((1, 800, 400), np.int64))).shape == (LONGEST_DISPLAY, LONGEST_DISPLAY // 2, 4)


def test_a_mask_has_a_colour_for_each_value_and_none_for_the_least() -> None:
    mask = np.zeros((16, 16), np.int64)
    mask[4:8], mask[8:12], mask[12:] = 1, 7, 9
    rows = decoded(overlay(mask, labels=(0, 1, 7)))[::4, 0]
    assert rows[0, 3] == 0
    assert len({tuple(row) for row in rows}) == 4
    assert rows[3].tolist() == [255] * 4


@pytest.mark.parametrize("scale", [1, 64])
def test_boxes_are_fractions_of_their_image(scale: int) -> None:
    corners = torch.tensor([[0.25, 0.5, 0.75, 1.0], [0.0, 0.0, 0.5, 0.5]]) * scale
    boxes = boxes_of((torch.zeros(3, 64, 64), {"boxes": corners}), "[1]['boxes']", "xyxy", (64, 64))
    assert [(one.left, one.top, one.right, one.bottom) for one in boxes] == [(0.25, 0.5, 0.75, 1.0), (0, 0, 0.5, 0.5)]


def test_an_original_is_rotated_and_lies_on_white() -> None:
    file = BytesIO()
    exif = Image.Exif()
    exif[274] = 6
    Image.new("RGB", (40, 20)).save(file, "JPEG", exif=exif)
    stored = upright(file.getvalue())
    assert stored is not None
    assert stored.shape == (40, 20, 3)
    file = BytesIO()
    Image.new("RGBA", (8, 8), (9, 9, 9, 0)).save(file, "PNG")
    clear = upright(file.getvalue())
    assert clear is not None
    assert clear.min() == 255
    assert upright(b"no image") is None


def test_the_rim_of_a_blended_mask_is_enlarged() -> None:
    image, mask = np.zeros((300, 400, 3), np.uint8), np.zeros((300, 400), np.float32)
    mask[200:260, 300:380] = 1
    mask[200, 300:380] = 0.5
    close = closeup(image, mask, (0, 1))
    assert close is not None
    assert close.label == f"{CLOSEUP_SIDE} × {CLOSEUP_SIDE} pixels from row 153, column 300"
    painted = decoded(close.mask or b"")
    assert painted.shape[:2] == decoded(close.png).shape[:2] == (LONGEST_DISPLAY // CLOSEUP_SIDE * CLOSEUP_SIDE,) * 2
    assert (painted[-1] == 255).all()
    assert not (painted[0] == 255).all(axis=-1).any()
    assert closeup(image, mask.round(), (0, 1)) is None
    assert closeup(image, 3 * mask.round(), None) is None
    assert closeup(image, (4 * mask).astype(np.uint8), None) == close  # 2 is a label, too
    assert closeup(image[:100], mask, (0, 1)) is None
