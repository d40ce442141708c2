"""Whether an image was reshaped from one layout to another, which leaves every number and moves it to another pixel.

Channels of an image of one pure colour are constant, however it is cropped, flipped or resized. Where pixels with their
channels last are reshaped as if these were first, or the other way around, each channel holds a part of all three.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dataguard.lab.images.painter import is_image, planes_last

if TYPE_CHECKING:
    from dataguard.lab.culprit.line_trace import Look

Bright = tuple[float, ...]
"""The share of the pixels that are bright in each of three channels; 0 where all are equal."""

BETWEEN = (0.15, 0.6)
"""The share of each channel that is bright where all three colours are in it: a third, or three of eight frames."""
ONE = 0.1
"""How far the sum of the shares may be from 1: each number of the image is still there once. Padding adds to it."""
TWO_VALUES, SAME = 0.95, 0.02
"""The share of the pixels that are as dark or as bright as can be, and how far they may differ, as a share of the
range: other values are those of edges."""
FEWEST_DRAWS = 2


def bright_shares(pixels: np.ndarray) -> Bright | None:
    """The shares of an image by its pixels, (pixels, 3); None if it has other channels, or more than two values."""
    if pixels.shape[1:] != (3,):
        return None
    values = pixels.astype(np.float32)
    low, high = values.min(axis=0), values.max(axis=0)
    span = high - low
    dark, bright = values <= low + SAME * span, values >= high - SAME * span
    if (dark | bright).mean() < TWO_VALUES:
        return None
    return tuple(np.where(span > 0, bright.mean(axis=0), 0.0).round(3).tolist())


def is_scrambled(shares: Bright) -> bool:
    """Whether each channel of an image of one pure colour holds a part of all three."""
    return all(BETWEEN[0] <= share <= BETWEEN[1] for share in shares) and abs(sum(shares) - 1) <= ONE


def scrambled_paths(draws: Sequence[Iterable[tuple[str, Bright]]]) -> Iterator[str]:
    """The leaves that are scrambled with every pure colour in every draw."""
    held = [dict(draw) for draw in draws]
    for path in held[0] if len(held) >= 3 * FEWEST_DRAWS else ():
        if all(path in one and is_scrambled(one[path]) for one in held):
            yield path


def shares_of(array: np.ndarray) -> Bright | None:
    """The shares of an image with three channels, first or last, or before the frames; None of anything else."""
    if not is_image(array) or array.dtype.kind not in "iuf" or array.ndim < 3:
        return None
    before_frames = array.ndim > 3 and array.shape[-4] == 3 != array.shape[-3]
    axis = -1 if planes_last(array.shape) else -4 if before_frames else -3
    moved = np.moveaxis(array, axis, -1)
    return bright_shares(moved.reshape(-1, moved.shape[-1]))


def first_scrambled(looks: Sequence[Look]) -> Look | None:
    """The first line after which an image of one pure colour is scrambled."""
    return next((look for look in looks if is_scrambled(look.state)), None)  # type: ignore[arg-type] # of `shares_of`
