"""Decide from a series of readings whether something keeps growing or levels off. Standard library only."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

Points = Sequence[tuple[float, float]]
"""The number of samples read so far, and the measurement at that point."""

STEADY_SHARE = 0.6
"""Growth is steady if the last third grows by at least this share of the growth of the middle third. Chosen: what
levels off, as a cache that fills, grows by less from third to third."""
FEWEST_READINGS = 4
"""The minimum number of readings for a trend. A line needs two, and its scatter two more."""
CLEAR_RATIO = 4.0
"""The minimum ratio of the growth to the scatter around a straight line. Chosen, not derived: smaller finds slower
growth, larger fewer accidents of an allocator."""
HINT = 0.5
"""The share of the thresholds from which on growth is examined for longer. Chosen, not derived: smaller takes more time
on healthy loaders, larger misses more growth in the first measurement."""


@dataclass(frozen=True, slots=True)
class Trend:
    """The trend of a quantity: `rate` is the growth per sample, after the first third of the readings.

    `steady` means that it does not level off: the last third grew like the middle one.
    """

    rate: float
    steady: bool


def trend(points: Points, least: float, clear: float = 1.0) -> Trend | None:
    """The trend of one process; None for too few readings. Growth of a third by less than `least` is noise.

    `clear` scales how far growth must exceed the scatter, and how steady it must be.
    """
    if len(points) < FEWEST_READINGS or points[-1][0] <= points[0][0]:
        return None
    start, end = points[0][0], points[-1][0]
    marks = [_at(points, start + (end - start) * third / 3) for third in range(4)]
    middle, last = marks[2] - marks[1], marks[3] - marks[2]
    late = [(x, y) for x, y in points if x >= start + (end - start) / 3]
    if len(late) < 3:
        return None
    slope, intercept = statistics.linear_regression([x for x, _ in late], [y for _, y in late])
    scatter = math.sqrt(statistics.fmean((y - slope * x - intercept) ** 2 for x, y in late))
    is_enough = min(middle, last) >= least and middle + last >= clear * CLEAR_RATIO * scatter
    steady = is_enough and last >= clear * STEADY_SHARE * middle
    return Trend(slope, steady)


def common(trends: Iterable[Trend | None]) -> Trend | None:
    """The common trend of several workers: steady only if all are; None if one is unknown."""
    all_trends = list(trends)
    measured = [each for each in all_trends if each is not None]
    if not measured or len(measured) < len(all_trends):
        return None
    return Trend(statistics.fmean(each.rate for each in measured), all(each.steady for each in measured))


def _at(points: Points, position: float) -> float:
    """The value at a point between readings, by linear interpolation."""
    for (before, low), (after, high) in pairwise(points):
        if position < after:
            return low + (high - low) * (position - before) / (after - before)
    return points[-1][1]
