"""Loaders that are made for the main process, and what no worker can do for them."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, get_worker_info

from sample_datasets._parts import Pictures


class Queue(Pictures):
    """Samples from workers of its own: the loader must not have any."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if get_worker_info() is not None:
            raise RuntimeError("a queue must be used with num_workers=0")
        return super().__getitem__(index)


def queue() -> dict[str, DataLoader[Any]]:
    """Loaders of a queue."""
    return {"train": DataLoader(Queue(32), batch_size=4, shuffle=True), "val": DataLoader(Queue(12), batch_size=4)}


def nothing() -> DataLoader[Any]:
    """Fewer samples than a batch has, all of which are dropped."""
    return DataLoader(Pictures(3), batch_size=4, drop_last=True, shuffle=True)
