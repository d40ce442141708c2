"""Blank samples: constant images, empty sequences and strings. Standard library only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataguard.lab.core.records import LeafRecord, SampleRecord
    from dataguard.lab.lab import Lab

MOST_AGAIN = 3
"""At most this many blank samples are read again."""


def blank(samples: Sequence[SampleRecord]) -> dict[str, list[SampleRecord]]:
    """The samples whose images have a single value or colour, by the message about them."""
    found: dict[str, list[SampleRecord]] = defaultdict(list)
    for sample in samples:
        if sample.blank:
            what = "has a single colour" if sample.blank.is_coloured else "is constant"
            found[f"sample{sample.blank.path} {what}"].append(sample)
    return found


def lasts(lab: Lab, samples: Sequence[SampleRecord]) -> bool:
    """Whether a sample is also blank when it is read alone: workers that share a file may spoil each other's reads."""
    indices = [sample.index for sample in samples if sample.blank and sample.index is not None]
    return not indices or any(lab.dataset.is_blank(index) for index in indices[:MOST_AGAIN])


def empty(samples: Sequence[SampleRecord]) -> dict[str, list[SampleRecord]]:
    """The samples with an empty input: the leaf that is the largest in most others, or a string."""
    largest = Counter(leaf.path for sample in samples for leaf in [_input(sample.leaves)] if leaf)
    path = next((path for path, count in largest.items() if 2 * count > len(samples)), None)
    empty = [sample for sample in samples for leaf in sample.leaves if leaf.path == path and _is_empty(leaf)]
    return {f"sample{path} is empty": empty} if empty else {}


def _input(leaves: Sequence[LeafRecord]) -> LeafRecord | None:
    """The largest leaf; if all are single values, the first string."""
    largest = max(leaves, key=lambda leaf: leaf.size if leaf.shape is not None else 0, default=None)
    if largest is not None and largest.shape and largest.size > 1:
        return largest
    return next((leaf for leaf in leaves if leaf.kind == "str"), None)


def _is_empty(leaf: LeafRecord) -> bool:
    return leaf.shown == "''" if leaf.kind == "str" else leaf.shape is not None and leaf.size == 0
