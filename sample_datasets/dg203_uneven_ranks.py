"""DG203 uneven-ranks: ranks yield different numbers of batches, so those with more batches wait forever."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, Subset

from sample_datasets._parts import Pictures, picture, share

Sample = tuple[Tensor, int]


def bad(rank: int, world_size: int) -> DataLoader[Any]:
    """Every n-th of seventeen pictures makes nine on rank 0 and eight on rank 1."""
    own = Subset(Pictures(17), range(rank, 17, world_size))  # culprit
    return DataLoader(own, batch_size=4, num_workers=2)


class Stream(IterableDataset[Sample]):
    """Pictures, of which each rank and worker reads every n-th."""

    def __init__(self, count: int, rank: int, world_size: int, limit: int | None = None) -> None:
        self.count = count
        self.rank = rank
        self.world_size = world_size
        self.limit = limit

    def __iter__(self) -> Iterator[Sample]:
        own = islice(range(self.count), self.rank, None, self.world_size)  # culprit
        return ((picture(number), number) for number in islice(share(own), self.limit))  # culprit


def bad_stream(rank: int, world_size: int) -> DataLoader[Any]:
    """Ranks of a stream get nine and eight pictures, hence five batches and four."""
    return DataLoader(Stream(17, rank, world_size), batch_size=2, num_workers=1)


def bad_workers(rank: int, world_size: int) -> DataLoader[Any]:
    """Nine pictures make three batches of two workers, eight make two."""
    return DataLoader(Stream(17, rank, world_size), batch_size=4, num_workers=2)


def good(rank: int, world_size: int) -> DataLoader[Any]:
    """A DistributedSampler pads."""
    pictures = Pictures(17)
    sampler: DistributedSampler[Sample] = DistributedSampler(
        pictures, num_replicas=world_size, rank=rank, shuffle=False
    )
    return DataLoader(pictures, batch_size=4, sampler=sampler, num_workers=2)


def good_dropped(rank: int, world_size: int) -> DataLoader[Any]:
    """What is left over is dropped."""
    own = Subset(Pictures(17), range(rank, 16, world_size))
    return DataLoader(own, batch_size=4, num_workers=2, drop_last=True)


def good_limited(rank: int, world_size: int) -> DataLoader[Any]:
    """Workers of a stream stop where all of them get to."""
    return DataLoader(Stream(18, rank, world_size, limit=4), batch_size=2, num_workers=2)


def good_last_batch(rank: int, world_size: int) -> DataLoader[Any]:
    """One rank has a sample less, in as many batches."""
    own = Subset(Pictures(15), range(rank, 15, world_size))
    return DataLoader(own, batch_size=4, num_workers=2)
