"""Small datasets whose samples are made by a function of their index."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from torch.utils.data import Dataset, IterableDataset


class Items(Dataset[Any]):
    """Sixteen samples of any kind, made by a function of their number."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        return self.make(range(16)[index])


class Counting(Dataset[int]):
    def __init__(self, count: int, transform: Callable[[int], int] | None = None) -> None:
        self.count = count
        self.transform = transform

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return self.transform(index) if self.transform else index


class Streaming(IterableDataset[int]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Any:
        return iter(range(self.count))


class Slow:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, value: int) -> int:
        time.sleep(self.seconds)
        return value
