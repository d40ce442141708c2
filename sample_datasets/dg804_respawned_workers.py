"""DG804: workers whose start takes as long as the rest of the epoch."""

from __future__ import annotations

import time
from collections.abc import Iterator

from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Sampler

from sample_datasets._parts import picture, share
from sample_datasets._storage import Storage

START = 1.0
"""Seconds that it takes to load what a worker needs."""


def _load_tables(worker: int) -> None:
    time.sleep(START)


def bad() -> DataLoader:
    """`worker_init_fn` loads tables, in every epoch."""
    return DataLoader(Storage(220, 0.01), batch_size=5, num_workers=2, worker_init_fn=_load_tables)


class Connecting(Storage):
    """Opens its connection at the first read, in each worker."""

    connected = False

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if not self.connected:
            time.sleep(START)
            self.connected = True
        return super().__getitem__(index)


def bad_connection() -> DataLoader:
    """A connection is opened in every epoch."""
    return DataLoader(Connecting(220, 0.01), batch_size=5, num_workers=2)


def good() -> DataLoader:
    """The same tables, loaded once."""
    return DataLoader(
        Storage(220, 0.01), batch_size=5, num_workers=2, worker_init_fn=_load_tables, persistent_workers=True
    )


def good_long_epoch() -> DataLoader:
    """The same tables, in an epoch of a minute."""
    return DataLoader(Storage(12_000, 0.01), batch_size=5, num_workers=2, worker_init_fn=_load_tables)


def good_quick_start() -> DataLoader:
    """A short epoch, and workers that start at once."""
    return DataLoader(Storage(220, 0.01), batch_size=5, num_workers=2)


class Sorted(Sampler[int]):
    """Sorts the data anew for every epoch, in the main process."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        time.sleep(START)
        return iter(range(self.count))


def good_slow_sampler() -> DataLoader:
    """The start of an epoch takes long, but not because of the workers: keeping them would save nothing."""
    return DataLoader(Storage(220, 0.01), batch_size=5, num_workers=2, sampler=Sorted(220))


class Shards(IterableDataset[Tensor]):
    """A stream whose workers each fetch the list of shards before they begin, at every epoch, persistent or not."""

    def __iter__(self) -> Iterator[Tensor]:
        time.sleep(START)
        for number in share(range(220)):
            time.sleep(0.01)
            yield picture(number)


def good_listing() -> DataLoader:
    """Every epoch begins with a list that has to be new."""
    return DataLoader(Shards(), batch_size=5, num_workers=2)
