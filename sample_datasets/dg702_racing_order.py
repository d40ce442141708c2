"""DG702 racing-order: what a batch holds depends on which thread is faster."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing.pool import ThreadPool
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from sample_datasets._parts import Pictures, picture

TILES = 8


class Tiled(Pictures):
    """Pictures of several tiles, which threads read."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        index = range(len(self))[index]
        return torch.cat(self.tiles(range(TILES * index, TILES * (index + 1)))), self.labels[index]

    def tiles(self, numbers: range) -> list[Tensor]:
        with ThreadPool(4) as pool:
            return list(pool.imap_unordered(picture, numbers))


def bad() -> DataLoader[Any]:
    """Tiles are put together as they are ready."""
    return DataLoader(Tiled(), batch_size=4, num_workers=2)


class Completed(Tiled):
    """The same with futures."""

    def tiles(self, numbers: range) -> list[Tensor]:
        with ThreadPoolExecutor(4) as executor:
            return [one.result() for one in as_completed([executor.submit(picture, number) for number in numbers])]


def bad_completed() -> DataLoader[Any]:
    """Tiles are put together as their futures complete."""
    return DataLoader(Completed(), batch_size=4, num_workers=2)


class Mapped(Tiled):
    """Tiles in the order of their numbers."""

    def tiles(self, numbers: range) -> list[Tensor]:
        with ThreadPool(4) as pool:
            return list(pool.imap(picture, numbers))


def good() -> DataLoader[Any]:
    """Tiles are taken in the order in which they were requested."""
    return DataLoader(Mapped(), batch_size=4, num_workers=2)


class Sorted(Tiled):
    """Tiles as they are ready, each put into its place."""

    def tiles(self, numbers: range) -> list[Tensor]:
        with ThreadPoolExecutor(4) as executor:
            places = {executor.submit(picture, number): number for number in numbers}
            return [tile for _, tile in sorted((places[one], one.result()) for one in as_completed(places))]


def good_sorted() -> DataLoader[Any]:
    """The order in which threads finish has no effect."""
    return DataLoader(Sorted(), batch_size=4, num_workers=2)


class Summed(Tiled):
    """Whole numbers that are added up, in any order."""

    def tiles(self, numbers: range) -> list[Tensor]:
        with ThreadPool(4) as pool:
            return [torch.stack([(tile * 255).long() for tile in pool.imap_unordered(picture, numbers)]).sum(0)]


def good_sum() -> DataLoader[Any]:
    """A sum of integers is the same in any order."""
    return DataLoader(Summed(), batch_size=4, num_workers=2)
