"""DG314 shared-cache: evaluation yields training samples, from a cache that both datasets share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import picture, scratch, stored

Loaders = dict[str, DataLoader[Any]]
FOLDER = scratch("dataguard-dg314-")


def loaders(make: Callable[[range, bool], Dataset[Any]], workers: int = 0) -> Loaders:
    """The first 48 pictures are for training, the last 16 for validation."""
    return {
        "train": DataLoader(make(range(48), True), batch_size=4, shuffle=True, num_workers=workers),
        "val": DataLoader(make(range(48, 64), False), batch_size=4, num_workers=workers),
    }


class CachedByClass(Dataset[Any]):
    """Keeps decoded pictures in an attribute of the class."""

    cache: ClassVar[dict[int, Any]] = {}  # culprit

    def __init__(self, numbers: range, training: bool) -> None:
        self.numbers = numbers
        self.training = training

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Any:
        number = self.numbers[index]
        if index not in self.cache:
            self.cache[index] = picture(number), number % 10
        image, label = self.cache[index]
        return (image.flip(-1) if self.training and torch.rand(()) < 0.5 else image), label


def bad() -> Loaders:
    """The class has one cache for both datasets."""
    return loaders(CachedByClass)


SAMPLES: dict[int, Any] = {}  # culprit


class CachedByModule(CachedByClass):
    """Keeps whole samples in a variable of the module."""

    def __getitem__(self, index: int) -> Any:
        number = self.numbers[index]
        return SAMPLES.setdefault(index, (picture(number), number % 10))  # culprit


def bad_module() -> Loaders:
    """Nothing is random, and all of a sample is cached."""
    return loaders(CachedByModule)


class CachedByObject(CachedByClass):
    """Each dataset has a cache of its own."""

    def __init__(self, numbers: range, training: bool) -> None:
        super().__init__(numbers, training)
        self.cache = {}  # type: ignore[misc]


def good() -> Loaders:
    """Each dataset has a cache of its own."""
    return loaders(CachedByObject)


class CachedByNumber(CachedByClass):
    """The key names the picture."""

    pictures: ClassVar[dict[int, Tensor]] = {}

    def __getitem__(self, index: int) -> Any:
        number = self.numbers[index]
        return self.pictures.setdefault(number, picture(number)), number % 10


def good_by_number() -> Loaders:
    """Both datasets share a cache, in which each picture has its own entry."""
    return loaders(CachedByNumber)


def good_workers() -> Loaders:
    """The workers of each loader have a copy of the cache."""
    return loaders(CachedByClass, workers=1)


class Centred(CachedByClass):
    """The mean is that of the first picture that is read, of whichever dataset."""

    means: ClassVar[list[Tensor]] = []

    def __getitem__(self, index: int) -> Any:
        number = self.numbers[index]
        if not self.means:
            self.means.append(picture(number).mean())
        return {"image": picture(number) - self.means[0], "mean": self.means[0], "label": number % 10}


def good_lazy_mean() -> Loaders:
    """Validation is centred with the mean of training, which is read first."""
    return loaders(Centred)


class Recordings(Dataset[Any]):
    """Recordings of four speakers, in a folder for each, that are kept once they are read."""

    def __init__(self) -> None:
        self.files = [FOLDER / f"speaker{number // 8}" / f"{number % 8}.npy" for number in range(32)]
        for number, file in enumerate(self.files):
            file.parent.mkdir(exist_ok=True)
            stored(file, partial(np.save, arr=picture(number).numpy()))
        self.kept: dict[Any, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.files)

    def key(self, file: Path) -> Any:
        """What a recording is kept under."""
        return file.name

    def __getitem__(self, index: int) -> Any:
        file = self.files[index]
        if self.key(file) not in self.kept:
            self.kept[self.key(file)] = np.load(file)  # culprit
        return torch.from_numpy(self.kept[self.key(file)].copy()), index // 8


class RecordingsByPath(Recordings):
    """They are kept under their path."""

    def key(self, file: Path) -> Any:
        """What a recording is kept under."""
        return file


def bad_names() -> DataLoader[Any]:
    """Recordings of all speakers have the same names."""
    return DataLoader(Recordings(), batch_size=4, shuffle=True)


def good_names() -> DataLoader[Any]:
    """The folder is part of the key."""
    return DataLoader(RecordingsByPath(), batch_size=4, shuffle=True)
