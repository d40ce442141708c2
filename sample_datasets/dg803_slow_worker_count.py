"""DG803: worker counts for a training step of 20 ms. It is declared in the settings: `contract.step_ms = 20`."""

from __future__ import annotations

import fcntl
import tempfile
from pathlib import Path

from torch import Tensor
from torch.utils.data import DataLoader

from sample_datasets._storage import Storage

STEP_MS = 20


def bad() -> DataLoader:
    """One worker waits for a storage that would serve many at once."""
    return DataLoader(Storage(256, 0.005), batch_size=8, num_workers=1)


def bad_in_the_loop() -> DataLoader:
    """No workers, with the same storage."""
    return DataLoader(Storage(256, 0.005), batch_size=8)


def good() -> DataLoader:
    """One worker keeps up with the step: no other number could help."""
    return DataLoader(Storage(256, 0.0001), batch_size=2, num_workers=1)


class OneAtATime(Storage):
    """A storage that answers one reader after the other, such as a device behind a lock."""

    def __init__(self, count: int, seconds: float) -> None:
        super().__init__(count, seconds)
        self.lock = Path(tempfile.gettempdir()) / "dataguard-sample-one-at-a-time"

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        with self.lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return super().__getitem__(index)


def good_one_at_a_time() -> DataLoader:
    """More workers only wait for each other."""
    return DataLoader(OneAtATime(256, 0.005), batch_size=8, num_workers=1)


def good_enough_workers() -> DataLoader:
    """Slow storage, and as many workers as it takes."""
    return DataLoader(Storage(512, 0.002), batch_size=4, num_workers=4)
