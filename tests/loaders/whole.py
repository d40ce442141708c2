"""Loaders with a defect that only a scan of all samples meets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from sample_datasets._parts import share

MANY = 1500
LATE = 1234
"""The sample that is not like the others."""


class Numbers(Dataset[Tensor]):
    """As many numbers as there are samples, and one that is none."""

    def __len__(self) -> int:
        return MANY

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor([float("nan") if index == LATE else float(index)])


class Raising(Numbers):
    """One of them cannot be read."""

    def __getitem__(self, index: int) -> Tensor:
        if index == LATE:
            raise ValueError("a corrupt file")
        return torch.tensor([float(index)])


class Labelled(Dataset[tuple[Tensor, int]]):
    """Two classes, and a label that is none of them."""

    classes = ("cat", "dog")

    def __len__(self) -> int:
        return MANY

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.arange(8.0) + index, 2 if index == LATE else index % 2


class Stream(IterableDataset[Tensor]):
    """Numbers dealt out among workers, which lose some of them."""

    def __init__(self, lost: range) -> None:
        self.lost = lost

    def __iter__(self) -> Iterator[Tensor]:
        alone = torch.utils.data.get_worker_info() is None
        return (torch.tensor([number]) for number in share(range(MANY)) if alone or number not in self.lost)


def shuffled() -> DataLoader[Any]:
    return DataLoader(Numbers(), batch_size=8, shuffle=True, num_workers=2)


def labelled() -> DataLoader[Any]:
    return DataLoader(Labelled(), batch_size=10, shuffle=True)


def raising() -> DataLoader[Any]:
    return DataLoader(Raising(), batch_size=8, shuffle=True, num_workers=2)


def losing() -> DataLoader[Any]:
    return DataLoader(Stream(range(LATE, LATE + 50)), batch_size=8, num_workers=2)


def healthy() -> DataLoader[Any]:
    return DataLoader(Stream(range(0)), batch_size=8, num_workers=2)


several = {"shuffled": shuffled, "labelled": labelled, "raising": raising, "losing": losing}
