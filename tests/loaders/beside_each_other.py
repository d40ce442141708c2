"""Loaders that read no file, in a module that holds one open: all processes of a scan share its offset."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

FILE = Path(__file__).open("rb", buffering=0)  # noqa: SIM115 - open as long as the module is imported


class Numbers(Dataset[Tensor]):
    """Numbers that take their time."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(0.005)
        return torch.tensor(float(index))


def numbers() -> DataLoader[Any]:
    """Two workers, which leave the file alone."""
    return DataLoader(Numbers(), batch_size=4, num_workers=2)


six = dict.fromkeys("abcdef", numbers)
