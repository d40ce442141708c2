"""Loaders for four ranks, of which 0 and 1 share a model, and 2 and 3: each pair is to read the same batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

from sample_datasets._parts import Pictures, picture, share


def _dealt(replicas: int, number: int, **options: Any) -> DataLoader[Any]:
    pictures = Pictures(33)
    sampler: Any = DistributedSampler(pictures, replicas, number, **options)
    return DataLoader(pictures, batch_size=4, sampler=sampler)


def shared(rank: int, world_size: int) -> DataLoader[Any]:
    """Each pair has a share."""
    return _dealt(world_size // 2, rank // 2)


def split(rank: int, world_size: int) -> DataLoader[Any]:
    """Each rank has one."""
    return _dealt(world_size, rank)


def whole(rank: int, world_size: int) -> DataLoader[Any]:
    """All pairs read all, with one seed."""
    return DataLoader(Pictures(33), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(0))


def unseeded(rank: int, world_size: int) -> DataLoader[Any]:
    """The ranks of a pair have one order only if the training script gives them one seed."""
    part: Dataset[Any] = torch.utils.data.Subset(Pictures(32), range(rank // 2, 32, world_size // 2))
    return DataLoader(part, batch_size=4, shuffle=True)


class _Stream(IterableDataset[Any]):
    def __init__(self, number: int, step: int) -> None:
        self.numbers = range(number, 32, step)

    def __iter__(self) -> Iterator[Any]:
        return ((picture(number), number) for number in share(self.numbers))


def stream(rank: int, world_size: int) -> DataLoader[Any]:
    """A stream with a share for each pair."""
    return DataLoader(_Stream(rank // 2, world_size // 2), batch_size=4, num_workers=1)


def split_stream(rank: int, world_size: int) -> DataLoader[Any]:
    """A stream with a share for each rank."""
    return DataLoader(_Stream(rank, world_size), batch_size=4, num_workers=1)
