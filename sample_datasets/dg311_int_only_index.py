"""DG311 int-only-index: an index of another integer type fails, or returns another sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from sample_datasets._parts import Pictures, picture


class ByNumber(Dataset[Tensor]):
    """Pictures in a dictionary."""

    def __init__(self) -> None:
        self.pictures = {number: picture(number) for number in range(16)}

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> Tensor:
        return self.pictures[index]


def bad() -> DataLoader[Any]:
    """A tensor is no key of the dictionary, although it is equal to one."""
    return DataLoader(ByNumber(), batch_size=4)


class Flipped(Pictures):
    """Pictures, some of which are upside down and have to be turned."""

    def __init__(self) -> None:
        super().__init__()
        self.upside_down = set(range(1, 16, 2))

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        index = index + len(self) if index < 0 else index
        return (image.flip(1) if index in self.upside_down else image), label


def bad_set() -> DataLoader[Any]:
    """A tensor is never found in a set: the picture stays as it was, in silence."""
    return DataLoader(Flipped(), batch_size=4)


class Strict(Pictures):
    """Pictures that are particular about the type of an index."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if not isinstance(index, int):
            raise TypeError(f"index must be an int, not {type(index).__name__}")
        return super().__getitem__(index)


def bad_strict() -> DataLoader[Any]:
    """Not even a numpy integer is let in."""
    return DataLoader(Strict(), batch_size=4)


def good() -> DataLoader[Any]:
    """Lists and tensors take any integer."""
    return DataLoader(Pictures(), batch_size=4)


class Converted(ByNumber):
    """Pictures in a dictionary, looked up by a plain int."""

    def __getitem__(self, index: int) -> Tensor:
        return super().__getitem__(int(index))


def good_converted() -> DataLoader[Any]:
    """The index is converted first."""
    return DataLoader(Converted(), batch_size=4)


def good_tensors() -> DataLoader[Any]:
    """A TensorDataset takes whatever a tensor takes."""
    return DataLoader(TensorDataset(torch.arange(32.0), torch.arange(32) % 4), batch_size=4)


class Keyed(Dataset[Tensor]):
    """Pictures by name."""

    names = tuple(f"picture {number}" for number in range(16))

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, name: str) -> Tensor:
        return picture(self.names.index(name))


def good_names() -> DataLoader[Any]:
    """Indices are names, and numbers of any type mean nothing."""
    return DataLoader(Keyed(), batch_size=4, sampler=Keyed.names)


class Sliced(Pictures):
    """Pictures that can be sliced."""

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        if isinstance(index, np.ndarray) and index.ndim:
            return [self[number] for number in index]
        return super().__getitem__(index)


def good_sliced() -> DataLoader[Any]:
    """Slices and arrays give lists, and an integer of any type one sample."""
    return DataLoader(Sliced(), batch_size=4)
