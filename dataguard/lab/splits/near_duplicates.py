"""Images of two splits that are similar but not equal: saved again at another quality or size.

A small grayscale copy of each image file is compared with all others. Similarity counts only if it is rare: digits and
video frames are similar within a split as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from dataguard.lab.decoding.image_reading import small_grey
from dataguard.process.originals import time

SIDE = 16
"""The side of a thumbnail in pixels."""
LEAST = 8.0
"""The standard deviation of the gray levels, 0 to 255, below which an image is too uniform to be identified."""
NEAR = 0.998
"""The least correlation between two thumbnails of one photograph.

Photographs saved at half their size, as JPEG of quality 50, exceed it; cropped by 5 %, they do not.
"""
MOST = 10_000
"""Images of a split that are compared."""
OFTEN = 5
"""How many times more often images must be similar between two splits than within one."""
_ROWS = 256


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """How many images of a split, `of` how many, are similar to one of an earlier split, and the first pair."""

    count: int
    of: int
    earlier: str
    own: str


@dataclass(frozen=True, slots=True)
class Thumbnails:
    """Small copies of image files, each with mean 0 and norm 1: (images, 256), float32; and the files' names."""

    names: tuple[str, ...]
    copies: np.ndarray


def thumbnails_of(files: Iterable[str], seconds: float) -> Thumbnails:
    """Thumbnails of the image files that Pillow or OpenCV, whichever is imported, reads in so many seconds."""
    until = time.monotonic() + seconds
    names: list[str] = []
    copies: list[np.ndarray] = []
    for name in islice(files, MOST):
        if time.monotonic() > until:
            break
        copy = small_grey(name, SIDE)
        if copy is not None and copy.std() >= LEAST:
            grey = copy.astype(np.float32).reshape(-1)
            even = grey - grey.mean()
            names.append(name)
            copies.append(even / np.linalg.norm(even))
    return Thumbnails(tuple(names), np.array(copies, np.float32).reshape(-1, SIDE * SIDE))


def near_duplicates(earlier: Thumbnails, own: Thumbnails) -> NearDuplicates | None:
    """The images of a split that are similar to one of an earlier split.

    None without any, or if images of one split are just as similar to each other.
    """
    pairs = list(_pairs(earlier, own))
    within = sum(len(list(_pairs(thumbnails, thumbnails))) for thumbnails in (earlier, own)) / 2
    possible = sum(len(thumbnails.names) * (len(thumbnails.names) - 1) for thumbnails in (earlier, own)) / 2
    expected = within / max(possible, 1) * len(earlier.names) * len(own.names)
    if not pairs or len(pairs) <= OFTEN * expected:
        return None
    return NearDuplicates(len({two for _, two in pairs}), len(own.names), *pairs[0])


def _pairs(one: Thumbnails, two: Thumbnails) -> Iterator[tuple[str, str]]:
    """The names of different files whose thumbnails are similar."""
    for start in range(0, len(one.names), _ROWS):
        rows, columns = np.nonzero(one.copies[start : start + _ROWS] @ two.copies.T >= NEAR)
        named = ((one.names[start + row], two.names[column]) for row, column in zip(rows, columns, strict=True))
        yield from (pair for pair in named if pair[0] != pair[1])
