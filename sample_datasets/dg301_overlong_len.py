"""DG301 overlong-len: len(dataset) is larger than the number of samples.

The loaders of the bad samples drop their last, incomplete batch, which hides the defect until a batch size changes.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import Pictures, picture


class MiscountedPictures(Pictures):
    """Sixteen pictures and a length that says otherwise."""

    def __init__(self, surplus: int) -> None:
        super().__init__()
        self.surplus = surplus

    def __len__(self) -> int:
        return super().__len__() + self.surplus  # culprit


def bad() -> DataLoader[Any]:
    """The length is one too many."""
    return DataLoader(MiscountedPictures(surplus=1), batch_size=4, drop_last=True)


def bad_by_many() -> DataLoader[Any]:
    """The length is ten too many."""
    return DataLoader(MiscountedPictures(surplus=10), batch_size=16, drop_last=True)


class PicturesByNumber(Dataset[Tensor]):
    """Pictures in a dictionary, and a length that counts the number after the last one."""

    def __init__(self) -> None:
        self.pictures = {number: picture(number) for number in range(16)}

    def __len__(self) -> int:
        return max(self.pictures) + 2  # culprit

    def __getitem__(self, index: int) -> Tensor:
        return self.pictures[int(index)]


def bad_key_error() -> DataLoader[Any]:
    """The last index is none of the keys: KeyError instead of IndexError."""
    return DataLoader(PicturesByNumber(), batch_size=4, drop_last=True)


class LabelledPictures(Dataset[tuple[Tensor, int]]):
    """As many pictures as there are files, as many samples as there are labels."""

    def __init__(self) -> None:
        self.images = [picture(number) for number in range(16)]
        self.labels = [number % 4 for number in range(18)]

    def __len__(self) -> int:
        return len(self.labels)  # culprit

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], self.labels[index]


def bad_subset_length() -> DataLoader[Any]:
    """There are more labels than images, and the length is taken from the labels."""
    return DataLoader(LabelledPictures(), batch_size=4, drop_last=True)


def good() -> DataLoader[Any]:
    """As long as it says."""
    return DataLoader(Pictures(), batch_size=4)


class ComputedPictures(Dataset[Tensor]):
    """A hundred thousand pictures, computed when they are asked for."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> Tensor:
        return picture(range(len(self))[index])


def good_large() -> DataLoader[Any]:
    """Many samples behind a length that is right."""
    return DataLoader(ComputedPictures(), batch_size=32, num_workers=2)


class Windows(Dataset[tuple[Tensor, Tensor]]):
    """Pairs of a picture and its successor: one fewer than there are pictures."""

    def __init__(self) -> None:
        self.pictures = [picture(number) for number in range(17)]

    def __len__(self) -> int:
        return len(self.pictures) - 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        number = range(len(self))[index]
        return self.pictures[number], self.pictures[number + 1]


def good_windows() -> DataLoader[Any]:
    """The length leaves out the last picture, which has no successor."""
    return DataLoader(Windows(), batch_size=4)
