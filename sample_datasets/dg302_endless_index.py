"""DG302 endless-index: an index past the end returns a sample, so `for sample in dataset` never ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import Pictures, picture


class WrappedPictures(Pictures):
    """Pictures that start over after the last one."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return super().__getitem__(index % len(self))  # culprit


def bad() -> DataLoader[Any]:
    """A modulo wraps every index into the range."""
    return DataLoader(WrappedPictures(), batch_size=4)


class ClampedPictures(Pictures):
    """Pictures that stay at the last one."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return super().__getitem__(min(index, len(self) - 1))  # culprit


def bad_clamp() -> DataLoader[Any]:
    """Every index after the last one gives the last sample again."""
    return DataLoader(ClampedPictures(), batch_size=4)


class ProceduralPictures(Dataset[Tensor]):
    """Sixteen pictures computed from their index, whatever it is."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Tensor:
        return picture(index if index >= 0 else index + len(self))


def bad_dataset() -> Dataset[Any]:
    """No sampler keeps whoever reads the bare dataset from asking for more: an error."""
    return WrappedPictures()


def good_unbounded() -> DataLoader[Any]:
    """Nothing checks the index, but no sample comes twice: the report of the pass says that iteration never ends."""
    return DataLoader(ProceduralPictures(), batch_size=4)


class TitledPictures(ProceduralPictures):
    """Computed pictures, of which each eighth is the same title."""

    def __getitem__(self, index: int) -> Tensor:
        return super().__getitem__(index if index % 8 else 0)


def good_titled() -> DataLoader[Any]:
    """Nothing checks the index, and a title beyond the end is like those inside: no other sample comes again."""
    return DataLoader(TitledPictures(), batch_size=4)


def good() -> DataLoader[Any]:
    """A tensor raises IndexError by itself."""
    return DataLoader(Pictures(), batch_size=4)


class CheckedPictures(ProceduralPictures):
    """Computed pictures, with a check of the index."""

    def __getitem__(self, index: int) -> Tensor:
        if not -len(self) <= index < len(self):
            raise IndexError(f"{index} is not among {len(self)} pictures")
        return super().__getitem__(index)


def good_procedural() -> DataLoader[Any]:
    """Pictures are computed from the index, once it is found to be in range."""
    return DataLoader(CheckedPictures(), batch_size=4)


class PicturesByNumber(Dataset[Tensor]):
    """Pictures in a dictionary."""

    def __init__(self) -> None:
        self.pictures = {number: picture(number) for number in range(16)}

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> Tensor:
        return self.pictures[int(index)]


def good_key_error() -> DataLoader[Any]:
    """The index after the last one raises, as a dictionary does: KeyError."""
    return DataLoader(PicturesByNumber(), batch_size=4)


class IterablePictures(CheckedPictures):
    """Computed pictures that say themselves how to iterate over them."""

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))


def good_iterator_protocol() -> DataLoader[Any]:
    """`for sample in dataset` goes by `__iter__`, and the index is checked."""
    return DataLoader(IterablePictures(), batch_size=4)


class WrapNegative(Pictures):
    """Pictures that count negative indices from the end by themselves."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index >= len(self):
            raise IndexError(index)
        return super().__getitem__(index % len(self))


def good_negative_modulo() -> DataLoader[Any]:
    """A modulo is there, but the end of the range is checked before it."""
    return DataLoader(WrapNegative(), batch_size=4)


class Windows(Dataset[Tensor]):
    """Eight values from each place of a signal."""

    def __init__(self, left_out: int, values: int = 40) -> None:
        self.signal = torch.arange(values) / values
        self.left_out = left_out

    def __len__(self) -> int:
        return len(self.signal) - self.left_out  # culprit

    def __getitem__(self, index: int) -> Tensor:
        return self.signal[index : index + 8]


def bad_window() -> DataLoader[Any]:
    """Windows of eight values in forty begin at 33 places, and not at 32."""
    return DataLoader(Windows(8), batch_size=5)


def bad_windows() -> DataLoader[Any]:
    """Windows of eight values in 108 begin at 101 places, and not at 95."""
    return DataLoader(Windows(13, 108), batch_size=4)


class Limited(Windows):
    """Windows, of which an epoch reads as many as its options say."""

    def __init__(self, limit: int) -> None:
        super().__init__(7, 108)
        self.limit = limit

    def __len__(self) -> int:
        return min(self.limit, super().__len__())


def good_limited() -> DataLoader[Any]:
    """An epoch of 95 of 101 windows."""
    return DataLoader(Limited(95), batch_size=4)


def good_windows() -> DataLoader[Any]:
    """What is left after the last window is shorter than one."""
    return DataLoader(Windows(7), batch_size=5)


def good_full_batches() -> DataLoader[Any]:
    """The 33rd window is left out on purpose: it would have a batch of its own."""
    return DataLoader(Windows(8), batch_size=4)


class Steps(Windows):
    """Values and the ones after them."""

    def __getitem__(self, index: int) -> Tensor:
        return torch.stack([self.signal[index], self.signal[index + 1]])


def good_steps() -> DataLoader[Any]:
    """The last value has none after it."""
    return DataLoader(Steps(1), batch_size=5)
