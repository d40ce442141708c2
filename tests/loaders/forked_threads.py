"""Loaders whose workers are forked while a library has threads of its own in native code."""

from __future__ import annotations

import time
from typing import Any

import polars
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset


class Means(Dataset[Tensor]):
    """The mean of each group of a table, one of which the main process has asked for."""

    def __init__(self, *, sleeps: bool) -> None:
        self.sleeps = sleeps
        self.table = polars.DataFrame({"group": [number % 16 for number in range(100_000)]})
        self.mean(0)

    def mean(self, group: int) -> float:
        """Computed in the threads of polars."""
        mean: Any = self.table.filter(polars.col("group") == group).group_by("group").agg(polars.len())["len"].mean()
        return float(mean)

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Tensor:
        if self.sleeps:
            time.sleep(600)
        return torch.tensor(self.mean(index))


def forked() -> DataLoader[Any]:
    """The threads of polars are not there in a fork."""
    return DataLoader(Means(sleeps=False), batch_size=4, num_workers=2)


def asleep() -> DataLoader[Any]:
    """They are not there either, and nothing waits for them."""
    return DataLoader(Means(sleeps=True), batch_size=4, num_workers=2)
