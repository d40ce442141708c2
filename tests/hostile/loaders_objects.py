"""Samples that are hard to hold, to walk through, to compare and to show."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from tests.hostile.declared import named, passes
from tests.hostile.healthy import Numbers, of

MB = 1 << 20


def first(samples: list) -> Any:
    return samples[0]


class Made(Numbers):
    """Samples that a function makes of their index."""

    def __init__(self, make: Any, length: int = 8) -> None:
        super().__init__()
        self.make = make
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.make(range(self.length)[index])


def made(make: Any, length: int = 8, **settings: Any) -> DataLoader:
    return of(Made(make, length), **{"num_workers": 0, "batch_size": 2, "collate_fn": first, **settings})


@passes(slow=True)
def samples_of_500_megabytes() -> DataLoader:
    return made(lambda index: torch.zeros(500 * MB, dtype=torch.uint8), 2, batch_size=1)


def deep(index: int) -> Any:
    nested: Any = [index]
    for _ in range(5000):
        nested = [nested]
    return nested


@passes()
def samples_nested_deeply() -> DataLoader:
    return made(deep)


def own(index: int) -> Any:
    sample: dict = {"index": index, "image": torch.full((3,), float(index))}
    sample["self"] = sample
    return sample


@passes()
def samples_that_contain_themselves() -> DataLoader:
    return made(own)


@named("DG001", "sample 0 contains itself: sample")
def samples_that_contain_themselves_collated() -> DataLoader:
    return made(own, collate_fn=None, num_workers=2)


class Hostile:
    """Raises whatever one asks of it."""

    def _refuse(self, *_: object) -> Any:
        raise RuntimeError("no answer")

    __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __repr__ = __str__ = _refuse
    __getitem__ = __reduce__ = __float__ = __int__ = __index__ = __array__ = _refuse


@passes()
def samples_that_refuse_everything() -> DataLoader:
    return made(lambda index: {"image": torch.full((3,), float(index)), "more": Hostile()})


class Agreeable:
    """Has every attribute, of whatever name."""

    def __getattr__(self, name: str) -> Any:
        return Agreeable()

    def __call__(self, *_: object, **__: object) -> Any:
        return Agreeable()


@passes()
def samples_with_every_attribute() -> DataLoader:
    return made(lambda index: (torch.full((3,), float(index)), Agreeable()))


class Deceiver:
    """Says that it is a tensor."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return torch.Tensor


@passes()
def samples_that_say_they_are_tensors() -> DataLoader:
    return made(lambda index: (torch.full((3,), float(index)), Deceiver()))


class Odd(torch.Tensor):
    """A tensor whose every operation raises."""

    @classmethod
    def __torch_function__(cls, *_: object, **__: object) -> Any:
        raise RuntimeError("no operation")


@passes()
def tensors_that_refuse_every_operation() -> DataLoader:
    return made(lambda index: torch.full((3,), float(index)).as_subclass(Odd))


class Array(np.ndarray):
    """An array that is not to be computed with."""

    def __array_ufunc__(self, *_: object, **__: object) -> Any:
        raise RuntimeError("no function")

    def __array_function__(self, *_: object, **__: object) -> Any:
        raise RuntimeError("no function")


@passes()
def arrays_that_refuse_every_function() -> DataLoader:
    return made(lambda index: np.full(3, float(index)).view(Array))


class Mean(dict):
    """A dict whose entries cannot be listed."""

    def items(self) -> Any:
        raise RuntimeError("no items")

    __iter__ = keys = values = items


@passes()
def dicts_that_cannot_be_listed() -> DataLoader:
    return made(lambda index: Mean(image=torch.full((3,), float(index))))


@passes(makes="torchinductor*")
def odd_tensors() -> DataLoader:
    return made(
        lambda index: (
            torch.zeros(3, device="meta"),
            torch.eye(3).to_sparse(),
            torch.zeros(0, 5),
            torch.zeros((), dtype=torch.complex64),
            torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
            torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
            torch.ones(3, requires_grad=True) * index,
        )
    )


@passes()
def odd_arrays() -> DataLoader:
    return made(
        lambda index: (
            np.array([object(), None, "text"], dtype=object),
            np.zeros(3, dtype=[("a", "i4"), ("b", "U3")]),
            np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
            np.ma.masked_array([1, 2], mask=[True, False]),
            np.float128(index),
            np.broadcast_to(np.float32(index), (1 << 20, 1 << 20)),
        )
    )


@passes()
def text_that_no_encoding_takes() -> DataLoader:
    return made(lambda index: {"image": torch.full((3,), float(index)), "\udcff\0\x1b[2J": "\udc80" * 100})
