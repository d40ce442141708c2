"""Loaders whose samples take long, or the first of which does; two of them have a bug."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

SECONDS = 0.05
IMPORTING = 1.5
LENGTH = 24


class Crops(Dataset):
    """Random crops of images in memory, with a constant mask."""

    def __init__(self) -> None:
        self.images = torch.rand(60, 3, 24, 24)
        self.generator: torch.Generator | None = None

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        index = range(len(self))[index]
        time.sleep(SECONDS)
        light = 0.5 + torch.rand((), generator=self.generator)
        return self.source(index)[:, :16, :16] * light, torch.ones(16, 16)

    def source(self, index: int) -> torch.Tensor:
        return self.images[index]


class Held(Crops):
    """Draws from a generator that every worker copies."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(7)


class InPlace(Crops):
    """Changes the image that it holds."""

    def source(self, index: int) -> torch.Tensor:
        self.images[index] *= 1.05
        return self.images[index]


class Lazy(Dataset):
    """Imports what it needs at the first sample that a process reads."""

    ready = False

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        if not Lazy.ready:
            time.sleep(IMPORTING)
            Lazy.ready = True
        return torch.full((4,), float(range(LENGTH)[index]))


def _loader(dataset: Crops) -> dict[str, DataLoader[Any]]:
    return {"train": DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2)}


def right() -> dict[str, DataLoader[Any]]:
    return _loader(Crops())


def held() -> dict[str, DataLoader[Any]]:
    return _loader(Held())


def in_place() -> dict[str, DataLoader[Any]]:
    return _loader(InPlace())


def lazy() -> dict[str, DataLoader[Any]]:
    return {"train": DataLoader(Lazy(), batch_size=4, shuffle=True)}


def lazy_single() -> dict[str, DataLoader[Any]]:
    return {"train": DataLoader(Lazy(), shuffle=True)}


def lazy_workers() -> dict[str, DataLoader[Any]]:
    return {"train": DataLoader(Lazy(), batch_size=4, shuffle=True, num_workers=2)}
