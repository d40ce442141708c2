"""Which values a map takes where only two went in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dataguard.lab.geometry.stripe_charts import COARSE

_SHARE = 0.1
"""The share of its points at which each of two values stands, to count as what went in."""
_DIGITS = 6
"""Digits of a value, as a share of the largest one, that count."""
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Inks:
    """The values of a map leaf that was drawn in two.

    `came` are the two that most points show, and `between` some of those that lie strictly between them, at a `share`
    of the points; `spread` is that share in charts of two halves, which have one edge each. `seen` is how many values a
    sample as it is holds at most.
    """

    dtype: str
    came: tuple[float, float]
    between: tuple[float, ...]
    share: float
    spread: float
    seen: int


def inks_of(draws: Sequence[Sequence[np.ndarray]], natural: Sequence[np.ndarray]) -> Inks | None:
    """What became of two values, in the draw that shows most others; None where none shows both.

    A draw holds the views of all charts, each (planes, points, points).
    """
    found = [inks for views in draws for inks in _inks(np.stack(views))]
    if not found:
        return None
    came, between, share, spread = max(found, key=lambda one: one[2])
    seen = max((len(np.unique(_rounded(leaf))) for leaf in natural), default=0)
    shown = between[:: -(-len(between) // _SHOWN) or 1]
    return Inks(str(draws[0][0].dtype), came, tuple(shown), share, spread, seen)


def _inks(stack: np.ndarray) -> Iterator[tuple[tuple[float, float], list[float], float, float]]:
    """What became of two values in each plane that follows the charts."""
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
