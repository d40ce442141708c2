"""Which values a mask leaf holds after its source was replaced by charts of two values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dataguard.lab.geometry.stripe_charts import COARSE

_SHARE = 0.1
"""The share of points that each of two values needs to count as one of the two that were put in."""
_DIGITS = 6
"""Digits to which values are rounded, relative to the largest one."""
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class MaskValues:
    """The values of a mask leaf whose source held two.

    `labels` are the two most common ones, and `between` some of those strictly between them, at a `share` of the
    points; `edge_share` is that share in charts with two halves, which have one edge each. `most_values` is the largest
    number of values in an original sample.
    """

    dtype: str
    labels: tuple[float, float]
    between: tuple[float, ...]
    share: float
    edge_share: float
    most_values: int


def mask_values_of(draws: Sequence[Sequence[np.ndarray]], originals: Sequence[np.ndarray]) -> MaskValues | None:
    """The values of a mask leaf, in the draw with the most values between its two labels; None if no draw has both.

    A draw holds the views of all charts, each (planes, points, points).
    """
    found = [values for views in draws for values in _values_by_plane(np.stack(views))]
    if not found:
        return None
    labels, between, share, edge_share = max(found, key=lambda one: one[2])
    most_values = max((len(np.unique(_rounded(leaf))) for leaf in originals), default=0)
    shown = between[:: -(-len(between) // _SHOWN) or 1]
    return MaskValues(str(draws[0][0].dtype), labels, tuple(shown), share, edge_share, most_values)


def _values_by_plane(stack: np.ndarray) -> Iterator[tuple[tuple[float, float], list[float], float, float]]:
    """The labels, the values between them and their shares, for each plane that changes with the charts."""
    stack = stack.astype(np.float64)
    moves = np.ptp(stack, axis=0)
    for plane in range(stack.shape[1]):
        follows = moves[plane] > 10**-_DIGITS * max(float(np.abs(stack[:, plane]).max()), 1e-9)
        points = _rounded(stack[:, plane][:, follows])
        values, counts = np.unique(points[list(COARSE)], return_counts=True)
        leading = np.argsort(-counts)[:2]
        if len(values) < 2 or counts[leading[1]] < _SHARE * counts.sum():
            continue
        low, high = sorted(float(values[place]) for place in leading)
        inside = (points > low) & (points < high)
        yield (low, high), np.unique(points[inside]).tolist(), float(inside.mean()), float(inside[list(COARSE)].mean())


def _rounded(values: np.ndarray) -> np.ndarray:
    size = max(float(np.abs(values).max()), 1e-9) if values.size else 1.0
    return np.round(values.astype(np.float64) / size, _DIGITS) * size
