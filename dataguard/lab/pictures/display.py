"""Images of any kind as small PNG files, and masks and boxes that are laid over them.

Pillow is imported here, and so only in processes that make pictures.
"""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np

from dataguard.figures import Box, Picture
from dataguard.lab.core.leaves import array_of, is_pillow
from dataguard.lab.geometry.box_tables import fits, formats_of, tables_of
from dataguard.lab.images.image_containers import planes_last, planes_of
from dataguard.lab.pictures.views import Undo

LONGEST = 256
"""The longer side of a picture, in pixels."""
CLOSE = 48
"""The sides of a part that is enlarged, in pixels of the image."""
MOST_BOXES = 50
_BAD = (255, 0, 255)
_SHADES, _MASKED = 256, 140
"""The most colours of a mask, and how opaque it is, of 255."""
_GOLDEN = 0.618
"""Hues this far apart stay distinct, however many there are."""
_DOT = 0.015
"""Half the side of the box that marks a point, as a share of the picture."""


def reduced(leaf: Any, longest: int = LONGEST) -> np.ndarray:
    """The first image of a leaf as (height, width, channels) in its own dtype, without the pixels that are not shown.

    A leaf is a Pillow image, an array or a tensor, with channels first, last or none; more dimensions hold several.
    """
    if is_pillow(leaf) and leaf.mode in ("P", "CMYK", "YCbCr", "LAB", "HSV"):
        leaf = leaf.convert("RGB")
    array = array_of(leaf)
    array = array[(0,) * max(array.ndim - 3, 0)]
    if array.ndim == 2:
        array = array[..., None]
    elif not (is_pillow(leaf) or planes_last(array.shape)):
        array = np.moveaxis(array, 0, -1)
    step = max(1, max(array.shape[:2]) // (2 * longest))
    return np.ascontiguousarray(array[::step, ::step])


def displayed(images: Sequence[np.ndarray], undo: Undo | None = None) -> tuple[list[np.ndarray], str]:
    """Images as (height, width, 3) of uint8, and how their values were changed for that, in words; empty if not at all.

    `images` come from `reduced`. Of more than three channels, or of two, the first ones are shown. Values are mapped to
    0 to 255 in one way for all images, so that equal images give equal pictures: with `undo` by the inverse of that
    normalization, if it has as many channels; else bytes are shown as they are, floats from 0 to 1 times 255, floats
    and wider integers from 0 to 255 unchanged, and any other values are scaled from their least to their largest. What
    is then out of range is clipped. NaN and Inf are magenta.
    """
    count = min(image.shape[-1] for image in images)
    kept = 3 if count >= 3 else 1
    notes = [] if count in (1, 3) else [f"channels {', '.join(map(str, range(kept)))} of {count}"]
    shown = [image[..., :kept].astype(np.float64) for image in images]
    finite = np.concatenate([image[np.isfinite(image)] for image in shown]) if shown else np.empty(0)
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    is_float, is_flag = images[0].dtype.kind == "f", images[0].dtype.kind == "b"
    gain, offset = np.ones(kept), np.zeros(kept)
    if undo is not None and len(undo.gains) == count:
        gain, offset = np.array(undo.gains[:kept]), np.array(undo.offsets[:kept])
        notes.append(undo.label)
    elif is_flag or (is_float and low >= 0 and high <= 1):
        gain /= 255
    elif low < 0 or high > 255:
        gain, offset = gain * max(high - low, 1e-12) / 255, offset + low
        notes.append(f"min-max scaled from {low:.3g} to {high:.3g}")
    pictures = [_bytes_of((image - offset) / gain) for image in shown]
    if any(not np.isfinite(image).all() for image in shown):
        notes.append("NaN and Inf are magenta")
    return pictures, ", ".join(notes)


def _bytes_of(image: np.ndarray) -> np.ndarray:
    bad = ~np.isfinite(image).all(axis=-1)
    pixels = np.clip(np.round(np.nan_to_num(image)), 0, 255).astype(np.uint8)
    pixels = np.repeat(pixels, 3, axis=-1) if pixels.shape[-1] == 1 else pixels
    pixels[bad] = _BAD
    return pixels


def thumbnail(pixels: np.ndarray, longest: int = LONGEST) -> bytes:
    """A PNG of pixels from `displayed`, of at most `longest` pixels a side."""
    return _png(pixels, "LANCZOS", longest)


def overlay(mask: np.ndarray, labels: Sequence[float] | None = None, longest: int = LONGEST) -> bytes:
    """A PNG with a colour for each value of a mask, for display on its image; the least value is transparent.

    `mask` is the leaf of one sample. Where `labels` lists the values that it may have, any others are white and opaque.
    """
    plane = _plane_of(mask)
    step = max(1, max(plane.shape) // (2 * longest))
    return _png(_painted(plane[::step, ::step], labels), "NEAREST", longest)


def _plane_of(mask: np.ndarray) -> np.ndarray:
    planes = planes_of(mask)
    plane: np.ndarray = np.nan_to_num((planes.argmax(axis=0) if len(planes) > 1 else planes[0]).astype(np.float64))
    return plane


def _painted(plane: np.ndarray, labels: Sequence[float] | None) -> np.ndarray:
    """The colours of a mask, (height, width, 4) of uint8."""
    values, codes = np.unique(plane, return_inverse=True)
    many = len(values) > _SHADES
    table = np.array([_colour(number, len(values), many=many) for number in range(len(values))], np.uint8)
    table[0] = 0
    if labels is not None:
        table[[not np.isclose(value, labels).any() for value in values]] = 255
    painted: np.ndarray = table[codes.reshape(plane.shape)]
    return painted


def closeup(image: Any, mask: np.ndarray, labels: Sequence[float] | None, undo: Undo | None = None) -> Picture | None:
    """The part of an image and its mask with the most blended values, enlarged, and those in white; None without any.

    Blended are values beyond the `labels`, if these are known, and those between the values on either side.
    """
    plane = _plane_of(mask)
    wrong = np.full(plane.shape, labels is not None)
    for label in labels or ():
        wrong &= ~np.isclose(plane, label)
    for axis in (0, 1):
        before, inner, after = (plane.take(range(at, plane.shape[axis] - 2 + at), axis) for at in range(3))
        between = (inner > np.minimum(before, after)) & (inner < np.maximum(before, after))
        wrong |= np.pad(between, ((1 - axis,) * 2, (axis,) * 2))
    whole = reduced(image, max(plane.shape))
    if not wrong.any() or whole.shape[:2] != plane.shape:
        return None
    side = min(CLOSE, *plane.shape)
    sums = np.pad(wrong.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    counts = sums[side:, side:] - sums[:-side, side:] - sums[side:, :-side] + sums[:-side, :-side]
    top, left = np.unravel_index(counts.argmax(), counts.shape)
    window = slice(top, top + side), slice(left, left + side)
    times = LONGEST // side
    _, close = displayed([reduced(image), whole[window]], undo)[0]
    colours = _painted(plane, None)
    colours[wrong] = 255
    pixels, painted = (part.repeat(times, axis=0).repeat(times, axis=1) for part in (close, colours[window]))
    words = f"{side} × {side} pixels from row {top}, column {left}"
    return Picture(thumbnail(pixels), words, (), _png(painted, "NEAREST", LONGEST))


def _colour(number: int, count: int, *, many: bool) -> tuple[int, int, int, int]:
    hue = 0.7 * (1 - number / count) if many else number * _GOLDEN % 1
    red, green, blue = (round(255 * part) for part in colorsys.hsv_to_rgb(hue, 0.85, 1.0))
    return red, green, blue, _MASKED


def boxes_of(sample: Any, path: str, kind: str, size: tuple[int, int]) -> tuple[Box, ...]:
    """The boxes or points of a table in a sample, for an image of this height and width.

    `kind` is their box format, without whether it is normalized.
    """
    for name, _, table in tables_of(sample):
        if name == path and len(table):
            every = formats_of(table.shape[1], points=kind == "xy")
            known = [one for one in every if one.kind == kind]
            fitting = [
                one for strictly in (True, False) for one in known if fits(one, [(table, size)], strictly=strictly)
            ]
            margin = _DOT if kind == "xy" else 0.0
            corners = (fitting or known)[0].corners(table[:MOST_BOXES], size) if known else np.empty((0, 4))
            edges = np.clip(corners + margin * np.array([-1, -1, 1, 1]), 0, 1)
            return tuple(Box(left, top, right, bottom) for left, top, right, bottom in edges.tolist())
    return ()


def _png(pixels: np.ndarray, resampling: str, most: int) -> bytes:
    from PIL import Image  # optional: only pictures need it

    image = Image.fromarray(pixels)
    longest = max(image.size)
    if longest > most:
        size = [max(1, round(side * most / longest)) for side in image.size]
        image = image.resize((size[0], size[1]), getattr(Image.Resampling, resampling))
    out = BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def upright(content: bytes) -> np.ndarray | None:
    """The pixels of an image file for `displayed`, as a viewer shows it: in RGB, rotated by EXIF, on white.

    Files with more than 8 bits a channel keep their values. None if Pillow cannot read it.
    """
    from PIL import Image, ImageOps

    try:
        image = ImageOps.exif_transpose(Image.open(BytesIO(content)))
        if image.mode in ("I", "F") or image.mode.startswith("I;16"):
            return reduced(np.asarray(image))
        if "A" in image.getbands() or "transparency" in image.info:
            layer = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
        return reduced(image.convert("RGB"))
    except Exception:  # noqa: BLE001 - a damaged file, or one of another library
        return None
