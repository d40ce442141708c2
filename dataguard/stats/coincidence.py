"""How likely it is that independent draws agree by chance. Standard library only."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable
from enum import Enum
from itertools import combinations

Groups = tuple[tuple[bytes, ...], ...]
"""The digests of one leaf in one worker and epoch, in groups that a deterministic pipeline makes equal within.

A group holds the draws of one item, under one pinned state or as they are. An absent leaf counts as an empty digest.
"""

CERTAIN = -9.0
"""log10 of the odds below which agreement is no coincidence."""


class Agreement(Enum):
    """What comparing two series of draws of the same items says."""

    DETERMINISTIC = "nothing random is drawn"
    DIFFERENT = "the draws differ"
    UNSURE = "the draws agree, but too few were made to exclude coincidence"
    CERTAIN = "the draws agree, and coincidence is excluded"


def agreement(first: Groups, second: Groups) -> Agreement:
    """Compare two series. "Random" means: two draws that a deterministic pipeline makes equal differ."""
    if not is_random(first) and not is_random(second):
        return Agreement.DETERMINISTIC
    if first != second:
        return Agreement.DIFFERENT
    return Agreement.CERTAIN if log_odds(first) < CERTAIN else Agreement.UNSURE


def is_random(groups: Groups) -> bool:
    """Whether any group holds draws that differ."""
    return any(len(set(group)) > 1 for group in groups)


def log_odds(groups: Groups) -> float:
    """log10 of the chance that a second, independent source draws the same digests in every group.

    The chance that two draws of one group coincide is estimated from the pairs of draws inside that group, rounded up
    (one coincidence more than was seen), so that a lone coin flip counts as the weak evidence it is. A group whose
    draws are all equal says nothing.
    """
    total = 0.0
    for group in groups:
        pairs = list(combinations(group, 2))
        equal = sum(first == second for first, second in pairs)
        total += len(group) * math.log10((equal + 1) / (len(pairs) + 1))
    return total


def is_shared(one: Collection[Hashable], other: Collection[Hashable]) -> bool:
    """Whether two collections have more contents in common than what repeats within each of them makes likely.

    How often two are equal by chance is rounded up, by one pair more than was seen; that as many are is then at most as
    likely as a Poisson law has it.
    """
    counts = [Counter(each) for each in (one, other)]
    common = len(counts[0].keys() & counts[1].keys())
    equal = sum(math.comb(times, 2) for count in counts for times in count.values())
    pairs = math.comb(len(one), 2) + math.comb(len(other), 2)
    expected = len(one) * len(other) * (equal + 1) / (pairs + 1)
    if common <= expected:
        return False
    return common * math.log10(expected) - math.lgamma(common + 1) / math.log(10) < CERTAIN
