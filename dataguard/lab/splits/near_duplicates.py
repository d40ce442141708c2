"""Images of two splits that look alike and are not the same: saved anew by another quality, or at another size.

A small grey copy of each image file is compared with all others. Likeness means something only where it is rare: digits
and frames of a film look alike within a split as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from dataguard.lab.decoding.image_reading import small_grey

SIDE = 16
"""Pixels a side of a small copy."""
LEAST = 8.0
"""The standard deviation of the grey levels, 0 to 255, below which an image is too even to be known again."""
NEAR = 0.998
"""How far two small copies of one photograph go together at least, as a correlation.

Photographs stay above it when they are saved at half their size, as JPEG of quality 50; cut by 5 %, they do not.
"""
MOST = 10_000
"""Images of a split that are looked at."""
OFTEN = 5
"""How many times more often than within a split images have to be alike between two."""
_ROWS = 256


@dataclass(frozen=True, slots=True)
class Likeness:
    """How many images of a split look like one of an earlier split, of how many; and the files of the first pair."""

    count: int
    of: int
    earlier: str
    own: str


@dataclass(frozen=True, slots=True)
class Album:
    """Small copies of image files, each of mean 0 and length 1: (images, 256), float32; and the files' names."""

    names: tuple[str, ...]
    copies: np.ndarray


def album_of(files: Iterable[str], seconds: float) -> Album:
    """Small copies of image files that Pillow or OpenCV, whichever is imported, reads in so many seconds."""
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
    return Album(tuple(names), np.array(copies, np.float32).reshape(-1, SIDE * SIDE))


def likeness(earlier: Album, own: Album) -> Likeness | None:
    """Which images of a split look like one of an earlier split.

    None where there are none, and where images of one split look as much alike among themselves.
    """
    pairs = list(_pairs(earlier, own))
    within = sum(len(list(_pairs(album, album))) for album in (earlier, own)) / 2
    possible = sum(len(album.names) * (len(album.names) - 1) for album in (earlier, own)) / 2
    by_nature = within / max(possible, 1) * len(earlier.names) * len(own.names)
    if not pairs or len(pairs) <= OFTEN * by_nature:
        return None
    return Likeness(len({two for _, two in pairs}), len(own.names), *pairs[0])


def _pairs(one: Album, two: Album) -> Iterator[tuple[str, str]]:
    """The names of images of two albums that look alike, and are not one file."""
    for start in range(0, len(one.names), _ROWS):
        rows, columns = np.nonzero(one.copies[start : start + _ROWS] @ two.copies.T >= NEAR)
        named = ((one.names[start + row], two.names[column]) for row, column in zip(rows, columns, strict=True))
        yield from (pair for pair in named if pair[0] != pair[1])
