"""Loaders that are made for the main process, for workers, or for no epoch at all."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import Pool, current_process
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, get_worker_info

from sample_datasets._parts import Pictures


class Queue(Pictures):
    """Samples from workers of its own: the loader must not have any."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if get_worker_info() is not None:
            raise RuntimeError("a queue must be used with num_workers=0")
        return super().__getitem__(index)


def queue() -> dict[str, DataLoader[Any]]:
    """Loaders of a queue."""
    rest = Subset(Queue(48), range(32, 48))
    return {"train": DataLoader(Queue(32), batch_size=4, shuffle=True), "val": DataLoader(rest, batch_size=4)}


class Vectors(Dataset[Tensor]):
    """Vectors that only a worker can read."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Tensor:
        if not current_process().daemon:
            raise RuntimeError("only workers have the client")
        return torch.arange(16.0) + range(32)[index]


def vectors() -> DataLoader[Any]:
    """Vectors are no images, and need not be read again to see that."""
    return DataLoader(Vectors(), batch_size=4, num_workers=1)


def nothing() -> DataLoader[Any]:
    """Fewer samples than a batch has, all of which are dropped."""
    return DataLoader(Pictures(3), batch_size=4, drop_last=True, shuffle=True)


def from_pool() -> Iterator[Tensor]:
    """Batches that two processes of its own make."""
    with Pool(2) as pool:
        for number in range(8):
            yield torch.tensor(pool.map(float, range(4 * number, 4 * number + 4)))
