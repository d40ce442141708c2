"""DG304 negative-index: dataset[-1] returns something other than the last sample."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from sample_datasets._parts import Pictures, picture


class Split(Dataset[tuple[Tensor, int]]):
    """The second half of some pictures."""

    def __init__(self, count: int = 32) -> None:
        self.pictures = [picture(number) for number in range(count)]
        self.start = count // 2

    def __len__(self) -> int:
        return len(self.pictures) - self.start

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.pictures[self.start + index], (self.start + index) % 4


def bad() -> DataLoader[Any]:
    """An offset is added to the index: -1 is the last picture of the other half."""
    return DataLoader(Split(), batch_size=4)


class Windows(Dataset[Tensor]):
    """Windows of a recording."""

    def __init__(self, size: int = 8) -> None:
        self.recording = torch.arange(64.0).sin()
        self.size = size

    def __len__(self) -> int:
        return len(self.recording) - self.size + 1

    def __getitem__(self, index: int) -> Tensor:
        if index >= len(self):
            raise IndexError(index)
        return self.recording[index : index + self.size]


def good_window() -> DataLoader[Any]:
    """The window at -1 is empty, which nobody takes for a sample: the report of the pass says so."""
    return DataLoader(Windows(), batch_size=4)


class Clamped(Pictures):
    """Pictures that stay at the first one below zero."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return super().__getitem__(max(index, 0))


def bad_clamped() -> DataLoader[Any]:
    """-1 is the first picture."""
    return DataLoader(Clamped(), batch_size=4)


class Pairs(Pictures):
    """Neighbours among pictures."""

    def __len__(self) -> int:
        return super().__len__() - 1

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0], super().__getitem__(index + 1)[0]


def bad_pairs() -> DataLoader[Any]:
    """-1 is the pair of the last picture and the first."""
    return DataLoader(Pairs(), batch_size=4)


def good() -> DataLoader[Any]:
    """A tensor counts negative indices from the end by itself."""
    return DataLoader(Pictures(), batch_size=4)


class Refused(Split):
    """The second half of some pictures, without negative indices."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"{index} is not among {len(self)} pictures")
        return super().__getitem__(index)


def good_refused() -> DataLoader[Any]:
    """A negative index raises."""
    return DataLoader(Refused(), batch_size=4)


class Counted(Windows):
    """Windows that count from the end."""

    def __getitem__(self, index: int) -> Tensor:
        return super().__getitem__(range(len(self))[index])


def good_counted() -> DataLoader[Any]:
    """`range(len(self))[index]` knows all about indices."""
    return DataLoader(Counted(), batch_size=4)


class Numbered(Pictures):
    """Pictures of three classes by turns."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return super().__getitem__(index)[0], index % 3


def good_numbered() -> DataLoader[Any]:
    """-1 is the last picture, and its class follows from the number that was asked for."""
    return DataLoader(Numbered(), batch_size=4)


def good_subset() -> DataLoader[Any]:
    """A Subset looks negative indices up in its own list."""
    return DataLoader(Subset(Split(), [1, 3, 5, 7, 9]), batch_size=2)


class Made(Dataset[tuple[Tensor, int]]):
    """Noise made from the index, as in benchmarks."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        chance = torch.Generator().manual_seed(index + 100_000)
        return torch.randn(3, 8, 8, generator=chance), index % 10


def good_made() -> DataLoader[Any]:
    """Any number makes a sample: the report of the pass says so."""
    return DataLoader(Made(), batch_size=4)


class Checked(Made):
    """The same, with an end."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index >= len(self):
            raise IndexError(index)
        return super().__getitem__(index)


def good_checked() -> DataLoader[Any]:
    """Any number below the end makes a sample."""
    return DataLoader(Checked(), batch_size=4)


class Indexed(Pictures):
    """Pictures with noise that is drawn by their index."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image + torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(1000 + index)), label


def good_indexed() -> DataLoader[Any]:
    """-1 is the last picture, with other noise."""
    return DataLoader(Indexed(), batch_size=4)


class Drawn(Pictures):
    """Pictures with noise from torch's global generator."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image + torch.randn(3, 8, 8), label


def good_drawn() -> DataLoader[Any]:
    """Pictures that differ at every read."""
    return DataLoader(Drawn(), batch_size=4, shuffle=True)
