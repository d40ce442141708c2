"""Loaders that are resumed right in the process that saved their state, and wrong in others, or in later epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler

from sample_datasets._parts import Pictures

SIZE = 40


class Resumable(Sampler[int]):
    """Yields indices in an `order` that subclasses choose, and knows how many it has yielded."""

    def __init__(self, size: int = SIZE) -> None:
        self.size = size
        self.epoch = self.position = 0
        self.is_restored = False

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.size

    def order(self) -> list[int]:
        return torch.randperm(self.size, generator=torch.Generator().manual_seed(self.epoch)).tolist()

    def __iter__(self) -> Iterator[int]:
        self.position = self.position if self.is_restored else 0
        self.is_restored = False
        for index in self.order()[self.position :]:
            self.position += 1
            yield index

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.position, self.is_restored = state["epoch"], state["position"], True


class FromGlobalGenerator(Resumable):
    """Its order is drawn as an epoch begins, which no state holds."""

    def order(self) -> list[int]:
        return torch.randperm(self.size).tolist()


ORDERS: dict[int, list[int]] = {}


class OfModule(Resumable):
    """Its order stays in this module, and the state says where."""

    def __init__(self) -> None:
        super().__init__()
        ORDERS[id(self)] = super().order()
        self.key = id(self)

    def order(self) -> list[int]:
        return ORDERS[self.key]

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "key": self.key}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.key = state["key"]


class DrawnOnce(Resumable):
    """Its order is drawn as it is made: training that seeds first has the same again."""

    def __init__(self) -> None:
        super().__init__()
        self.indices = torch.randperm(SIZE).tolist()

    def order(self) -> list[int]:
        return self.indices


class Shards(IterableDataset[int]):
    """A stream of shards by name: `is_sorted`, or in the order of a set."""

    def __init__(self, *, is_sorted: bool) -> None:
        self.is_sorted = is_sorted
        self.done = self.start = 0

    def __iter__(self) -> Iterator[int]:
        self.done, self.start = self.start, 0
        names: Any = {f"shard-{number}" for number in range(8)}
        names = sorted(names) if self.is_sorted else list(names)
        rows = [int(name[6:]) * 5 + row for name in names for row in range(5)]
        for row in rows[self.done :]:
            self.done += 1
            yield row

    def state_dict(self) -> dict[str, Any]:
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.start = state["done"]


class FromStart(Resumable):
    """It takes a place to start from: of one epoch, of all, or as the share of a rank with a `stride`."""

    state_dict: Any = None  # resumed by its argument

    def __init__(self, start: int = 0, *, is_once: bool = False, **share: int) -> None:
        super().__init__()
        self.start, self.is_once = start, is_once
        vars(self).update(share)

    def __iter__(self) -> Iterator[int]:
        start = self.start
        self.start = 0 if self.is_once else start
        return iter(self.order()[start :: vars(self).get("stride")])


class Noisy(Dataset[torch.Tensor]):
    """Many samples, each with noise."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((3,), float(index)) + torch.rand(3)


class OwnLoader:
    """A loader of a class of its own, whose state is the epoch and the batches of it, less those that it `repeats`."""

    def __init__(self, *, repeats: int = 0) -> None:
        self.repeats = repeats
        self.epoch = self.batch = self.start = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[torch.Tensor]:
        order = torch.randperm(SIZE, generator=torch.Generator().manual_seed(self.epoch))
        self.batch, self.start = self.start, 0
        for numbers in order.split(4)[self.batch :]:
            self.batch += 1
            yield numbers

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "batch": self.batch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.start = state["epoch"], state["batch"] - self.repeats


class OfEpoch(OwnLoader):
    """One whose state is the epoch alone, which training saves at its end."""

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch = state["epoch"]


named: dict[str, Callable[[], Any]] = {
    "own": lambda: OwnLoader(),
    "of_epoch": lambda: OfEpoch(),
    "behind": lambda: OwnLoader(repeats=1),
    "global_generator": lambda: DataLoader(Noisy(), batch_size=4, sampler=FromGlobalGenerator(4000)),
    "module": lambda: DataLoader(Pictures(SIZE), batch_size=4, sampler=OfModule()),
    "set": lambda: DataLoader(Shards(is_sorted=False), batch_size=4),
    "start_stays": lambda: DataLoader(Pictures(SIZE), batch_size=4, sampler=FromStart()),
    "drawn_once": lambda: DataLoader(Pictures(SIZE), batch_size=4, sampler=DrawnOnce()),
    "epoch": lambda: DataLoader(Noisy(), batch_size=4, sampler=Resumable(4000)),
    "sorted": lambda: DataLoader(Shards(is_sorted=True), batch_size=4),
    "start_once": lambda: DataLoader(Pictures(SIZE), batch_size=4, sampler=FromStart(is_once=True)),
    "start_of_rank": lambda: DataLoader(Pictures(SIZE), batch_size=4, sampler=FromStart(stride=1)),
}
"""All of them, by name: the first two and the last four are right."""
