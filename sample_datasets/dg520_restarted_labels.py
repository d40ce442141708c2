"""DG520 restarted-labels: concatenated datasets number different classes from 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset

from sample_datasets._parts import picture

PETS, BIRDS = ("cat", "dog", "hamster"), ("eagle", "owl", "parrot")


class Kinds(Dataset[Any]):
    """Pictures of some kinds of animals, numbered in the order of their names, as folders are."""

    def __init__(self, classes: Sequence[str], first: int, count: int = 24) -> None:
        self.classes = list(classes)
        self.class_to_idx = {name: number for number, name in enumerate(classes)}
        self.first = first
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        number = range(len(self))[index]
        return picture(self.first + number), number % len(self.classes)


def loader(*parts: Dataset[Any]) -> DataLoader[Any]:
    return DataLoader(ConcatDataset(parts), batch_size=4, shuffle=True, num_workers=2)  # culprit


def bad() -> DataLoader[Any]:
    """Label 0 is a cat in one part, and an eagle in the other."""
    return loader(Kinds(PETS, 0), Kinds(BIRDS, 24))


class Listed(Kinds):
    """The same with a list of names alone."""

    def __init__(self, classes: Sequence[str], first: int) -> None:
        super().__init__(classes, first)
        del self.class_to_idx


def bad_nested() -> DataLoader[Any]:
    """Datasets are added up, and one of them lacks a folder, which shifts the labels of the others."""
    whole = ("badger", "cat", "dog", "fox")
    return loader(Listed(whole, 0) + Listed(whole, 24), Listed(whole[1:], 48))


class Prepared(Dataset[Any]):
    """Pictures of another dataset, made brighter."""

    def __init__(self, inner: Dataset[Any]) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        image, label = self.inner[index]
        return {"image": image * 1.1, "label": torch.tensor(label)}


def bad_wrapped() -> DataLoader[Any]:
    """Wrappers lie between the concatenation and its parts, and around it."""
    joined: Dataset[Any] = ConcatDataset([Prepared(Kinds(PETS, 0)), Prepared(Kinds(BIRDS, 24))])
    return DataLoader(Around(joined), batch_size=4, shuffle=True, num_workers=2)  # culprit


class Around(Prepared):
    """The same pictures, in dictionaries already."""

    def __getitem__(self, index: int) -> Any:
        sample: dict[str, Tensor] = self.inner[index]
        return {**sample, "image": sample["image"] - 0.5}


class Mapped(Kinds):
    """Pictures whose labels are indices of a list that all parts have in common."""

    common = (*PETS, *BIRDS)

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image, self.common.index(self.classes[label])


def good() -> DataLoader[Any]:
    """Each part says only which of the common classes it has."""
    return loader(Mapped(PETS, 0), Mapped(BIRDS, 24))


def good_shards() -> DataLoader[Any]:
    """Three parts of one dataset."""
    return loader(*(Kinds(PETS, first) for first in (0, 24, 48)))


def good_overlapping() -> DataLoader[Any]:
    """Two parts with some classes in common, whose labels follow one list."""
    return loader(Mapped(PETS, 0), Mapped((*PETS[1:], "eagle"), 24))


class Tasks(Kinds):
    """Pictures with the number of the task that their label belongs to."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return {"image": image, "label": label, "task": int(self.classes[0] == BIRDS[0])}


def good_tasks() -> DataLoader[Any]:
    """A model with a head for each part needs labels that restart."""
    return loader(Tasks(PETS, 0), Tasks(BIRDS, 24))


def good_spelled() -> DataLoader[Any]:
    """The same classes, spelled differently."""
    return loader(Kinds(("polar bear", "Cat"), 0), Kinds(("polar_bear", "cat"), 24))


def good_codes() -> DataLoader[Any]:
    """The same classes by name and by code."""
    return loader(Kinds(PETS, 0), Kinds(("n02121808", "n02084071", "n02342885"), 24))
