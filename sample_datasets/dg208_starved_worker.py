"""DG208 starved-worker: some workers of a stream get no samples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from sample_datasets._parts import picture, share

Sample = tuple[Tensor, int]


class Shards(IterableDataset[Sample]):
    """Files of sixteen pictures each, which are dealt out among ranks and workers as a whole."""

    def __init__(self, shards: int, rank: int = 0, world_size: int = 1) -> None:
        self.shards = range(shards)[rank::world_size]

    def __iter__(self) -> Iterator[Sample]:
        for shard in share(self.shards):
            for number in range(16 * shard, 16 * shard + 16):
                yield picture(number), number


def bad() -> DataLoader[Any]:
    """Two files for three workers."""
    return DataLoader(Shards(2), batch_size=4, num_workers=3)


class EndlessShard(Shards):
    """One file without end."""

    def __iter__(self) -> Iterator[Sample]:
        for _ in share(range(1)):
            yield from ((picture(number), number) for number in count())


def bad_endless() -> DataLoader[Any]:
    """One endless file for two workers."""
    return DataLoader(EndlessShard(1), batch_size=4, num_workers=2)


def bad_ranks(rank: int, world_size: int) -> DataLoader[Any]:
    """Two files for two ranks of two workers."""
    return DataLoader(Shards(2, rank, world_size), batch_size=4, num_workers=2)


def good() -> DataLoader[Any]:
    """Four files for three workers."""
    return DataLoader(Shards(4), batch_size=4, num_workers=3)


def good_ranks(rank: int, world_size: int) -> DataLoader[Any]:
    """Four files for two ranks of two workers."""
    return DataLoader(Shards(4, rank, world_size), batch_size=4, num_workers=2)


class Few(IterableDataset[Sample]):
    """Three pictures."""

    def __iter__(self) -> Iterator[Sample]:
        return ((picture(number), number) for number in share(range(3)))


def good_few() -> DataLoader[Any]:
    """Where there are fewer samples than workers, one of them has none."""
    return DataLoader(Few(), batch_size=1, num_workers=4)


def good_alone() -> DataLoader[Any]:
    """One file, read in one process."""
    return DataLoader(Shards(1), batch_size=4)
