"""Whether something grows with every sample or levels off, told from readings along the way. Standard library only."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Points = Sequence[tuple[float, float]]
"""Samples read so far, and what was measured then."""

STEADY = 0.6
"""The last third grows at least by this share of what the middle third does, where nothing levels off."""
FEWEST = 4
"""Readings without which no trend is told."""
CLEAR = 4.0
"""How many times the scatter around a straight line a growth is at least."""
HINT = 0.5
"""The share of all that a growth has to be, from which on it is worth a longer look."""


@dataclass(frozen=True, slots=True)
class Trend:
    """How a quantity went over some reads: `rate` is what it grows by for each sample, after the first third.

    `steady` tells that it does not level off: the last third grew like the one before; `grown` is what both grew by.
    """

    rate: float
    steady: bool
    grown: float
    samples: int


def trend(points: Points, least: float, share: float = 1.0) -> Trend | None:
    """The trend of one process; None for too few readings. A third that grows by less than `least` is noise.

    It is steady already where it reaches that `share` of each bound.
    """
    if len(points) < FEWEST or points[-1][0] <= points[0][0]:
        return None
    start, end = points[0][0], points[-1][0]
    marks = [_at(points, start + (end - start) * third / 3) for third in range(4)]
    middle, last = marks[2] - marks[1], marks[3] - marks[2]
    late = [(x, y) for x, y in points if x >= start + (end - start) / 3]
    if len(late) < 3:
        return None
    slope, intercept = statistics.linear_regression([x for x, _ in late], [y for _, y in late])
    scatter = math.sqrt(statistics.fmean((y - slope * x - intercept) ** 2 for x, y in late))
    is_enough = min(middle, last) >= share * least and middle + last >= share * CLEAR * scatter
    steady = is_enough and last >= share * STEADY * middle
    return Trend(slope, steady, middle + last, round(end - start))


def common(trends: Iterable[Trend | None]) -> Trend | None:
    """What several workers have in common: steady only where all are; None where one could not be told."""
    found = list(trends)
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    return Trend(
        statistics.fmean(one.rate for one in known),
        all(one.steady for one in known),
        min(one.grown for one in known),
        min(one.samples for one in known),
    )


def _at(points: Points, place: float) -> float:
    """The value at a place between two readings."""
    (before, low), (after, high) = points[0], points[-1]
    for x, y in points:
        if x <= place:
            before, low = x, y
        else:
            after, high = x, y
            break
    else:
        return low
    return low + (high - low) * (place - before) / (after - before)
