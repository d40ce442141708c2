"""Rows that follow those of a sample on purpose, in contrast to rows of other samples. Standard library only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

FEWEST_SHIFTED = 2
"""Samples on either side of a missing row: a single one may be the last of an episode, which nothing follows."""


def is_next(places: Sequence[tuple[int, int]]) -> bool:
    """Whether samples have the contents of a row that follows their own, as what is to be predicted does.

    The rows of both are in one order then. So they are where a row is missing in one of two listings; but from there on
    all that follow are shifted.
    """
    ordered = sorted(places)
    if any(one[1] >= other[1] for one, other in pairwise(ordered)):
        return False
    steps = [other - own for own, other in ordered]
    shifted = steps in (sorted(steps), sorted(steps, reverse=True))
    return not shifted or sum(count >= FEWEST_SHIFTED for count in Counter(steps).values()) < 2
