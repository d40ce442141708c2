"""The pictures of `dataguard show` as one PNG: a row for each sample. Pillow is imported with this module."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from PIL import Image, ImageDraw

from dataguard.core.figures import Picture, SampleViews
from dataguard.core.model import UsageError

LEAST_WIDTH = 256
"""Smaller images are enlarged to about this width, by a whole number, without smoothing."""
_GAP = 8
"""Pixels between two images."""
_EDGE = (255, 64, 64)
"""The colour of boxes, a red that stands out from most photographs."""


def render(views: SampleViews, **look: Any) -> bytes:
    """Return one PNG. Raises UsageError if no leaf is an image."""
    rows = [[_enlarged(composed(picture)) for picture in sample.pictures] for sample in views.samples]
    rows = [row for row in rows if row]
    if not rows:
        raise UsageError("nothing to draw: no leaf of these samples is an image, or Pillow is not installed")
    widths = [sum(image.width + _GAP for image in row) - _GAP for row in rows]
    heights = [max(image.height for image in row) for row in rows]
    sheet = Image.new("RGB", (max(widths), sum(heights) + _GAP * (len(rows) - 1)), "white")
    top = 0
    for row, height in zip(rows, heights, strict=True):
        left = 0
        for image in row:
            sheet.paste(image, (left, top))
            left += image.width + _GAP
        top += height + _GAP
    out = BytesIO()
    sheet.save(out, "PNG")
    return out.getvalue()


def composed(picture: Picture) -> Image.Image:
    """The image in RGB with its mask and boxes on it."""
    image = Image.open(BytesIO(picture.png)).convert("RGB")
    if picture.mask:
        mask = Image.open(BytesIO(picture.mask)).convert("RGBA").resize(image.size, Image.Resampling.NEAREST)
        image = Image.alpha_composite(image.convert("RGBA"), mask).convert("RGB")
    pen = ImageDraw.Draw(image)
    for box in picture.boxes:
        left, right = sorted((box.left * image.width, box.right * image.width))
        top, bottom = sorted((box.top * image.height, box.bottom * image.height))
        pen.rectangle((left, top, max(left, right - 1), max(top, bottom - 1)), outline=_EDGE)
    return image


def _enlarged(image: Image.Image) -> Image.Image:
    times = max(1, LEAST_WIDTH // image.width)
    return image.resize((times * image.width, times * image.height), Image.Resampling.NEAREST)
