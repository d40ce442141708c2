"""Data that take their time: what disks, networks and decoders do to a loader, without their noise."""

from __future__ import annotations

import time

from torch import Tensor
from torch.utils.data import Dataset

from sample_datasets._parts import picture


class Storage(Dataset[tuple[Tensor, int]]):
    """Pictures in a storage that answers after `seconds`, however many ask it at once."""

    def __init__(self, count: int, seconds: float) -> None:
        self.count = count
        self.seconds = seconds

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(self.seconds)
        return picture(index), index % 4
