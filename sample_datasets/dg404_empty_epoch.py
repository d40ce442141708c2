"""DG404 empty-epoch: an epoch yields no batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from sample_datasets._parts import Pictures, picture, share

Sample = tuple[Tensor, int]


def bad() -> DataLoader[Any]:
    """A batch takes more samples than there are."""
    return DataLoader(Pictures(12), batch_size=16, shuffle=True, drop_last=True, num_workers=2)


class Stream(IterableDataset[Sample]):
    """Forty pictures, of which each worker reads every n-th."""

    def __iter__(self) -> Iterator[Sample]:
        return ((picture(number), number) for number in share(range(40)))


def bad_stream() -> DataLoader[Any]:
    """No worker ever has as many samples as a batch takes."""
    return DataLoader(Stream(), batch_size=16, drop_last=True, num_workers=4)


def bad_empty() -> DataLoader[Any]:
    """The dataset is empty."""
    return DataLoader(Pictures(12), sampler=[], batch_size=4, num_workers=2)


def bad_ranks(rank: int, world_size: int) -> DataLoader[Any]:
    """A batch takes more samples than a rank has."""
    pictures = Pictures(24)
    sampler: Any = DistributedSampler(pictures, num_replicas=world_size, rank=rank)
    return DataLoader(pictures, batch_size=16, sampler=sampler, drop_last=True, num_workers=2)


class Once(IterableDataset[Sample]):
    """A stream over an iterator that is made once."""

    def __init__(self) -> None:
        self.numbers = iter(range(32))  # culprit

    def __iter__(self) -> Iterator[Sample]:
        return ((picture(number), number) for number in self.numbers)


def bad_once() -> DataLoader[Any]:
    """The second epoch finds the iterator exhausted."""
    return DataLoader(Once(), batch_size=4)


def bad_sampler() -> DataLoader[Any]:
    """The second epoch finds the sampler exhausted."""
    return DataLoader(Pictures(32), sampler=iter(range(32)), batch_size=4, num_workers=2)  # culprit


def good() -> DataLoader[Any]:
    """One batch comes out."""
    return DataLoader(Pictures(16), batch_size=16, shuffle=True, drop_last=True, num_workers=2)


def good_stream() -> DataLoader[Any]:
    """Every worker fills a batch."""
    return DataLoader(Stream(), batch_size=10, drop_last=True, num_workers=4)


def good_last() -> DataLoader[Any]:
    """A batch that is not full is kept."""
    return DataLoader(Pictures(12), batch_size=16, shuffle=True, num_workers=2)
