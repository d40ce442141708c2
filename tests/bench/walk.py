"""Loaders whose dataset holds a lot, or does not: what looking for generators in it costs a scan.

DATAGUARD_BENCH_DATA names what is made when this module is imported, once in a scan; DATAGUARD_BENCH_HELD whether the
dataset holds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

COUNT = 1_000_000

DATA: dict[str, Callable[[], Any]] = {
    "a list of 1,000,000 strings": lambda: [str(number) for number in range(COUNT)],
    "a dict of 1,000,000 strings": lambda: {number: str(number) for number in range(COUNT)},
    "a set of 1,000,000 strings": lambda: {str(number) for number in range(COUNT)},
    "a list of 1,000,000 tuples": lambda: [(number, str(number)) for number in range(COUNT)],
    "an array of 1 GB": lambda: np.ones(COUNT * 125),
}


class Holding(Dataset[torch.Tensor]):
    """Small samples beside whatever else is held."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((8,), float(index)) * torch.rand(())


MADE = DATA[os.environ["DATAGUARD_BENCH_DATA"]]() if "DATAGUARD_BENCH_DATA" in os.environ else None


def make_loader() -> DataLoader[torch.Tensor]:
    """A training loader over the dataset."""
    held = MADE if os.environ.get("DATAGUARD_BENCH_HELD") else None
    return DataLoader(Holding(held), batch_size=8, shuffle=True, num_workers=2)
