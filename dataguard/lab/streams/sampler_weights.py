"""How a sampler of torch weights its samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch.utils.data import ConcatDataset, Subset, WeightedRandomSampler

from dataguard.lab.rows.rows_changed import inner_index
from dataguard.targets.variants import Loader, unwrapped


@dataclass(frozen=True, slots=True)
class SamplerWeights:
    """How many samples have each weight, unless most have their own, and the weights of those asked for, by index.

    `outside` are the weights at the places that these samples have in the dataset of which the loader's is a subset.
    `runs` are the lengths and weights of stretches of samples of one weight, if they are few, and `parts` the lengths
    of the datasets that are concatenated.
    """

    counts: Mapping[float, int]
    of: Mapping[int, float]
    outside: Mapping[int, float] = field(default_factory=dict)
    runs: tuple[tuple[int, float], ...] = ()
    parts: tuple[int, ...] = ()


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
    by_index, outside = _at({index: index for index in indices}, weights), dict[int, float]()
    if isinstance(loader.dataset, Subset):
        outside = _at({index: inner_index(loader.dataset, index) for index in by_index}, weights)
    few = len(values) <= MOST_WEIGHTS
    return SamplerWeights(
        dict(zip(values.tolist(), counts.tolist(), strict=True)) if few else {},
        by_index,
        outside,
        _runs(weights),
        _lengths(loader.dataset),
    )


def _at(places: Mapping[int, int | None], weights: torch.Tensor) -> dict[int, float]:
    """The weights at these places, by index, of those that have a weight."""
    return {
        index: float(weights[place])
        for index, place in places.items()
        if place is not None and 0 <= place < len(weights)
    }


def _runs(weights: torch.Tensor) -> tuple[tuple[int, float], ...]:
    values, lengths = weights.unique_consecutive(return_counts=True)
    return tuple(zip(lengths.tolist(), values.tolist(), strict=True)) if len(values) <= MOST_WEIGHTS else ()


def _lengths(dataset: object) -> tuple[int, ...]:
    """The lengths of the parts of a concatenated dataset that have samples."""
    ends = dataset.cumulative_sizes if isinstance(dataset, ConcatDataset) else []
    return tuple(end - start for start, end in pairwise([0, *ends]) if end > start)
