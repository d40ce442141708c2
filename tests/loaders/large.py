"""Loaders that are large in one respect: leaves, loaders, entries, bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset


class ManyLeaves(Dataset[dict[str, Any]]):
    """Samples of so many small leaves in nested dicts: tensors, arrays and numbers."""

    def __init__(self, leaves: int) -> None:
        self.leaves = leaves

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        generator = np.random.default_rng(index)
        table = generator.standard_normal((self.leaves, 4), dtype=np.float32)
        sample: dict[str, Any] = {}
        for number in range(self.leaves):
            part = sample.setdefault(f"part{number // 50}", {})
            kinds = (torch.from_numpy(table[number]), table[number], float(table[number, 0]), index + number)
            part[f"leaf{number % 50}"] = kinds[number % 4]
        return sample


class Shifted(Dataset[Tensor]):
    """Rows of noise, different for each number."""

    def __init__(self, number: int) -> None:
        self.rows = torch.randn(64, 8, generator=torch.Generator().manual_seed(number))

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Tensor:
        return self.rows[index]


class Named(Dataset[tuple[Tensor, str]]):
    """Samples that are looked up in a container of names."""

    def __init__(self, names: Any) -> None:
        self.names = names

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> tuple[Tensor, str]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return torch.full((8,), float(index)), str(self.names[index])


class Volumes(Dataset[Tensor]):
    """Tensors of so many bytes, without randomness."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Tensor:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return torch.full((1, 256, 256, self.size // (4 * 256 * 256)), float(index))


def leaves(count: int = 2_000, workers: int = 2) -> DataLoader[dict[str, Any]]:
    """Samples of many leaves."""
    return DataLoader(ManyLeaves(count), batch_size=4, shuffle=True, num_workers=workers)


def loaders(count: int = 500) -> dict[str, DataLoader[Tensor]]:
    """Many small loaders."""
    return {f"part{number}": DataLoader(Shifted(number), batch_size=8) for number in range(count)}


def strings(count: int = 10_000_000, workers: int = 2) -> DataLoader[tuple[Tensor, str]]:
    """A list of many strings."""
    return DataLoader(Named([f"sample {number}" for number in range(count)]), batch_size=32, num_workers=workers)


def paths(count: int = 10_000_000, workers: int = 2) -> DataLoader[tuple[Tensor, str]]:
    """A list of many paths of files that do not exist."""
    names = [f"/nowhere/images/{number // 1_000:05}/{number:08}.jpg" for number in range(count)]
    return DataLoader(Named(names), batch_size=32, num_workers=workers)


def entries(count: int = 10_000_000, workers: int = 2) -> DataLoader[tuple[Tensor, str]]:
    """A dict of many entries."""
    names = {number: f"sample {number}" for number in range(count)}
    return DataLoader(Named(names), batch_size=32, num_workers=workers)


def volumes(size: int = 2 << 30, workers: int = 0) -> DataLoader[Tensor]:
    """One sample of many bytes per batch."""
    return DataLoader(Volumes(size), batch_size=1, num_workers=workers)
