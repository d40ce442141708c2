"""DG603 copied-dataset: a large list or dict of Python objects is copied into every worker.

All numbers are meant for a machine with 1 GB of memory, `[tool.dataguard.contract] memory_gb = 1`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

COUNT = 150_000
WORKERS = 4


def order(number: int) -> int:
    """Where a sample lies, so that neighbours in an epoch are none in memory."""
    return number * 7919 % COUNT


class Records(Dataset):
    """A dataset that is listed as Python objects."""

    def __init__(self, records: Any) -> None:
        self.records = records

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        record = self.records[order(range(COUNT)[index])]
        return torch.full((16,), float(len(record["path"]))), record["label"]


def listed() -> list[dict[str, Any]]:
    return [
        {"path": f"/data/train/{number:09d}.jpg", "label": number % 10, "box": [number, number + 1000, 300.5, 400.5]}
        for number in range(COUNT)
    ]


def bad() -> DataLoader:
    """A list of dicts."""
    return DataLoader(Records(listed()), batch_size=8, num_workers=WORKERS)


def bad_dict() -> DataLoader:
    """A dict of dicts, as annotations are read from JSON."""
    return DataLoader(Records(dict(enumerate(listed()))), batch_size=8, num_workers=WORKERS, persistent_workers=True)


class Columns(Dataset):
    """The same in arrays."""

    def __init__(self) -> None:
        self.paths: NDArray[np.bytes_] = np.array([f"/data/train/{number:09d}.jpg" for number in range(COUNT)], "S32")
        self.labels = np.arange(COUNT) % 10
        self.boxes = np.arange(COUNT * 40, dtype=np.float64).reshape(COUNT, 40)

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        place = order(range(COUNT)[index])
        return torch.full((16,), float(len(self.paths[place]) + self.boxes[place, 0])), int(self.labels[place])


def good() -> DataLoader:
    """Arrays have one reference count for all that they hold."""
    return DataLoader(Columns(), batch_size=8, num_workers=WORKERS)


class Tensors(Columns):
    """The same in tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = torch.from_numpy(self.boxes)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        place = order(range(COUNT)[index])
        return self.numbers[place, :16].float(), int(self.labels[place])


def good_tensors() -> DataLoader:
    """Tensors are no different."""
    return DataLoader(Tensors(), batch_size=8, num_workers=WORKERS)


def good_few_names() -> DataLoader:
    """Two thousand records are copied, and nobody minds."""
    return DataLoader(Records((listed()[:2000] * 75)[:COUNT]), batch_size=8, num_workers=WORKERS)


def good_main() -> DataLoader:
    """Without workers there is nothing to copy to."""
    return DataLoader(Records(listed()), batch_size=8)
