"""How samples differ beyond their shapes: keys, nesting, type or rank. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataguard.lab.core.records import LeafRecord, SampleRecord


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
