"""DG518 shared-transform: training and evaluation read one dataset object, and so have one transform."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, random_split
from torchvision import datasets, transforms

from sample_datasets._parts import PHOTOGRAPHS, Pictures, brighten

Loaders = dict[str, DataLoader[Any]]

FLIPPED = transforms.Compose([transforms.Resize((24, 24)), transforms.RandomHorizontalFlip(), transforms.ToTensor()])
RESIZED = transforms.Compose([transforms.Resize((24, 24)), transforms.ToTensor()])


def centred(image: Tensor) -> Tensor:
    """What suits evaluation: no random number."""
    return image - 0.5


def split(dataset: Dataset[Any]) -> list[Subset[Any]]:
    """Two thirds for training, one third for validation."""
    return random_split(dataset, [2 / 3, 1 / 3], torch.Generator().manual_seed(0))


def loaders(train: Dataset[Any], val: Dataset[Any]) -> Loaders:
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "val": DataLoader(val, batch_size=4)}


def bad() -> Loaders:
    """What is assigned for validation replaces the augmentation of training."""
    train, val = split(Pictures(48, transform=brighten))
    val.dataset.transform = centred  # type: ignore[attr-defined]  # culprit
    return loaders(train, val)


def bad_evaluated() -> Loaders:
    """`random_split` shares one dataset, and with it the transform of training."""
    return loaders(*split(Pictures(48, transform=brighten)))  # culprit


def bad_folder() -> Loaders:
    """Two subsets of one folder of photographs, of which every other is for validation."""
    folder = datasets.ImageFolder(str(PHOTOGRAPHS[0].parents[1]), transform=FLIPPED)  # culprit
    return loaders(Subset(folder, range(0, len(folder), 2)), Subset(folder, range(1, len(folder), 2)))  # culprit


def bad_nested() -> Loaders:
    """A small part of the data is split: the transform is two datasets further inside."""
    folder = datasets.ImageFolder(str(PHOTOGRAPHS[0].parents[1]), transform=FLIPPED)
    train, val = split(Subset(folder, range(len(folder))))
    val.dataset.dataset.transform = RESIZED  # type: ignore[attr-defined]  # culprit
    return loaders(train, val)


def bad_both_assigned() -> Loaders:
    """Each split is given its transform, as it seems, and the last one counts for both."""
    train, val = split(Pictures(48))
    train.dataset.transform = brighten  # type: ignore[attr-defined]
    val.dataset.transform = centred  # type: ignore[attr-defined]  # culprit
    return loaders(train, val)


def good() -> Loaders:
    """Two datasets over the same pictures, and the same split of both."""
    train, _ = split(Pictures(48, transform=brighten))
    _, val = split(Pictures(48, transform=centred))
    return loaders(train, val)


def good_deterministic() -> Loaders:
    """Both splits need the same transform, which draws nothing, and it is assigned once, by way of one of them."""
    train, val = split(Pictures(48))
    train.dataset.transform = centred  # type: ignore[attr-defined]
    return loaders(train, val)


class Transformed(Dataset[Any]):
    """A subset under a transform of its own."""

    def __init__(self, subset: Subset[Any], transform: Any) -> None:
        self.subset = subset
        self.transform = transform

    def __len__(self) -> int:
        return len(self.subset)

    def __getitem__(self, index: int) -> Any:
        image, label = self.subset[index]
        return self.transform(image), label


def good_wrapped() -> Loaders:
    """One dataset without a random transform, and a wrapper for each split."""
    train, val = split(Pictures(48, transform=centred))
    return loaders(Transformed(train, brighten), Transformed(val, centred))


def good_copied() -> Loaders:
    """Validation is given a copy of the dataset before it is given its transform."""
    train, val = split(Pictures(48, transform=brighten))
    val.dataset = copy.copy(val.dataset)
    val.dataset.transform = centred  # type: ignore[attr-defined]
    return loaders(train, val)


class Flagged(Pictures):
    """Pictures that are augmented if their index belongs to training."""

    training: frozenset[int] = frozenset()

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return (brighten(image) if index in self.training else image), label


def good_flag() -> Loaders:
    """One dataset object that knows which of its pictures are for training."""
    pictures = Flagged(48, transform=centred)
    train, val = split(pictures)
    pictures.training = frozenset(train.indices)
    return loaders(train, val)


def good_without_augmentation() -> Loaders:
    """The augmentation is switched off for an experiment, before the data are split."""
    pictures = Pictures(48, transform=brighten)
    pictures.transform = centred
    return loaders(*split(pictures))


def good_statistics() -> Loaders:
    """The mean of the training pictures is measured on raw ones, and then subtracted from all."""
    train, val = split(Pictures(48, transform=Tensor.clone))
    mean = torch.stack([image for image, _ in train]).mean()  # type: ignore[attr-defined]
    train.dataset.transform = lambda image: image - mean  # type: ignore[attr-defined]
    return loaders(train, val)
