"""Loaders without a state, whose position is saved and loaded by functions of the training."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader

from sample_datasets._parts import Pictures


def shuffled() -> DataLoader[Any]:
    """Pictures in an order from the global generator."""
    return DataLoader(Pictures(40), batch_size=4, shuffle=True)


def save(loader: DataLoader[Any], epoch: int, batches: int) -> dict[str, Any]:
    """The position; orders are those of the epochs."""
    return {"epoch": epoch, "batches": batches}


def load(loader: DataLoader[Any], state: dict[str, Any], *, late: int = 0) -> DataLoader[Any] | None:
    """A loader of the batches that are left; a new epoch is that of the loader."""
    batches: list[list[int]] = []
    for _ in range(state["epoch"] + 1):  # as the orders were drawn before the restart
        torch.empty((), dtype=torch.int64).random_()
        batches = list(BatchSampler(loader.sampler, 4, drop_last=False))
    rest = list(islice(batches, state["batches"] + late, None))
    return DataLoader(loader.dataset, batch_sampler=rest) if rest else None


def load_late(loader: DataLoader[Any], state: dict[str, Any]) -> DataLoader[Any] | None:
    """One that counts a batch too many."""
    return load(loader, state, late=1)


class Windows:
    """Windows of a text, each batch with the place where the next one begins."""

    def __init__(self, start: int = 0) -> None:
        self.start = start

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        for place in range(self.start, 400, 40):
            yield torch.arange(place, place + 40).reshape(4, 10), place + 40


def windows() -> Windows:
    """No loader of torch's."""
    return Windows()


def save_next(loader: Windows, batch: tuple[torch.Tensor, int]) -> int:
    """What the last batch says."""
    return batch[1]


def load_next(loader: Windows, place: int) -> Windows:
    """Another one, which begins there."""
    return Windows(place)
