"""How samples differ beyond their shapes: keys, nesting, type or rank. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataguard.lab.batches.mixed_batches import MixedPair
    from dataguard.lab.core.records import BatchRecord, LeafRecord, SampleRecord


def unlike(samples: Sequence[SampleRecord]) -> list[SampleRecord]:
    """The first sample and the first of another structure; empty if all have the same."""
    return next(([samples[0], sample] for sample in samples if sample.form != samples[0].form), [])


def difference(one: SampleRecord, two: SampleRecord) -> tuple[str, str]:
    """The first leaf in which two samples differ, and its kind in each."""
    first, second = ({leaf.path: leaf for leaf in sample.leaves} for sample in (one, two))
    for path in dict.fromkeys((*first, *second)):
        kinds = [_kind(leaves.get(path)) for leaves in (first, second)]
        if kinds[0] != kinds[1]:
            return path, f"{kinds[0]} at index {one.index} and {kinds[1]} at index {two.index}"
    return "", f"nested differently at index {one.index} and at index {two.index}"


def _kind(leaf: LeafRecord | None) -> str:
    if leaf is None:
        return "absent"
    return f"{leaf.type_name} of rank {len(leaf.shape)}" if leaf.shape else leaf.type_name


def lists_key(batch: BatchRecord | MixedPair, different: tuple[str, str]) -> bool:
    """Whether a key that some samples lack arrives in the dicts of others, which collate_fn only lists."""
    path, kinds = different
    key = re.search(r"\['[^']+'\]$", path)
    listed = re.compile(rf"\[\d+\]{re.escape(key[0])}$") if key and "absent" in kinds else None
    return listed is not None and any(listed.search(leaf.path) for leaf in batch.leaves)
