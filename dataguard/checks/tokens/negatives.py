"""Negative examples that are the positive ones, of samples whose leaves are named so. Standard library only."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataguard.stats.coincidence import CERTAIN

if TYPE_CHECKING:
    from dataguard.lab.core.records import Index, LeafRecord, SampleRecord, ValueSummary

_NEGATIVE = re.compile(r"(?<![a-z])neg(?:ative)?s?(?![a-z])", re.IGNORECASE)
_POSITIVE = re.compile(r"(?<![a-z])(?:pos(?:itive)?s?|anchor|query)(?![a-z])", re.IGNORECASE)
FEWEST_EQUAL = 4
"""Equal examples that are needed: a few equal ones are duplicates in the data."""
PADDING = 0
"""The number that fills rows of items up to one length."""


@dataclass(frozen=True, slots=True)
class Negatives:
    """How many of the `compared` negative examples at a path equal the positive one: at first that of `index`."""

    positive: str
    negative: str
    compared: int
    equal: int
    index: Index | None


def negatives_of(samples: Sequence[SampleRecord], summaries: Sequence[ValueSummary]) -> list[Negatives]:
    """The leaves that are named positive and negative, with the examples that are equal in them.

    As many may be equal as random ones would be: negatives that are drawn from all items are positives at times.
    """
    numbers = {
        (summary.worker, summary.batch, summary.position): {
            one.path: tuple(map(int, one.values)) for one in summary.numbers if one.whole and not one.is_float
        }
        for summary in summaries
        if summary.position is not None
    }
    pairs: dict[tuple[str, str], list[tuple[Hashable, Hashable, Index | None]]] = defaultdict(list)
    for sample in samples:
        values = numbers.get((sample.worker, sample.batch, sample.position), {})
        leaves = {leaf.path: leaf for leaf in sample.leaves}
        for positive, negative in _named(leaves):
            for one, other in _examples(leaves[positive], leaves[negative], values):
                pairs[positive, negative].append((one, other, sample.index))
    found = []
    for (positive, negative), examples in pairs.items():
        equal = [index for one, other, index in examples if one == other]
        if len(equal) < FEWEST_EQUAL or not _exceeds(len(equal), examples):
            equal = []
        found.append(Negatives(positive, negative, len(examples), len(equal), equal[0] if equal else None))
    return found


def _named(leaves: Mapping[str, LeafRecord]) -> Iterator[tuple[str, str]]:
    """The leaves whose names differ in what says that one is negative, and the other one positive."""
    for negative in leaves:
        name, count = _NEGATIVE.subn("*", _parts(negative))
        if count:
            yield from (
                (path, negative) for path in leaves if path != negative and _POSITIVE.sub("*", _parts(path)) == name
            )


def _parts(path: str) -> str:
    """A path whose names are in parts: `['posItem']` as `['pos Item']`, and `['neg_ids']` as `['neg ids']`."""
    return re.sub(r"_|(?<=[a-z])(?=[A-Z])", " ", path).lower()


def _examples(
    positive: LeafRecord, negative: LeafRecord, values: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[Hashable, Hashable]]:
    """The positive example beside each negative one: numbers of items, or whole leaves."""
    one, other = values.get(positive.path), values.get(negative.path)
    if one and other and len(one) == 1:
        yield from ((one[0], each) for each in other)
    elif one and other and len(one) == len(other) and len(positive.shape or ()) == 1:
        yield from ((first, second) for first, second in zip(one, other, strict=True) if first != PADDING)
    elif (positive.kind, positive.shape) == (negative.kind, negative.shape) and not negative.constant:
        yield positive.digest, negative.digest


def _exceeds(equal: int, examples: Sequence[tuple[Hashable, Hashable, object]]) -> bool:
    """Whether more are equal than if negatives were drawn apart from positives, which chance does not explain."""
    firsts, seconds = (Counter(pair[side] for pair in examples) for side in (0, 1))
    count = len(examples)
    expected = sum(times * seconds[one] for one, times in firsts.items()) / count**2
    share = equal / count
    if share <= expected:
        return False
    rest = 0.0 if share == 1 else (1 - share) * math.log((1 - share) / (1 - expected))
    return -count * (share * math.log(share / expected) + rest) / math.log(10) < CERTAIN
