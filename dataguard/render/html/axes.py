"""Scales and ticks of charts, and fewer points where there are more than a reader can tell apart."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

GRID = 1000
"""Charts are drawn on a grid of this many steps in each direction, and stretched to the width of the page."""

Point = tuple[float, ...]
"""The position of a point, x and y, and what else is drawn with it."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale from `low` to `high` with a tick every `step`."""

    low: float
    high: float
    step: float

    @classmethod
    def over(cls, values: Sequence[float], *, zero: bool = False, ticks: int = 5) -> Axis:
        """Return the axis that holds all finite `values`, and zero if asked, with about so many ticks."""
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        if low == high:
            low, high = (low, low + 1) if low == 0 else (min(low, 0.0), max(high, 0.0))
        step = _round_step((high - low) / ticks)
        if all(value == int(value) for value in finite):
            step = max(step, 1.0)
        return cls(low, high, step)

    def widened(self) -> Axis:
        """The axis from tick to tick."""
        low, high = math.floor(self.low / self.step + 1e-9), math.ceil(self.high / self.step - 1e-9)
        return Axis(low * self.step, high * self.step, self.step)

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def ticks(self) -> list[tuple[float, str]]:
        """The position of each tick in percent, and its number."""
        first, last = math.ceil(self.low / self.step - 1e-9), math.floor(self.high / self.step + 1e-9)
        return [
            (percent(self.share(number * self.step)), number_words(number * self.step, self.step))
            for number in range(first, last + 1)
        ]


def percent(share: float) -> float:
    """A share as a short number of percent."""
    return round(100 * share, 2)


def number_words(value: float, step: float) -> str:
    """`1,500`, `0.25`: as many decimals as the step needs."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step < 1 else 0
    return f"{value + 0.0:,.{decimals}f}" if abs(value) < 1e7 else f"{value:.3g}"


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(round_ for round_ in (power, 2 * power, 5 * power, 10 * power) if round_ >= step * (1 - 1e-9))


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most about `most` of the points of a line, with the lowest and highest of each stretch."""
    if len(points) <= most:
        return list(points)
    width = math.ceil(2 * len(points) / most)
    kept: list[Point] = []
    for start in range(0, len(points), width):
        part = range(start, min(start + width, len(points)))
        ends = {min(part, key=lambda number: points[number][1]), max(part, key=lambda number: points[number][1])}
        kept += [points[number] for number in sorted(ends)]
    return kept


def drawn(points: Sequence[Point], most: int) -> list[Point]:
    """At most `most` of the points of a cloud: a random choice, as every n-th may be those of a single worker."""
    if len(points) <= most:
        return list(points)
    return [points[number] for number in sorted(random.Random(0).sample(range(len(points)), most))]
