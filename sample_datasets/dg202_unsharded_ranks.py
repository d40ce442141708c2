"""DG202 unsharded-ranks: each rank reads all samples."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler, Subset

from sample_datasets._files import CropStream
from sample_datasets._parts import Pictures, brighten, picture, share

Sample = tuple[Tensor, int]


def bad(rank: int, world_size: int) -> DataLoader[Any]:
    """Shuffling without a DistributedSampler deals every picture to every rank."""
    return DataLoader(Pictures(32), batch_size=4, shuffle=True, num_workers=2)  # culprit


def bad_replacement(rank: int, world_size: int) -> DataLoader[Any]:
    """Each rank draws its share with replacement, and all from one seed."""
    pictures, generator = Pictures(32), torch.Generator().manual_seed(0)  # culprit
    sampler = RandomSampler(pictures, replacement=True, num_samples=32 // world_size, generator=generator)  # culprit
    return DataLoader(pictures, batch_size=4, sampler=sampler, num_workers=2)


def good_replacement(rank: int, world_size: int) -> DataLoader[Any]:
    """Each rank draws from a seed of its own."""
    pictures, generator = Pictures(32), torch.Generator().manual_seed(rank)
    sampler = RandomSampler(pictures, replacement=True, num_samples=32 // world_size, generator=generator)
    return DataLoader(pictures, batch_size=4, sampler=sampler, num_workers=2)


class Stream(IterableDataset[Sample]):
    """Thirty-two pictures, of which each worker reads every n-th."""

    def numbers(self) -> Iterator[int]:
        """The numbers of the pictures of this process."""
        return share(range(32))  # culprit

    def __iter__(self) -> Iterator[Sample]:
        return ((picture(number), number) for number in self.numbers())


def bad_stream(rank: int, world_size: int) -> DataLoader[Any]:
    """The stream is shared out among workers, and not among ranks."""
    return DataLoader(Stream(), batch_size=4, num_workers=2)


class BrightStream(Stream):
    """The same, of random brightness."""

    def __iter__(self) -> Iterator[Sample]:
        return ((brighten(picture(number)), number) for number in self.numbers())


def bad_augmented(rank: int, world_size: int) -> DataLoader[Any]:
    """Augmentation makes the copies of a picture look different."""
    torch.manual_seed(rank)
    return DataLoader(BrightStream(), batch_size=4, num_workers=2)


class Endless(Stream):
    """New pictures without end."""

    def numbers(self) -> Iterator[int]:
        return share(count())  # culprit


def bad_endless(rank: int, world_size: int) -> DataLoader[Any]:
    """There is no end at which copies could be counted."""
    return DataLoader(Endless(), batch_size=4, num_workers=2)


class LoggingStream(Stream):
    """A stream that asks for its rank only to print."""

    def __iter__(self) -> Iterator[Sample]:
        if int(os.environ.get("RANK", "0")) == 0:
            print("the stream begins")
        return super().__iter__()


def bad_asking() -> DataLoader[Any]:
    """The code knows of ranks, and does not share its samples out."""
    return DataLoader(LoggingStream(), batch_size=4, num_workers=2)


def good(rank: int, world_size: int) -> DataLoader[Any]:
    """A DistributedSampler deals the pictures out."""
    pictures = Pictures(32)
    sampler: DistributedSampler[Sample] = DistributedSampler(pictures, num_replicas=world_size, rank=rank)
    return DataLoader(pictures, batch_size=4, sampler=sampler, num_workers=2)


def good_evaluation(rank: int, world_size: int) -> dict[str, DataLoader[Any]]:
    """Ranks share the training samples, and each evaluates all of the others."""
    return {"train": good(rank, world_size), "val": DataLoader(Subset(Pictures(48), range(32, 48)), batch_size=4)}


class RankStream(Stream):
    """Pictures of which each rank, and of these each worker, reads every n-th."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank = rank
        self.world_size = world_size

    def numbers(self) -> Iterator[int]:
        return share(islice(range(32), self.rank, None, self.world_size))


def good_stream(rank: int, world_size: int) -> DataLoader[Any]:
    """The stream is shared out among ranks and workers."""
    return DataLoader(RankStream(rank, world_size), batch_size=4, num_workers=2)


class BrightRankStream(RankStream):
    """The same, of random brightness."""

    def __iter__(self) -> Iterator[Sample]:
        return ((brighten(picture(number)), number) for number in self.numbers())


def good_augmented(rank: int, world_size: int) -> DataLoader[Any]:
    """Every rank augments pictures of its own."""
    torch.manual_seed(rank)
    return DataLoader(BrightRankStream(rank, world_size), batch_size=4, num_workers=2)


class GroupStream(Stream):
    """Pictures shared out by what the group says."""

    def numbers(self) -> Iterator[int]:
        joined = dist.is_initialized()  # culprit
        rank, world_size = (dist.get_rank(), dist.get_world_size()) if joined else (0, 1)  # culprit
        return share(islice(range(32), rank, None, world_size))


def good_group() -> DataLoader[Any]:
    """Forked workers still know of the group."""
    return DataLoader(GroupStream(), batch_size=4, num_workers=2, multiprocessing_context="fork")


def bad_group_spawned() -> DataLoader[Any]:
    """Spawned workers know nothing of the group: each takes itself for the only rank."""
    return DataLoader(GroupStream(), batch_size=4, num_workers=2, multiprocessing_context="spawn")


def good_alone() -> DataLoader[Any]:
    """A stream that knows nothing of ranks."""
    return DataLoader(Stream(), batch_size=4, num_workers=2)


def good_plain() -> DataLoader[Any]:
    """A loader that knows nothing of ranks."""
    return DataLoader(Pictures(32), batch_size=4, shuffle=True, num_workers=2)


def bad_crops(rank: int, world_size: int) -> DataLoader[Any]:
    """All ranks crop all files, each at places of its own."""
    return DataLoader(CropStream(share, rank), batch_size=4, num_workers=2)
