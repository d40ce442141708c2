"""Whether what a dataset returns without a source replaces the sample, and says so. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataguard.lab.core.records import SampleRecord
    from dataguard.lab.dataset.missing_file import SampleSources, Substitute
    from dataguard.lab.reading.sample_reader import Answer

FEWEST = 8
"""A leaf of fewer values is not what a decoder made of a file. Chosen: two boxes have as many."""
FEW = 0.25
"""The share of distinct values below which a leaf counts as a class or a flag."""


def unlike(sample: SampleSources, answer: Answer) -> list[str]:
    """The leaves that are no longer what they are in every read of the whole sample."""
    stable = {path: one for path, one in sample.whole.digests.items() if sample.again.digests.get(path) == one}
    return [path for path, digest in stable.items() if answer.digests.get(path) != digest]


def is_replaced(sample: SampleSources, substitute: Substitute) -> bool:
    """Whether a sample of the same structure was returned, with another input."""
    if substitute.answer.incident or substitute.answer.form != sample.whole.form:
        return False
    sizes = {leaf.path: math.prod(leaf.shape or ()) for leaf in sample.whole.leaves}
    least = max(sizes.values()) if substitute.source.first else FEWEST
    return any(sizes[path] >= least for path in unlike(sample, substitute.answer))


def is_flagged(sample: SampleSources, answer: Answer, samples: Sequence[SampleRecord]) -> bool:
    """Whether a mask, a flag or an ignored label marks the substitute: a value of few that no ordinary sample has."""
    kinds = {leaf.path: leaf.dtype for leaf in answer.leaves}
    for path in unlike(sample, answer):
        if kinds[path] == "bool":
            return True
        seen = {leaf.digest for sample in samples for leaf in sample.leaves if leaf.path == path and not leaf.shape}
        if seen and len(seen) < max(FEW * len(samples), 2) and answer.digests[path] not in seen:
            return True
    return False


def equal_index(sample: SampleSources, answer: Answer, samples: Sequence[SampleRecord]) -> object:
    """The index of the sample that was returned instead, if it was read before."""
    changed = set(unlike(sample, answer))
    wanted = {(path, digest) for path, digest in answer.digests.items() if path in changed}
    return next((sample.index for sample in samples if wanted <= set(sample.digest)), None)
