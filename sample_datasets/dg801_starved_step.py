"""DG801: loaders for a training step of 40 ms. It is declared in the settings: `contract.step_ms = 40`."""

from __future__ import annotations

import time

from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import default_collate

from sample_datasets._storage import Storage

STEP_MS = 40


def bad() -> DataLoader:
    """One worker needs 80 ms for a batch from a slow storage."""
    return DataLoader(Storage(256, 0.01), batch_size=8, num_workers=1)


def bad_in_the_loop() -> DataLoader:
    """Without workers, the step stands still while its batch is read."""
    return DataLoader(Storage(256, 0.004), batch_size=8)


def _tokenized(samples: list[tuple[Tensor, int]]) -> list[Tensor]:
    time.sleep(0.09)
    images, labels = default_collate(samples)
    return [images, labels]


def bad_collate() -> DataLoader:
    """Samples are quick to read, and all the work is done for the batch as a whole."""
    return DataLoader(Storage(256, 0.0), batch_size=8, num_workers=1, collate_fn=_tokenized)


def good() -> DataLoader:
    """A batch is there long before the step is over."""
    return DataLoader(Storage(256, 0.0005), batch_size=8, num_workers=1)


def good_slow_storage() -> DataLoader:
    """A batch takes 80 ms, but six workers make one each in that time."""
    return DataLoader(Storage(256, 0.01), batch_size=8, num_workers=6)


class Warming(Storage):
    """The first read of a worker opens a connection, which takes a while."""

    opened = False

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if not self.opened:
            time.sleep(0.3)
            self.opened = True
        return super().__getitem__(index)


def good_slow_start() -> DataLoader:
    """The first batches are late, and all others are in time."""
    return DataLoader(Warming(512, 0.0), batch_size=8, num_workers=2)


class Uneven(Storage):
    """One sample in 64 is a large file."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index % 64 == 63:
            time.sleep(0.08)
        return super().__getitem__(index)


def good_uneven() -> DataLoader:
    """A batch takes twice as long as a step now and then: the ones made ahead last until it is there."""
    return DataLoader(Uneven(512, 0.0), batch_size=8, num_workers=2)


class Cached(Storage):
    """Every sample is slow once, and kept by the worker that read it."""

    def __init__(self, count: int, seconds: float) -> None:
        super().__init__(count, seconds)
        self.kept: dict[int, tuple[Tensor, int]] = {}

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index not in self.kept:
            self.kept[index] = super().__getitem__(index)
        return self.kept[index]


def good_cached() -> DataLoader:
    """Few samples, which are slow at their first read only."""
    return DataLoader(Cached(16, 0.002), batch_size=8, num_workers=1, persistent_workers=True)
