"""The colours of the leaves of a sample whose images were replaced by a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, is_pillow, iter_leaves
from dataguard.lab.images.painter import RGB

_MOST_PIXELS = 4096
_MOST_STACKED = 96
"""The most channels of frames that are stacked on one axis."""
_SHARE = 0.04
"""The smallest share of an image that a colour covers to count as one of its colours."""
_UNCORRELATED = 1.8
"""Noise has no memory: neighbours differ by twice its variance, and by less where shades change gradually."""

Shades = Sequence[np.ndarray]
"""The most common colours of a leaf, (channels,) each, the most common first."""


@dataclass(frozen=True, slots=True)
class ChartResponse:
    """The leaves of one sample whose image was a chart: their common colours and dtypes, by path.

    `errors` are the standard errors of the colours, above 0 where every pixel has noise.
    """

    chart: RGB
    draw: int
    shades: Mapping[str, Shades]
    errors: Mapping[str, float]
    dtypes: Mapping[str, str]


def response_to(chart: RGB, draw: int, value: Any, bands: int = 0) -> ChartResponse:
    """The response of a sample or batch to a chart; `bands` is the number of channels of images without colours."""
    shades, errors, dtypes = {}, {}, {}
    for path, leaf in iter_leaves(value):
        pixels = _pixels(leaf, bands)
        if pixels is not None:
            shades[path], errors[path] = _common(pixels)
            dtypes[path] = str(pixels.dtype)
    return ChartResponse(chart, draw, shades, errors, dtypes)


def _pixels(leaf: Any, bands: int) -> np.ndarray | None:
    """The pixels of an image, one row each; None if it is not one."""
    if is_pillow(leaf) or isinstance(leaf, torch.Tensor):
        leaf = array_of(leaf)
    if isinstance(leaf, np.ndarray) and leaf.ndim == 2 and bands == 1:
        leaf = leaf[..., None]
    if not isinstance(leaf, np.ndarray) or leaf.dtype.kind not in "fiu" or leaf.ndim < 3 or min(leaf.shape) < 1:
        return None
    numbers = (bands,) if bands > 4 else (1, 3, 4)
    if leaf.shape[-4:-3] == (3,) and leaf.shape[-3] not in (1, 3) and leaf.shape[-1] not in numbers:
        leaf = leaf.swapaxes(-4, -3)  # (channels, frames, height, width): four frames are no alpha channel
    leaf = leaf if bands or {leaf.shape[-3], leaf.shape[-1]} & {*numbers} else _unstacked(leaf)
    if leaf.shape[-3] in numbers and min(leaf.shape[-2:]) > 4:
        leaf = np.moveaxis(leaf, -3, -1)
    elif leaf.shape[-1] not in numbers or min(leaf.shape[-3:-1]) <= 4:
        return None
    flat = leaf.reshape(-1, leaf.shape[-1])[:, : bands if bands > 4 else 3]
    return np.asarray(flat[:: len(flat) // _MOST_PIXELS + 1])


def _unstacked(leaf: np.ndarray) -> np.ndarray:
    """Frames that are stacked on the first or last axis of an image, as frames with channels first.

    The axis has the channels of one frame after the other, or all frames of one channel after the other: images of one
    colour have equal frames.
    """
    if leaf.shape[-3] % 3 and not leaf.shape[-1] % 3:
        leaf = np.moveaxis(leaf, -1, -3)
    *outer, count, height, width = leaf.shape
    if count % 3 or not 3 < count <= _MOST_STACKED or min(height, width) <= 4:
        return leaf
    by_frame = leaf.reshape(*outer, count // 3, 3, height, width)
    by_channel = leaf.reshape(*outer, 3, count // 3, height, width).swapaxes(-4, -3)
    return min(by_frame, by_channel, key=lambda frames: float(frames.mean((-2, -1)).std(-2).max()))


def _common(pixels: np.ndarray) -> tuple[Shades, float]:
    """The most common colours of an image, at most four, and their standard error.

    If most pixels have none of them, because each has noise, their median is a colour too.
    """
    exact = pixels.astype(np.float64)
    if not np.isfinite(exact).all():
        return (), 0.0
    step = max(float(np.abs(exact).max()), 1e-9) * 1e-4
    rounded = np.round(exact / step).astype(np.int64)
    keys = rounded[:, 0] * 1_000_003
    for channel in range(1, rounded.shape[1]):
        keys = (keys + rounded[:, channel]) * 1_000_003
    _, colours, counts = np.unique(keys, return_inverse=True, return_counts=True)
    leading = [colour for colour in np.argsort(-counts)[:4] if counts[colour] >= _SHARE * len(keys)]
    shades = [np.median(exact[colours == colour], axis=0) for colour in leading]
    others = exact[~np.isin(colours, leading)]
    if 2 * len(others) <= len(exact) or not _is_noise(others):
        return shades, 0.0
    return [*shades, np.median(others, axis=0)], float(1.25 * others.std(axis=0).max() / len(others) ** 0.5)


def _is_noise(pixels: np.ndarray) -> bool:
    """Whether pixels in the order of an image vary independently, unlike those of a gradient or a texture."""
    variance = pixels.var(axis=0)
    return bool((variance > 0).any() and (np.diff(pixels, axis=0).var(axis=0) >= _UNCORRELATED * variance).all())
