"""Datasets that lie about their length or their class."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from tests.hostile.declared import named, passes
from tests.hostile.healthy import LENGTH, Numbers, of


class Sized(Numbers):
    """Says this of its length, or raises it."""

    def __init__(self, length: Any) -> None:
        super().__init__()
        self.length = length

    def __len__(self) -> Any:
        if isinstance(self.length, BaseException):
            raise self.length
        return self.length

    def __getitem__(self, index: int) -> Any:
        if index >= LENGTH:
            raise IndexError(index)
        return super().__getitem__(index)


@named("DG301", select="DG0,DG301", slow=True)
def huge() -> DataLoader:
    return of(Sized(2**62))


@named("DG001", select="DG0")
def huge_shuffled() -> DataLoader:
    return of(Sized(2**62), shuffle=True)


@named("DG001", "cannot fit 'int' into an index-sized integer")
def beyond_the_machine() -> DataLoader:
    return of(Sized(2**64))


@named("DG001", "__len__() should return >= 0")
def negative() -> DataLoader:
    return of(Sized(-1))


@named("DG001", "'float' object cannot be interpreted as an integer")
def fractional() -> DataLoader:
    return of(Sized(1.5))


@named("DG001", "no length today")
def raising() -> DataLoader:
    return of(Sized(ValueError("no length today")))


@named("DG001", "raised SystemExit: 3")
def leaving() -> DataLoader:
    return of(Sized(SystemExit(3)))


class Changing(Numbers):
    """Is shorter each time that one asks."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths = itertools.chain(range(LENGTH, 8, -1), itertools.cycle([9, 3, 12]))

    def __len__(self) -> int:
        return next(self.lengths)


@passes()
def changing() -> DataLoader:
    return of(Changing())


class Pretender(Numbers):
    """Says that its class is another one."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return IterableDataset


@passes()
def lying_class() -> DataLoader:
    return of(Pretender(), num_workers=0)


class Refusing:
    """Its class cannot be asked for."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> Any:
        return torch.full((3,), float(range(LENGTH)[index]))


@named("DG001", "no class")
def class_that_cannot_be_asked_for() -> DataLoader:
    return of(Refusing())


class Agreeing(Numbers):
    """Has every attribute that one asks for."""

    def __getattr__(self, name: str) -> Any:
        return Agreeable()


class Agreeable:
    """Answers everything with itself."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: object, **__: object) -> Any:
        return self

    def __iter__(self) -> Any:
        return itertools.repeat(self)

    def __getitem__(self, key: object) -> Any:
        return self


@named("DG001", "default_collate: batch must contain tensors")
def dataset_with_every_attribute() -> DataLoader:
    return of(Agreeing(), num_workers=0)


class Furious(Dataset):
    """Raises for each attribute that it does not have, and not what Python expects."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else KeyError(name)

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> Any:
        return torch.full((3,), float(range(LENGTH)[index]))


@passes()
def dataset_that_raises_for_attributes() -> DataLoader:
    return of(Furious(), num_workers=0)


class Loader(DataLoader):
    """A loader whose own answers are wrong."""

    def __len__(self) -> int:
        raise RuntimeError("no number of batches")

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None  # type: ignore[assignment]


@passes()
def loader_that_cannot_be_compared() -> DataLoader:
    return Loader(Numbers(), batch_size=4, num_workers=2)
