"""Which points of a sample are a left and a right one, where no name says so: those that mirror each other.

Bodies and faces that are seen from the front are about their own mirror image: the mean of many shows which points
change places. In the data, one of a pair is always on the same side; after a flip that keeps the order of points, it is
on the other side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dataguard.lab.images.painter import SMALLEST_SIDE

FEWEST_POINTS, MOST_POINTS = 5, 128
"""Points that can be symmetric: four may be the corners of anything, and more than this are a contour or a cloud."""
FEWEST_SHAPES = 4
"""Samples whose points have the same horizontal order. Chosen, not derived."""
NEAR, APART = 0.15, 0.1
"""How far a point may be from the mirror image of its partner in the mean, and how far a pair must be apart in each
sample, as shares of their larger extent. Chosen, not derived."""
FEWEST_PAIRS = 2
"""Pairs of points that change places: of a face with five points, the eyes and the corners of the mouth."""


def partners_of(shapes: Sequence[np.ndarray]) -> tuple[int, ...] | None:
    """The number of the point that each one changes places with, (points, 2) in each of several samples.

    None unless points mirror each other in the mean, and each pair has the same order in all samples or, where that is
    flipped as a whole, the reverse.
    """
    if len(shapes) < FEWEST_SHAPES or len({shape.shape for shape in shapes}) > 1:
        return None
    first, *others = [_standardized(shape) for shape in shapes]
    turned = [first, *(_as_in(first, other) for other in others)]
    mean = np.mean(turned, axis=0)
    mirrored = mean * [-1, 1]
    apart = np.linalg.norm(mirrored[:, None] - mean[None], axis=-1)
    partner = apart.argmin(axis=1)
    numbers = np.arange(len(partner))
    if (partner[partner] != numbers).any() or apart[numbers, partner].max() > NEAR:
        return None
    pairs = numbers[partner > numbers]
    gaps = np.stack([shape[pairs, 0] - shape[partner[pairs], 0] for shape in turned])
    steady = (np.abs(gaps).min(axis=0) >= APART) & (np.ptp(np.sign(gaps), axis=0) == 0)
    return tuple(partner.tolist()) if len(pairs) >= FEWEST_PAIRS and steady.sum() >= FEWEST_PAIRS else None


def _standardized(shape: np.ndarray) -> np.ndarray:
    """Points around their centre, in units of their larger extent."""
    middle = (shape.max(axis=0) + shape.min(axis=0)) / 2
    return np.asarray((shape - middle) / max(float(np.ptp(shape, axis=0).max()), 1e-9))


def _as_in(first: np.ndarray, other: np.ndarray) -> np.ndarray:
    """A shape, or its mirror image if that is closer to the first one: which sample is flipped is not known."""
    mirrored = other * [-1, 1]
    return mirrored if np.abs(mirrored - first).sum() < np.abs(other - first).sum() else other


def candidates(samples: Sequence[Mapping[str, np.ndarray]]) -> dict[str, tuple[int, ...]]:
    """The partners of the points in each leaf, by path, from one state of each of several samples."""
    paths = dict.fromkeys(path for sample in samples for path in sample)
    held = {path: [sample[path] for sample in samples if path in sample] for path in paths}
    found = {
        path: partners_of([points[..., :2].reshape(-1, 2).astype(np.float64) for points in shapes])
        for path, shapes in held.items()
        if all(np.isfinite(points).all() for points in shapes)
    }
    return {path: partners for path, partners in found.items() if partners is not None}


def may_be_points(shape: Sequence[int], dtype: str) -> bool:
    """Whether an array may hold such points, those of one body or face, or a heatmap for each."""
    return are_listed(shape) or are_maps(shape, dtype)


def are_listed(shape: Sequence[int]) -> bool:
    """Whether an array of this shape may hold a row for each point, (points, 2 or 3), maybe in a batch of one."""
    rows = shape[1:] if len(shape) == 3 and shape[0] == 1 else shape
    return len(rows) == 2 and rows[1] in (2, 3) and FEWEST_POINTS <= rows[0] <= MOST_POINTS


def are_maps(shape: Sequence[int], dtype: str) -> bool:
    """Whether an array may hold a heatmap for each point: one of int64, as losses require of labels, holds none."""
    sized = len(shape) == 3 and FEWEST_POINTS <= shape[0] <= MOST_POINTS and min(shape[1:]) >= SMALLEST_SIDE
    return sized and dtype not in ("bool", "int64")
