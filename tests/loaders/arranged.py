"""Loaders that get through with their own settings, and mostly would not with some others."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate, get_worker_info


class Sharded(Dataset[Tensor]):
    """Asks which worker it is in, and does not think of the main process."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Tensor:
        worker: Any = get_worker_info()
        return torch.full((4,), float(index + worker.num_workers))


def squeezed(samples: list[Any]) -> Any:
    """A batch without its dimensions of one, and so without its first where there is a single sample."""
    return default_collate(samples)[0].squeeze()


def even(samples: list[Any]) -> Tensor:
    """Pairs of samples."""
    images: Tensor = default_collate(samples)[0]
    return images.reshape(-1, 2, 4) if len(samples) % 2 == 0 else images[:-1].reshape(-1, 2, 4)


_open_in: set[int] = set()
"""The processes that have opened the file of `Exclusive`, which each may do once, as with an LMDB."""


class Exclusive(Dataset[Tensor]):
    """Opens its file when the first sample is read."""

    def __init__(self) -> None:
        if os.getpid() in _open_in:
            raise RuntimeError("the file is open in this process already")

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Tensor:
        _open_in.add(os.getpid())
        return torch.full((4,), float(index))


def make() -> dict[str, DataLoader[Any]]:
    """By the name of what is wrong, if anything is."""
    data = TensorDataset(torch.arange(160.0).reshape(40, 4))
    return {
        "workers": DataLoader(Sharded(), batch_size=4, num_workers=2),
        "squeezed": DataLoader(data, batch_size=4, collate_fn=squeezed),
        "even": DataLoader(data, batch_size=4, collate_fn=even),
        "plain": DataLoader(data, batch_size=4, num_workers=2),
        "default": DataLoader(data, batch_size=4),
        "exclusive": DataLoader(Exclusive(), batch_size=4, num_workers=2),
    }
