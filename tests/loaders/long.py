"""Streams that go on long after what is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from sample_datasets._parts import share


class Long(IterableDataset[Tensor]):
    """Numbers that are dealt out among ranks, and then among workers."""

    def __init__(self, count: int, rank: int = 0, world_size: int = 1, length: int | None = None) -> None:
        self.numbers = range(count)[rank::world_size]
        self.length = len(self.numbers) if length is None else length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Tensor]:
        return (torch.tensor([float(number)]) for number in share(self.numbers))


def even(rank: int, world_size: int) -> DataLoader[Any]:
    return DataLoader(Long(4000, rank, world_size), batch_size=4, num_workers=2)


def uneven(rank: int, world_size: int) -> DataLoader[Any]:
    return DataLoader(Long(4008 if rank else 4000, rank, world_size), batch_size=4, num_workers=2)


def too_long() -> DataLoader[Any]:
    return DataLoader(Long(2000, length=4000), batch_size=4, num_workers=2)
