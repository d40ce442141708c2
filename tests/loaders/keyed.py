"""A stream whose samples only their key tells apart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from sample_datasets._parts import share


class Keyed(IterableDataset[dict[str, Any]]):
    """Noise that no seed controls, and a number that shows only through an object."""

    def __init__(self, *, shared: bool) -> None:
        self.shared = shared

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number in share(range(48)) if self.shared else range(48):
            noise = torch.frombuffer(bytearray(os.urandom(8)), dtype=torch.uint8).float()
            yield {"noise": torch.cat([noise, torch.tensor([float(number)])])}


def key(sample: dict[str, Tensor]) -> int:
    """The number of a sample."""
    return int(sample["noise"][-1])


def shared() -> DataLoader[Any]:
    """Each worker reads its share."""
    return DataLoader(Keyed(shared=True), batch_size=4, num_workers=2)


def doubled() -> DataLoader[Any]:
    """Each worker reads everything."""
    return DataLoader(Keyed(shared=False), batch_size=4, num_workers=2)
