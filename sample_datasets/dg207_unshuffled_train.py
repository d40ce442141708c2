"""DG207 unshuffled-train: a training loader does not shuffle."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    Sampler,
    SequentialSampler,
    WeightedRandomSampler,
)

from sample_datasets._parts import Lasting, Pictures, picture

Loaders = dict[str, DataLoader[Any]]


def train(dataset: Any = None, **settings: Any) -> Loaders:
    """A loader for training of two workers."""
    own = {"batch_size": 1 if "batch_sampler" in settings else 4, "num_workers": 2, **settings}
    return {"train": DataLoader(Pictures(32) if dataset is None else dataset, **own)}  # culprit


def bad() -> Loaders:
    """`shuffle=True` is missing."""
    return train()


def bad_batches() -> Loaders:
    """A batch sampler over a sequential one."""
    return train(batch_sampler=BatchSampler(SequentialSampler(range(32)), 4, drop_last=False))  # culprit


def bad_distributed() -> Loaders:
    """A DistributedSampler that is told not to shuffle."""
    return train(sampler=DistributedSampler(Pictures(32), num_replicas=1, rank=0, shuffle=False))  # culprit


def good() -> Loaders:
    """Shuffled by torch."""
    return train(shuffle=True)


def good_weighted() -> Loaders:
    """Drawn by weight."""
    return train(sampler=WeightedRandomSampler([1.0] * 32, 32))


def good_evaluation() -> Loaders:
    """Evaluation goes through the data in order."""
    return {"val": DataLoader(Pictures(32), batch_size=4, num_workers=2)}


def good_whole() -> Loaders:
    """One batch holds everything."""
    return {"train": DataLoader(Pictures(32), batch_size=32, num_workers=2)}


def good_few() -> Loaders:
    """Three samples, which are drawn in order by chance."""
    return train(Pictures(3), batch_size=1, shuffle=True)


class Windows(Dataset[Tensor]):
    """Windows at random places of one long signal, whatever the index."""

    def __init__(self) -> None:
        self.signal = torch.linspace(0.0, 1.0, 1000)

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Tensor:
        start = int(torch.randint(0, 900, ()))
        return self.signal[start : start + 100]


def good_windows() -> Loaders:
    """The dataset draws its samples itself."""
    return train(Windows())


class Reordered(Dataset[tuple[Tensor, int]]):
    """Pictures that are put into another order in each epoch."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        order = random.Random(self.epoch).sample(range(32), 32)
        return picture(order[index]), order[index] % 4


def good_reordered() -> Loaders:
    """The dataset shuffles itself."""
    return train(Reordered())


class Permuted(Dataset[tuple[Tensor, int]]):
    """Rows that the dataset puts into another order once, or in each epoch, and to which it adds noise of its own."""

    def __init__(self, *, each_epoch: bool) -> None:
        self.rows = torch.randn(32, 16, generator=torch.Generator().manual_seed(1))
        self.each_epoch = each_epoch
        self.noise = np.random.default_rng()
        self.order = np.random.default_rng(2).permutation(32)

    def set_epoch(self, epoch: int) -> None:
        """Draw the order of an epoch."""
        if self.each_epoch:
            self.order = np.random.default_rng(epoch).permutation(32)

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        row = int(self.order[index])
        return self.rows[row] + float(self.noise.normal()), row % 4


def bad_permuted_once() -> Loaders:
    """The dataset shuffles its rows, but only once: every epoch has the same batches."""
    return train(Permuted(each_epoch=False), num_workers=0)


def good_permuted() -> Loaders:
    """It shuffles them in each epoch, which noise hides."""
    return train(Permuted(each_epoch=True), num_workers=0)


class ByLength(Sampler[int]):
    """Indices sorted by something else than their number."""

    def __len__(self) -> int:
        return 32

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(range(32), key=lambda index: (index * 7 % 32, index)))


def good_sorted() -> Loaders:
    """A curriculum."""
    return train(sampler=ByLength())


def repeated(*, shuffle: bool, rank: int, world_size: int) -> Loaders:
    """A share of the pictures for each rank."""
    dataset = Pictures(32)
    sampler: Any = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=shuffle)  # culprit
    return {"train": Lasting(dataset, batch_size=4, num_workers=2, sampler=sampler)}


def bad_repeated(rank: int, world_size: int) -> Loaders:
    """An iterator that is made in the constructor, of a sampler that does not shuffle."""
    return repeated(shuffle=False, rank=rank, world_size=world_size)


def good_repeated() -> Loaders:
    """One that shuffles."""
    return {"train": Lasting(Pictures(32), batch_size=4, num_workers=2, shuffle=True)}


class Reindexed(Dataset[tuple[Tensor, int]]):
    """Pictures in an order that a trainer of the project lets the dataset draw anew after each epoch."""

    def __init__(self) -> None:
        self.order = list(range(32))

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return picture(self.order[index]), self.order[index] % 4

    def on_epoch_end(self) -> None:
        """Draw the order of the next epoch."""
        random.shuffle(self.order)


def good_reindexed() -> Loaders:
    """The dataset shuffles itself, if the trainer asks for it."""
    return train(Reindexed())


def bad_lasting() -> Loaders:
    """A loader of the project that repeats the batches of its sampler."""
    dataset = Pictures(32)
    return {"train": Lasting(dataset, batch_size=4, num_workers=2)}  # culprit
