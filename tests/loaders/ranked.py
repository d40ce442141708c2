"""Factories that work on rank 0 and fail on any other, and some that ask for their rank."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, Sampler, Subset

from sample_datasets._parts import Pictures, brighten


def _loader() -> DataLoader[Any]:
    return DataLoader(Pictures(transform=brighten), batch_size=4, num_workers=2)


def raises(rank: int) -> DataLoader[Any]:
    if rank:
        raise ValueError("no data for this rank")
    return _loader()


def dies(rank: int) -> DataLoader[Any]:
    if rank:
        os.kill(os.getpid(), signal.SIGKILL)
    return _loader()


def hangs(rank: int) -> DataLoader[Any]:
    if rank:
        time.sleep(600)
    return _loader()


class Logging(Pictures):
    """Asks for its rank only to log."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if os.environ.get("RANK", "0") == "0":
            logging.getLogger(__name__).debug("index %d", index)
        return super().__getitem__(index)


class Divided(Sampler[int]):
    """Every n-th index for each of n ranks, or, of these, those up to `end`."""

    def __init__(self, end: int | None = None) -> None:
        self.end = end

    def __iter__(self) -> Iterator[int]:
        rank, ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        return iter(range(32)[rank::ranks][: self.end if ranks > 1 else None])


def divides() -> DataLoader[Any]:
    return DataLoader(Pictures(32), batch_size=4, sampler=Divided())


def divides_some() -> DataLoader[Any]:
    return DataLoader(Pictures(32), batch_size=4, sampler=Divided(end=8))


def divides_if_in_a_group() -> DataLoader[Any]:
    pictures = Pictures(32)
    sampler: DistributedSampler[Any] | None = DistributedSampler(pictures) if dist.is_initialized() else None
    return DataLoader(pictures, batch_size=4, shuffle=sampler is None, sampler=sampler)


def divides_rows() -> DataLoader[Any]:
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    return DataLoader(Subset(Pictures(32), range(rank, 32, ranks)), batch_size=4, shuffle=True)


def logs() -> DataLoader[Any]:
    return DataLoader(Logging(32), batch_size=4, shuffle=True)


def logs_and_draws_some() -> DataLoader[Any]:
    pictures = Logging(32)
    return DataLoader(pictures, batch_size=4, sampler=RandomSampler(pictures, num_samples=16))


def fixed() -> DataLoader[Any]:
    pictures = Pictures(32)
    return DataLoader(pictures, batch_size=4, sampler=DistributedSampler(pictures, num_replicas=1, rank=0))


RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
RANDOM = np.random.default_rng()


class Noisy(Pictures):
    """Draws from a generator of the module, which the system seeds."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return super().__getitem__(index)[0] + torch.from_numpy(RANDOM.random(1)), index


def divides_at_import() -> DataLoader[Any]:
    return DataLoader(Subset(Pictures(32), range(RANK, 32, RANKS)), batch_size=4)


def noisy(rank: int) -> DataLoader[Any]:
    return DataLoader(Noisy(32), batch_size=4)


class Drawn(Pictures):
    """Pictures with noise from the global generator of numpy."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image * np.random.random(), label


def seed_by_worker(worker: int) -> None:
    """As if there were one rank."""
    np.random.seed(worker)


def seeded(rank: int) -> DataLoader[Any]:
    return DataLoader(Drawn(32), batch_size=4, num_workers=2, worker_init_fn=seed_by_worker)


if __name__ == "__main__":
    for _ in (seeded if sys.argv[1:] else noisy)(0):
        pass
