"""Datasets and training loops for tests of the guard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from dataguard.training.guard import guard


class Items(Dataset):
    """Samples that a function makes from their index."""

    def __init__(self, make: Callable[[int], Any], count: int = 40, **attributes: Any) -> None:
        self.make = make
        self.count = count
        for name, value in attributes.items():
            setattr(self, name, value)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


def pair(index: int) -> tuple[Tensor, int]:
    """An input and its class, of four."""
    return torch.full((3,), float(index)), index % 4


def train(loader: Iterable[Any], epochs: int = 1) -> None:
    """A training loop without a model."""
    for _ in range(epochs):
        for _ in loader:
            pass


def codes(loader: Any, epochs: int = 1, **options: Any) -> set[str]:
    """The checks that a loader violates while it is read so many times."""
    train(guard(loader, on_violation="record", **options), epochs)
    report = guard.report(loader)
    assert not [result.reason for result in report.results if result.status == "broken"]
    return {result.code for result in report.failed}
