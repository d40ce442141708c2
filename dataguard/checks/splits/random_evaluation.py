"""Which leaves of evaluation samples are random, and whether a transform that training shares draws them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataguard.core.incident import observed_or_none

if TYPE_CHECKING:
    from dataguard.lab.core.records import Index
    from dataguard.lab.lab import Lab
    from dataguard.lab.splits.shared_transforms import SharedTransform
    from dataguard.lab.subject import Subject


@dataclass(frozen=True, slots=True)
class RandomShared:
    """A transform that a training loader shares, and what it makes random: the leaves, and the indices of each."""

    other: str
    transform: SharedTransform
    leaves: Mapping[str, list[Index]]


def unmasked(lab: Lab, leaves: Mapping[str, list[Index]]) -> dict[str, list[Index]]:
    """The random leaves without those in which only the choice of masked tokens is random."""
    return {path: indices for path, indices in leaves.items() if not _only_masks(lab, path, indices)}


def random_shared(lab: Lab, leaves: Mapping[str, list[Index]]) -> RandomShared | None:
    """The transform, shared with training, that makes any of these leaves random."""
    for other, shared in shared_with(lab, [one for one in lab.splits.earlier if one.facts.role == "train"]):
        indices = list(dict.fromkeys(index for found in leaves.values() for index in found))
        steady = lab.splits.steady_with(shared, indices) if indices else frozenset()
        found = {path: among for path, among in leaves.items() if path in steady}
        if found:
            return RandomShared(other.facts.name, shared, found)
    return None


def shared_with(lab: Lab, others: Sequence[Subject]) -> Iterator[tuple[Subject, SharedTransform]]:
    """The transforms of dataset objects that this loader and the others read."""
    for other in others:
        shared = observed_or_none(lambda: lab.splits.shared_with(other)) or ()  # noqa: B023 - called at once
        yield from ((other, transform) for transform in shared)


def _only_masks(lab: Lab, path: str, indices: list[Index]) -> bool:
    """Whether the random state decides only which tokens of these samples are masked."""
    answers = lab.dataset.readings.forward.passes[0]
    if not any(leaf.path == path and leaf.shape and "int" in leaf.type_name for leaf in answers[0].leaves):
        return False
    items = lab.dataset.readings.items
    masked = [found for index, found in zip(items, lab.dataset.masked_tokens(items), strict=True) if index in indices]
    return any(masked) and all(path in found for found in masked if found)
