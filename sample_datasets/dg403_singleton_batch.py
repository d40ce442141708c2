"""DG403 singleton-batch: the last batch of a training epoch holds one sample, on which BatchNorm raises."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    TensorDataset,
)

from sample_datasets._parts import Pictures, picture, share


def bad() -> DataLoader[Any]:
    """Seventeen samples in batches of eight leave one over."""
    return DataLoader(Pictures(count=17), batch_size=8, shuffle=True, num_workers=2)  # culprit


class ShuffledBatches(Sampler[list[int]]):
    """Batches of eight indices in random order, and one of what is left over."""

    def __init__(self, sampler: Sampler[int]) -> None:
        self.sampler = sampler

    def __len__(self) -> int:
        return -(-len(list(self.sampler)) // 8)

    def __iter__(self) -> Iterator[list[int]]:
        indices = list(self.sampler)
        return (indices[start : start + 8] for start in range(0, len(indices), 8))  # culprit


def bad_batch_sampler() -> DataLoader[Any]:
    """The batch sampler hands out the one that is left over."""
    pictures = Pictures(count=17)
    return DataLoader(pictures, batch_sampler=ShuffledBatches(RandomSampler(pictures)), num_workers=2)


def bad_ranks(rank: int, world_size: int) -> dict[str, DataLoader[Any]]:
    """One process reads thirty-four samples; each of two ranks reads seventeen, one more than two batches."""
    pictures = Pictures(count=34)
    sampler: Any = DistributedSampler(pictures, num_replicas=world_size, rank=rank)
    return {"train": DataLoader(pictures, batch_size=8, sampler=sampler, num_workers=2)}  # culprit


class PictureStream(IterableDataset[tuple[Tensor, int]]):
    """Pictures, of which each worker reads every n-th."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return ((picture(number), number) for number in share(range(self.count)))


def bad_stream() -> dict[str, DataLoader[Any]]:
    """Each of two workers has nine samples, and batches of eight."""
    return {"train": DataLoader(PictureStream(18), batch_size=8, num_workers=2)}  # culprit


def good_stream() -> dict[str, DataLoader[Any]]:
    """All together leave one over, and no worker does."""
    return {"train": DataLoader(PictureStream(13), batch_size=4, num_workers=2)}


def good_ranks(rank: int, world_size: int) -> dict[str, DataLoader[Any]]:
    """Each of two ranks drops the one that is left over."""
    pictures = Pictures(count=34)
    sampler: Any = DistributedSampler(pictures, num_replicas=world_size, rank=rank)
    return {"train": DataLoader(pictures, batch_size=8, sampler=sampler, drop_last=True, num_workers=2)}


def good() -> DataLoader[Any]:
    """The one that is left over is dropped, another one in each epoch."""
    return DataLoader(Pictures(count=17), batch_size=8, shuffle=True, drop_last=True, num_workers=2)


def good_batch_sampler() -> DataLoader[Any]:
    """The batch sampler drops the one that is left over."""
    pictures = Pictures(count=17)
    batches = BatchSampler(RandomSampler(pictures), batch_size=8, drop_last=True)
    return DataLoader(pictures, batch_sampler=batches, num_workers=2)


def good_eval() -> DataLoader[Any]:
    """One sample is left over, but in evaluation every sample counts and BatchNorm does not mind."""
    return DataLoader(Pictures(count=17), batch_size=8, num_workers=2)


def good_even() -> DataLoader[Any]:
    """Sixteen samples in batches of eight leave none over."""
    return DataLoader(Pictures(count=16), batch_size=8, shuffle=True, num_workers=2)


def good_two_left() -> DataLoader[Any]:
    """Eighteen samples leave two over, which is enough for BatchNorm."""
    return DataLoader(Pictures(count=18), batch_size=8, shuffle=True, num_workers=2)


def good_batch_of_one() -> DataLoader[Any]:
    """Each batch holds one sample, as the user asked for."""
    return DataLoader(Pictures(count=17), batch_size=1, shuffle=True, num_workers=2)


class Buckets(Sampler[list[int]]):
    """Batches of pictures that are similar in some way: every third one is smaller, and none holds one."""

    batch_size = 4

    def __init__(self, indices: Sequence[int], *, sizes: tuple[int, ...] = (4, 3)) -> None:
        self.indices = indices
        self.sizes = sizes

    def __iter__(self) -> Iterator[list[int]]:
        rest = list(self.indices)
        for size in itertools.cycle(self.sizes):
            if not rest:
                return
            taken = size if len(rest) - size != 1 else size - 1
            yield rest[:taken]
            rest = rest[taken:]


def good_buckets() -> dict[str, DataLoader[Any]]:
    """Seventeen samples leave one over in batches of four, but buckets divide them otherwise."""
    return {"train": DataLoader(Pictures(count=17), batch_sampler=Buckets(range(17)), num_workers=2)}


def good_rank_buckets(rank: int, world_size: int) -> dict[str, DataLoader[Any]]:
    """The same on each rank."""
    batches = Buckets(range(rank, 34, world_size))
    return {"train": DataLoader(Pictures(count=34), batch_sampler=batches, num_workers=2)}


def bad_rank_batches(rank: int, world_size: int) -> dict[str, DataLoader[Any]]:
    """Each rank cuts its share into even batches, and what is left over is one."""
    pictures = Pictures(count=34)
    sampler: Any = DistributedSampler(pictures, num_replicas=world_size, rank=rank)
    return {"train": DataLoader(pictures, batch_sampler=ShuffledBatches(sampler), num_workers=2)}


def good_tokens() -> dict[str, DataLoader[Any]]:
    """Seventeen rows of tokens: models of text normalize each token by itself."""
    rows = TensorDataset(torch.arange(17 * 12).reshape(17, 12) % 50, torch.arange(17 * 12).reshape(17, 12) % 49)
    return {"train": DataLoader(rows, batch_size=8, shuffle=True)}
