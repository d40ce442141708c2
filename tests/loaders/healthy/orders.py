"""Healthy loaders of photographs whose samplers repeat, leave out, balance or never end; and seeded workers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler, Subset, WeightedRandomSampler

from sample_datasets._parts import PHOTOGRAPHS
from tests.loaders.healthy.images import EVALUATION, Photographs


class Episodes(Sampler[list[int]]):
    """Batches of an episode: some classes, some images of each for support and for queries."""

    def __init__(self, targets: list[int], ways: int, shots: int, episodes: int) -> None:
        self.by_class = {label: [i for i, one in enumerate(targets) if one == label] for label in set(targets)}
        self.ways, self.shots, self.episodes = ways, shots, episodes

    def __len__(self) -> int:
        return self.episodes

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self.episodes):
            ways = random.sample(sorted(self.by_class), self.ways)
            yield [index for way in ways for index in random.sample(self.by_class[way], self.shots)]


def episodes() -> DataLoader[Any]:
    """Few-shot episodes: samples repeat between batches, and some never come."""
    photographs = Photographs(EVALUATION)
    return DataLoader(photographs, batch_sampler=Episodes(photographs.targets, 2, 4, 10), num_workers=2)


class ClassBalanced(Sampler[int]):
    """As many of each class, in turn, with replacement."""

    def __init__(self, targets: list[int], count: int) -> None:
        self.by_class = [[i for i, one in enumerate(targets) if one == label] for label in sorted(set(targets))]
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        for number in range(self.count):
            yield random.choice(self.by_class[number % len(self.by_class)])


def class_balanced() -> DataLoader[Any]:
    """Classes take turns."""
    photographs = Photographs()
    return DataLoader(photographs, batch_size=6, sampler=ClassBalanced(photographs.targets, 48), num_workers=2)


def weighted_with_replacement() -> DataLoader[Any]:
    """Rare classes are drawn more often than they occur."""
    photographs = Photographs()
    subset = Subset(photographs, [*range(8), *range(8, 12), *range(16, 18)])
    weights = [1 / {0: 8, 1: 4, 2: 2}[photographs.targets[index]] for index in subset.indices]
    return DataLoader(subset, batch_size=4, sampler=WeightedRandomSampler(weights, 32), num_workers=2)


class RepeatedAugmentation(Sampler[int]):
    """Each index three times in a row, as for DeiT."""

    def __init__(self, count: int, repeats: int = 3) -> None:
        self.count, self.repeats, self.epoch = count, repeats, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(self.count, generator=torch.Generator().manual_seed(self.epoch))
        return iter(order.repeat_interleave(self.repeats)[: self.count].tolist())


def repeated_augmentation() -> DataLoader[Any]:
    """A batch holds three augmentations of one image, and an epoch a third of the images."""
    return DataLoader(Photographs(), batch_size=6, sampler=RepeatedAugmentation(len(PHOTOGRAPHS)), num_workers=2)


class Forever(Sampler[int]):
    """Shuffled indices without an end."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        while True:
            yield from torch.randperm(self.count).tolist()


def infinite_sampler() -> DataLoader[Any]:
    """Training counts steps, not epochs: the sampler has no length and no end."""
    return DataLoader(Photographs(), batch_size=8, sampler=Forever(len(PHOTOGRAPHS)), num_workers=2)


def repeated_subset() -> DataLoader[Any]:
    """A small class, three times as often: a list of indices with repeats."""
    rare = [*range(16, 24)]
    return DataLoader(Subset(Photographs(), [*range(16), *rare * 3]), batch_size=8, shuffle=True, num_workers=2)


def set_seed(worker: int) -> None:
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


def seeded_workers() -> DataLoader[Any]:
    """The recipe of PyTorch's page on reproducibility: a generator, and seeds in each worker."""
    return DataLoader(
        Photographs(),
        batch_size=8,
        shuffle=True,
        num_workers=2,
        worker_init_fn=set_seed,
        generator=torch.Generator().manual_seed(0),
    )
