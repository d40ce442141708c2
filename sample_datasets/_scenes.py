"""Small photographs and label masks beside them, in files of a temporary folder."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from sample_datasets._parts import PHOTOGRAPHS, scratch, stored

WIDTH, HEIGHT = 64, 48
CLASSES = 4
"""Labels of a mask: 0 to 3."""


def labels_of(photograph: Image.Image) -> np.ndarray:
    """A label map of a photograph, (48, 64), uint8 from 0 to 3: how bright its areas are."""
    soft = np.asarray(photograph.convert("L").filter(ImageFilter.GaussianBlur(3)), np.float32)
    edges = np.quantile(soft, [0.25, 0.5, 0.75])
    return np.digitize(soft, edges).astype(np.uint8)


FOLDER = scratch("scenes-")


@functools.cache
def scenes() -> tuple[tuple[Path, Path], ...]:
    """The files of every photograph, 64 by 48, and of its mask, a PNG of one channel."""
    found = []
    for path in PHOTOGRAPHS:
        image, mask = FOLDER / f"{path.stem}.png", FOLDER / f"{path.stem}_mask.png"
        photograph = Image.open(path).convert("RGB").resize((WIDTH, HEIGHT))
        stored(image, photograph.save)
        stored(mask, Image.fromarray(labels_of(photograph)).save)
        found.append((image, mask))
    return tuple(found)
