"""The probability that independent draws agree by chance. Standard library only."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable
from enum import Enum
from itertools import combinations

Groups = tuple[tuple[bytes, ...], ...]
"""The digests of one leaf in one worker and epoch, in groups whose members a deterministic pipeline makes equal.

A group contains the draws of one item, with one seed or as they are. An absent leaf counts as an empty
digest.
"""

CERTAIN = -9.0
"""log10 of the odds below which agreement is not a coincidence. Chosen: one false alarm in a billion."""
ORDERED = 13
"""Distinct items from which on two random orders are the same with odds below `CERTAIN`: 13! is 6e9."""


class Agreement(Enum):
    """The outcome of comparing two series of draws of the same items."""

    DETERMINISTIC = "nothing random is drawn"
    DIFFERENT = "the draws differ"
    UNSURE = "the draws agree, but too few were made to exclude coincidence"
    CERTAIN = "the draws agree, and coincidence is excluded"


def agreement(first: Groups, second: Groups) -> Agreement:
    """Compare two series. A series is random if draws differ that a deterministic pipeline would make equal."""
    if not any(is_varied(groups) for groups in (first, second)):
        return Agreement.DETERMINISTIC
    if first != second:
        return Agreement.DIFFERENT
    return Agreement.CERTAIN if log_odds(first) < CERTAIN else Agreement.UNSURE


def is_random(groups: Groups) -> bool:
    """Whether the draws of any group differ."""
    return any(len(set(group)) > 1 for group in groups)


def is_varied(groups: Groups) -> bool:
    """The same, without the first of three or more draws of a group, which may fill a cache and differ for that."""
    return is_random(tuple(group[len(group) > 2 :] for group in groups))


def log_odds(groups: Groups) -> float:
    """log10 of the probability that an independent source draws the same digests in every group.

    The probability that two draws of a group coincide is estimated from the pairs of draws in that group and rounded up
    (one more coincidence than observed), so that a single coin flip counts as weak evidence. A group whose draws are
    all equal carries no evidence.
    """
    total = 0.0
    for group in groups:
        pairs = list(combinations(group, 2))
        equal = sum(first == second for first, second in pairs)
        total += len(group) * math.log10((equal + 1) / (len(pairs) + 1))
    return total


def is_shared(contents: Collection[Hashable], others: Collection[Hashable]) -> bool:
    """Whether two collections have more contents in common than repeats within each of them make likely.

    The rate of equal pairs is rounded up by one more pair than observed; the number in common is then compared with a
    Poisson distribution of that rate.
    """
    counts = [Counter(each) for each in (contents, others)]
    common = len(counts[0].keys() & counts[1].keys())
    equal = sum(math.comb(times, 2) for count in counts for times in count.values())
    pairs = math.comb(len(contents), 2) + math.comb(len(others), 2)
    expected = len(contents) * len(others) * (equal + 1) / (pairs + 1)
    if common <= expected:
        return False
    return common * math.log10(expected) - math.lgamma(common + 1) / math.log(10) < CERTAIN
