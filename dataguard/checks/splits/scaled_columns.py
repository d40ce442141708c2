"""Columns of several splits that look as if one scaler was fitted on all of them. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataguard.stats.coincidence import CERTAIN

if TYPE_CHECKING:
    from dataguard.lab.splits.tables import Column

EXACT = 1e-5
"""How far a mean, a deviation or an end of the range is from that of a fitted scaler at most: what float32 rounds."""
CLEAR = 1e-3
"""How far it is at least where the scaler was fitted on other rows too."""


def scaled_together(fitted: Sequence[Column], splits: Sequence[Sequence[Column]]) -> tuple[list[int], str] | None:
    """The columns that are standardized, or have a range of 0 to 1, over all splits and clearly not in the `fitted`.

    None if others are not scaled so, or coincidence is not excluded.
    """
    both = [(number, column, each) for number, (column, *each) in enumerate(zip(fitted, *splits, strict=True))]
    varied = [(number, column, each) for number, column, each in both if any(one.low < one.high for one in each)]
    for odds, words in ((_standardized, "mean 0 and deviation 1"), (_in_range, "a range of 0 to 1")):
        known = [(number, odds(column, each)) for number, column, each in varied]
        exact = [(number, value) for number, value in known if value is not None]
        clear = [number for number, value in exact if value]
        if 2 * len(exact) > len(varied) and sum(value for _, value in exact) < CERTAIN:
            return clear, words
    return None


def _standardized(own: Column, splits: Sequence[Column]) -> float | None:
    """log10 of the odds that a column is standardized over all splits by chance; None if it is not."""
    count = sum(one.count for one in splits)
    mean = sum(one.count * one.mean for one in splits) / count
    squares = sum(one.count * (one.variance + (one.mean - mean) ** 2) for one in splits)
    deviations = [math.sqrt(squares / (count - less)) for less in (0, 1)]
    if abs(mean) > EXACT or min(abs(one - 1) for one in deviations) > EXACT:
        return None
    return _odds(abs(own.mean)) + _odds(abs(math.sqrt(own.variance) - 1))


def _in_range(own: Column, splits: Sequence[Column]) -> float | None:
    """The same of a range from 0 to 1, each end of which is one value: bytes and fractions reach them often."""
    low, high = min(one.low for one in splits), max(one.high for one in splits)
    ends = (
        sum(one.lows for one in splits if one.low == low),
        sum(one.highs for one in splits if one.high == high),
    )
    if abs(low) > EXACT or abs(high - 1) > EXACT or ends != (1, 1):
        return None
    return _odds(own.low) + _odds(1 - own.high)


def _odds(distance: float) -> float:
    """log10 of the odds that what is so far off in a part is exact in the whole; 0 if it is exact there as well."""
    return math.log10(EXACT / distance) if distance > CLEAR else 0.0
