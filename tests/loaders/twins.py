"""Train and validation loaders of one dataset class whose samples are slow: one may hold what the other lacks."""

from __future__ import annotations

import threading
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

SECONDS = 0.1


class Volumes(Dataset):
    """Volumes in memory; `held` is an attribute of any kind."""

    def __init__(self, count: int, *, train: bool, held: Any = None) -> None:
        self.volumes = torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(count))
        self.names = [f"{'train' if train else 'val'}{number}" for number in range(count)]
        self.train = train
        self.held = held

    def __len__(self) -> int:
        return len(self.volumes)

    def __getitem__(self, index: int) -> torch.Tensor:
        index = range(len(self))[index]
        time.sleep(SECONDS)
        return self.volumes[index] + (torch.rand(1) if self.train else 0)


def pair(held: Any = None) -> dict[str, DataLoader[Any]]:
    return {
        "train": DataLoader(Volumes(20, train=True), batch_size=2, num_workers=2, shuffle=True),
        "val": DataLoader(Volumes(16, train=False, held=held), batch_size=1, num_workers=1),
    }


def same() -> dict[str, DataLoader[Any]]:
    """Their values differ, and how many workers they have."""
    return pair()


def locked() -> dict[str, DataLoader[Any]]:
    """Only the one for validation holds a lock, which cannot be pickled."""
    return pair(threading.Lock())


class Looked(Volumes):
    """Finds its samples by the index in a dict, in which no tensor is found."""

    def __init__(self, count: int, *, train: bool) -> None:
        super().__init__(count, train=train)
        self.by_number: dict[int, torch.Tensor] = dict(enumerate(self.volumes))

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SECONDS)
        return self.by_number[index] + (torch.rand(1) if self.train else 0)


def broken() -> dict[str, DataLoader[Any]]:
    """Both have the same bug of their class."""
    return {
        "train": DataLoader(Looked(20, train=True), batch_size=2, num_workers=2, shuffle=True),
        "val": DataLoader(Looked(16, train=False), num_workers=2),
    }


class Noisy(Volumes):
    """Adds noise of a generator of its own, if it has one; workers start with copies of that."""

    def __init__(self, rng: torch.Generator | None = None) -> None:
        super().__init__(16, train=False)
        self.rng = rng

    def __getitem__(self, index: int) -> torch.Tensor:
        sample = super().__getitem__(index)
        return sample if self.rng is None else sample + torch.rand(1, generator=self.rng)


def evaluation() -> dict[str, DataLoader[Any]]:
    """Slow evaluation: one whose workers draw the same noise, and one that draws none."""
    return {
        "val": DataLoader(Noisy(torch.Generator().manual_seed(3)), batch_size=2, num_workers=2),
        "test": DataLoader(Noisy(), batch_size=2, num_workers=2),
    }
