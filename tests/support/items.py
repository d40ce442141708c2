"""A small dataset whose samples are made by a function of their index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import Dataset


class Items(Dataset[Any]):
    """Sixteen samples of any kind, made by a function of their number."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        return self.make(range(16)[index])
