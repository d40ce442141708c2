"""DG108 cloned-rank-rng: ranks draw the same random numbers.

A factory that takes `rank` and `world_size` is called in real processes of one group, one for each rank.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, Subset, get_worker_info

from sample_datasets._parts import Brighten, EpochSeededPictures, Pictures, brighten, picture

Sample = tuple[Tensor, int]


def loader(dataset: Any, rank: int, world_size: int, **settings: Any) -> DataLoader[Any]:
    """A loader of this rank's share, read by two workers."""
    sampler: DistributedSampler[Sample] = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=False)
    return DataLoader(dataset, sampler=sampler, **{"batch_size": 4, "num_workers": 2, **settings})


def bad(rank: int, world_size: int) -> DataLoader[Any]:
    """Every rank seeds torch with one constant, from which the seeds of its workers follow."""
    torch.manual_seed(42)  # culprit
    return loader(Pictures(transform=brighten), rank, world_size)


def bad_seed(rank: int, world_size: int, seed: int = 0) -> DataLoader[Any]:
    """The seed of a run is the same on every rank."""
    torch.manual_seed(seed)  # culprit
    return loader(Pictures(transform=brighten), rank, world_size)


def bad_generator(rank: int, world_size: int) -> DataLoader[Any]:
    """The loader's generator, from which the seeds of workers follow, is the same on every rank."""
    return loader(Pictures(transform=brighten), rank, world_size, generator=torch.Generator().manual_seed(7))  # culprit


def seed_by_worker(worker: int) -> None:
    """Seed numpy from the number of the worker, and from nothing that tells ranks apart."""
    np.random.seed(1234 + worker)  # culprit


def brighten_by_numpy(image: Tensor) -> Tensor:
    """Scale by a random factor from numpy's global generator."""
    return image * float(np.random.uniform(0.5, 1.0))


def bad_worker_init(rank: int, world_size: int) -> DataLoader[Any]:
    """Workers of one number are seeded alike on every rank."""
    pictures = Pictures(transform=brighten_by_numpy)
    return loader(pictures, rank, world_size, worker_init_fn=seed_by_worker, persistent_workers=True)


def seed_by_sum(worker: int) -> None:
    """Seed numpy from rank plus worker: worker 1 of rank 0 is seeded like worker 0 of rank 1."""
    np.random.seed(1234 + dist.get_rank() + worker if dist.is_initialized() else 1234 + worker)  # culprit


def bad_overlap(rank: int, world_size: int) -> DataLoader[Any]:
    """The seeds of two ranks overlap."""
    pictures = Pictures(transform=brighten_by_numpy)
    return loader(pictures, rank, world_size, worker_init_fn=seed_by_sum, persistent_workers=True)


def bad_held(rank: int, world_size: int) -> DataLoader[Any]:
    """A transform holds a generator that is seeded alike on every rank, and reads in the main process."""
    return loader(Pictures(transform=Brighten(np.random.default_rng(0))), rank, world_size, num_workers=0)  # culprit


def bad_environment() -> DataLoader[Any]:
    """A script that reads its rank from the environment, and seeds one constant."""
    torch.manual_seed(42)  # culprit
    return loader(Pictures(transform=brighten), int(os.environ.get("RANK", "0")), int(os.getenv("WORLD_SIZE", "1")))


def bad_group() -> DataLoader[Any]:
    """A script that asks the group for its rank, and seeds one constant."""
    torch.manual_seed(42)  # culprit
    joined = dist.is_available() and dist.is_initialized()
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if joined else (0, 1)
    return loader(Pictures(transform=brighten), rank, world_size)


def good_environment() -> DataLoader[Any]:
    """A script that reads its rank from the environment, and seeds by it."""
    rank = int(os.environ.get("RANK", "0"))
    torch.manual_seed(42 + 1000 * rank)
    return loader(Pictures(transform=brighten), rank, int(os.environ.get("WORLD_SIZE", "1")))


def good_one_process() -> DataLoader[Any]:
    """A script that knows nothing of ranks, and seeds a constant."""
    torch.manual_seed(42)
    return DataLoader(Pictures(transform=brighten), batch_size=4, num_workers=2)


def good(rank: int, world_size: int) -> DataLoader[Any]:
    """Every rank seeds torch with a number of its own."""
    torch.manual_seed(42 + 1000 * rank)
    return loader(Pictures(transform=brighten), rank, world_size)


def good_unseeded(rank: int, world_size: int) -> DataLoader[Any]:
    """Processes that seed nothing draw each its own numbers; the order is what ranks agree on."""
    pictures = Pictures(transform=brighten)
    sampler: DistributedSampler[Sample] = DistributedSampler(pictures, num_replicas=world_size, rank=rank, seed=3)
    return DataLoader(pictures, batch_size=4, sampler=sampler, num_workers=2)


def good_main_process(rank: int, world_size: int) -> DataLoader[Any]:
    """The same without workers."""
    return loader(Pictures(transform=brighten), rank, world_size, num_workers=0)


def good_plain(rank: int, world_size: int) -> DataLoader[Any]:
    """One seed for all ranks, and nothing random about the samples."""
    torch.manual_seed(42)
    return loader(Pictures(), rank, world_size)


def good_by_index(rank: int, world_size: int) -> DataLoader[Any]:
    """One seed for all ranks, and random numbers that follow from epoch and index: an index is read by one rank."""
    torch.manual_seed(42)
    return loader(EpochSeededPictures(), rank, world_size)


def seed_by_rank(worker: int) -> None:
    """Seed numpy from what tells ranks, workers and epochs apart."""
    rank = dist.get_rank() if dist.is_initialized() else 0
    info = get_worker_info()
    assert info is not None
    np.random.seed((info.seed + 1_000_003 * rank) % 2**32)


def good_worker_init(rank: int, world_size: int) -> DataLoader[Any]:
    """One seed for all ranks, and workers that ask the group for their rank."""
    torch.manual_seed(42)
    return loader(Pictures(transform=brighten_by_numpy), rank, world_size, worker_init_fn=seed_by_rank)


def good_own_group(rank: int, world_size: int) -> DataLoader[Any]:
    """A factory that joins the group by itself, as a training script does."""
    if world_size > 1:
        dist.init_process_group("gloo", rank=rank, world_size=world_size)
        rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(42 + 1000 * rank)
    return loader(Pictures(transform=brighten), rank, world_size)


class Shard(Pictures):
    """The pictures of one rank only."""

    def __init__(self, rank: int) -> None:
        super().__init__(transform=brighten)
        self.images = torch.stack([picture(100 * rank + number) for number in range(16)])


def good_shards(rank: int, world_size: int) -> DataLoader[Any]:
    """Every rank holds pictures of its own."""
    return DataLoader(Subset(Shard(rank), range(12)), batch_size=4, shuffle=True, num_workers=2)
