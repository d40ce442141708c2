"""DG213 misplaced-weights: a weighted sampler draws frequent classes even more often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, WeightedRandomSampler

from sample_datasets._parts import picture

SHARES = (0.06, 0.6, 0.1, 0.24)


class Imbalanced(Dataset[tuple[Tensor, int]]):
    """Pictures of four classes, of which the second is the most frequent."""

    def __init__(self, count: int = 200) -> None:
        self.images = [picture(number) for number in range(count)]
        self.labels = np.random.default_rng(0).choice(4, count, p=SHARES)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])


def weighted(dataset: Dataset[Any], weights: Sequence[float] | np.ndarray | Tensor) -> DataLoader[Any]:
    """Batches of eight, drawn by weight."""
    sampler = WeightedRandomSampler(torch.as_tensor(weights).tolist(), len(weights))  # culprit
    return DataLoader(dataset, batch_size=8, sampler=sampler)


def by_frequency(labels: np.ndarray) -> np.ndarray:
    """The numbers of samples of all classes, the most frequent one first, as `value_counts()` lists them."""
    return np.array([count for _, count in Counter(labels.tolist()).most_common()])


def bad() -> DataLoader[Any]:
    """Counts are listed by frequency and indexed by label."""
    dataset = Imbalanced()
    return weighted(dataset, 1 / by_frequency(dataset.labels)[dataset.labels])


def good() -> DataLoader[Any]:
    """Counts in the order of labels."""
    dataset = Imbalanced()
    return weighted(dataset, 1 / np.bincount(dataset.labels)[dataset.labels])


def bad_shares() -> DataLoader[Any]:
    """The shares of three classes in a tensor data set, and not their inverse."""
    labels = torch.tensor([0] * 140 + [1] * 40 + [2] * 20)
    shares = labels.bincount() / len(labels)
    return weighted(TensorDataset(torch.stack([picture(n) for n in range(200)]), labels), shares[labels])  # culprit


def bad_two_classes() -> DataLoader[Any]:
    """Weights of two classes are exchanged."""
    dataset = Imbalanced()
    dataset.labels = (dataset.labels == 3).astype("int64")
    return weighted(dataset, np.array([1.0, sum(dataset.labels == 0) / sum(dataset.labels)])[1 - dataset.labels])


def bad_roots_of_equal_classes() -> DataLoader[Any]:
    """Weights by the square root of counts, by frequency; two of the four classes have as many samples."""
    dataset = Imbalanced()
    dataset.labels = np.random.default_rng(1).permutation(np.repeat([0, 1, 2, 3], [20, 120, 20, 40]))
    return weighted(dataset, 1 / np.sqrt(by_frequency(dataset.labels))[dataset.labels])


def good_preferred_class() -> DataLoader[Any]:
    """The class that matters most is drawn twice as often as others, although it is the most frequent one."""
    dataset = Imbalanced()
    return weighted(dataset, np.array([1.0, 2.0, 1.0, 1.0])[dataset.labels])


def good_mixed_sources() -> DataLoader[Any]:
    """The larger of two sources is preferred on purpose; classes are equally frequent in both."""
    dataset = Imbalanced()
    source = np.arange(200) % 4 > 0
    return weighted(dataset, np.where(source, 0.75, 0.25))


def good_root() -> DataLoader[Any]:
    """Weights by the square root: the most frequent class is still drawn the most often."""
    dataset = Imbalanced()
    return weighted(dataset, 1 / np.sqrt(np.bincount(dataset.labels))[dataset.labels])


def good_counts_of_another_split() -> DataLoader[Any]:
    """Counts of another split, whose classes have other shares, but in the order of labels."""
    dataset = Imbalanced()
    return weighted(dataset, 1 / np.bincount(Imbalanced(900).labels)[dataset.labels])


def good_hard_samples() -> DataLoader[Any]:
    """Each sample has a weight of its own, such as its last loss."""
    dataset = Imbalanced()
    return weighted(dataset, np.random.default_rng(2).exponential(size=200) * (1 + dataset.labels))


def joined(order: Sequence[int]) -> DataLoader[Any]:
    """Pictures of two sources, each of which makes half of a batch; weights are made in this order of sources."""
    counts = (150, 30)
    dataset: ConcatDataset[Any] = ConcatDataset(
        [TensorDataset(torch.stack([picture(n) for n in range(count)])) for count in counts]
    )
    weights = [1 / counts[source] for source in order for _ in range(counts[source])]  # culprit
    return DataLoader(dataset, batch_size=8, sampler=WeightedRandomSampler(weights, len(weights)))


def bad_parts() -> DataLoader[Any]:
    """Weights of the smaller source come first, and its samples last."""
    return joined((1, 0))


def good_parts() -> DataLoader[Any]:
    """Weights are in the order of sources."""
    return joined((0, 1))


def half(dataset: Imbalanced) -> Subset[Any]:
    """Half of the samples, in no order."""
    return Subset(dataset, np.random.default_rng(4).permutation(200)[:100].tolist())


def bad_of_whole() -> DataLoader[Any]:
    """The weights of the first half of all samples, for a subset of others."""
    dataset = Imbalanced()
    return weighted(half(dataset), (1 / np.bincount(dataset.labels)[dataset.labels])[:100])


def good_of_subset() -> DataLoader[Any]:
    """The weights of the samples of the subset."""
    dataset = Imbalanced()
    subset = half(dataset)
    return weighted(subset, (1 / np.bincount(dataset.labels)[dataset.labels])[subset.indices])


def bad_of_earlier_order() -> DataLoader[Any]:
    """Labels are sorted after weights were computed."""
    dataset = Imbalanced()
    weights = 1 / np.bincount(dataset.labels)[dataset.labels]
    dataset.labels = np.sort(dataset.labels)
    return weighted(dataset, weights)


def good_balanced_sources() -> DataLoader[Any]:
    """Four sources, of which each is drawn as often, whatever their classes."""
    dataset = Imbalanced()
    source = np.random.default_rng(9).choice(4, 200, p=[0.1, 0.2, 0.3, 0.4])
    return weighted(dataset, 1 / np.bincount(source)[source])


def bad_of_part() -> DataLoader[Any]:
    """The weights of the samples of a subset, for a loader of all."""
    dataset = Imbalanced()
    labels = dataset.labels[half(dataset).indices]
    return weighted(dataset, 1 / np.bincount(labels)[labels])
