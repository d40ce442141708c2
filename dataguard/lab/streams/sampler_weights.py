"""How a sampler of torch weights its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch.utils.data import ConcatDataset, Subset, WeightedRandomSampler

from dataguard.targets.variants import Loader, unwrapped


@dataclass(frozen=True, slots=True)
class SamplerWeights:
    """How many samples have each weight, unless most have their own, and the weights of those asked for, by index.

    `runs` are the lengths and weights of stretches of samples of one weight, if they are few, and `parts` the lengths
    of the datasets that are concatenated. `of_whole` are the weights that samples of a subset would have if weights
    stood in the order of the whole dataset.
    """

    counts: Mapping[float, int]
    of: Mapping[int, float]
    runs: tuple[tuple[int, float], ...] = ()
    parts: tuple[int, ...] = ()
    of_whole: Mapping[int, float] = field(default_factory=dict)


MOST_WEIGHTS = 1_000
"""Most distinct weights: those of classes are few, and those of single samples, such as their losses, are many."""


def find_weights(build: Callable[..., Loader], indices: Sequence[int]) -> SamplerWeights | None:
    """The weights, or None if the sampler draws otherwise."""
    loader = build(num_workers=0)
    index_sampler = unwrapped(loader.sampler if loader.batch_sampler is None else loader.batch_sampler)
    sampler = unwrapped(getattr(index_sampler, "sampler", index_sampler))
    if getattr(type(sampler), "__iter__", None) is not WeightedRandomSampler.__iter__:
        return None
    weights = torch.as_tensor(sampler.weights)
    values, counts = weights.unique(return_counts=True)
    by_index = {index: float(weights[index]) for index in indices if 0 <= index < len(weights)}
    few = len(values) <= MOST_WEIGHTS
    return SamplerWeights(
        dict(zip(values.tolist(), counts.tolist(), strict=True)) if few else {},
        by_index,
        _runs(weights),
        _lengths(loader.dataset),
        dict(_of_whole(loader.dataset, indices, weights)),
    )


def _of_whole(dataset: object, indices: Sequence[int], weights: torch.Tensor) -> Iterator[tuple[int, float]]:
    for index in indices if isinstance(dataset, Subset) else ():
        place, part = index, dataset
        while isinstance(part, Subset):
            place, part = int(part.indices[place]), part.dataset
        if place < len(weights):
            yield index, float(weights[place])


def _runs(weights: torch.Tensor) -> tuple[tuple[int, float], ...]:
    values, lengths = weights.unique_consecutive(return_counts=True)
    return tuple(zip(lengths.tolist(), values.tolist(), strict=True)) if len(values) <= MOST_WEIGHTS else ()


def _lengths(dataset: object) -> tuple[int, ...]:
    """The lengths of the parts of a concatenated dataset that have samples."""
    ends = dataset.cumulative_sizes if isinstance(dataset, ConcatDataset) else []
    return tuple(end - start for start, end in pairwise([0, *ends]) if end > start)
