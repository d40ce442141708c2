"""Healthy datasets that hostile loaders are made of: they do something hostile in one place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

Act = Callable[[], Any]
LENGTH = 16
AT = 5
"""The index whose sample is hostile."""


class Numbers(Dataset):
    """Vectors with their index as label."""

    def __init__(self, act: Act | None = None, at: int | None = AT) -> None:
        self.act = act
        self.at = at

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> Any:
        number = range(LENGTH)[index]
        if self.act is not None and self.at in (None, number):
            self.act()
        return torch.full((3,), float(number)), number


class Stream(IterableDataset):
    """Numbers, shared between workers; hostile at the end."""

    def __init__(self, act: Act) -> None:
        self.act = act

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        yield from (torch.full((3,), float(number)) for number in range(info.id if info else 0, 8, 2))
        self.act()


class Acting:
    """A collate_fn, worker_init_fn or sampler that does something hostile first."""

    def __init__(self, act: Act) -> None:
        self.act = act

    def __call__(self, given: Any) -> Any:
        self.act()
        return given

    def __len__(self) -> int:
        return LENGTH

    def __iter__(self) -> Iterator[int]:
        yield from range(4)
        self.act()


def of(dataset: Any, **settings: Any) -> DataLoader:
    return DataLoader(dataset, **{"batch_size": 4, "num_workers": 2, **settings})


def in_main(act: Act, at: int | None = AT) -> DataLoader:
    return of(Numbers(act, at), num_workers=0)


def in_worker(act: Act, at: int | None = AT) -> DataLoader:
    return of(Numbers(act, at))


def in_collate(act: Act) -> DataLoader:
    return of(Numbers(), collate_fn=Acting(act))


def in_init(act: Act) -> DataLoader:
    return of(Numbers(), worker_init_fn=Acting(act))


def in_sampler(act: Act) -> DataLoader:
    return of(Numbers(), sampler=Acting(act))


def in_stream(act: Act) -> DataLoader:
    return of(Stream(act))


def healthy() -> DataLoader:
    return of(Numbers())


def after(act: Act) -> DataLoader:
    """A healthy loader of a factory that does something first."""
    act()
    return healthy()


def sleep(*_: object) -> Any:
    time.sleep(1000)
