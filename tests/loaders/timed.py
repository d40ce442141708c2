"""Loaders whose best setting is known, because all their time is spent waiting."""

from __future__ import annotations

import time
from typing import Any

from torch.utils.data import DataLoader

from sample_datasets._storage import Storage


def slow_storage() -> DataLoader[Any]:
    """One worker for a storage that serves many at once: the more workers, the faster."""
    return DataLoader(Storage(200, 0.005), batch_size=4, num_workers=1)


def two() -> dict[str, DataLoader[Any]]:
    """Two loaders, of which one is to be measured."""
    return {"train": slow_storage(), "val": DataLoader(Hanging(64, 0.001), batch_size=4, num_workers=1)}


class Hanging(Storage):
    """Never answers for the 21st picture."""

    def __getitem__(self, index: int) -> Any:
        if index == 20:
            time.sleep(1000)
        return super().__getitem__(index)


def step(batch: Any) -> None:
    """A training step of 10 ms."""
    assert len(batch) == 2
    time.sleep(0.01)


def nothing() -> DataLoader[Any]:
    """A loader of no batch."""
    return DataLoader(Storage(2, 0.0), batch_size=4, drop_last=True)


class Broken(Storage):
    """Has a picture that cannot be read."""

    def __getitem__(self, index: int) -> Any:
        if index == 3:
            raise ValueError("picture 3 is broken")
        return super().__getitem__(index)


def raising() -> DataLoader[Any]:
    """A loader whose worker raises."""
    return DataLoader(Broken(64, 0.001), batch_size=4, num_workers=1)
