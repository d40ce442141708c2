"""Training loaders whose samples hold random numbers that were drawn once, and rightly kept."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision.transforms import v2

from sample_datasets._parts import Pictures, brighten
from sample_datasets.dg103_frozen_augmentation import Kept, Sample, Stream


def kept(dataset: Dataset[Any], **settings: Any) -> DataLoader[Any]:
    return DataLoader(dataset, **{"batch_size": 4, "num_workers": 2, "persistent_workers": True, **settings})


class Invented(Pictures):
    """Pictures are nothing but random numbers, made when they are first asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[int, Tensor] = {}

    def __getitem__(self, index: int) -> Sample:
        if index not in self.cache:
            self.cache[index] = torch.rand(3, 8, 8)
        return self.cache[index], self.labels[index]


class Palette(Pictures):
    """Each class gets a colour when it first comes up."""

    def __init__(self) -> None:
        super().__init__()
        self.colours: dict[int, Tensor] = {}

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return image * self.colours.setdefault(label, torch.rand(3, 1, 1)), label


class Numbered(Pictures):
    """Brightness is drawn from the worker's seed and the index."""

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return image * np.random.default_rng((torch.initial_seed(), index)).uniform(0.5, 1.0), label


class Beside(Pictures):
    """Pictures are flipped by a library, and a pose is invented from the index."""

    flip = v2.RandomHorizontalFlip()

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return self.flip(image), torch.from_numpy(np.random.default_rng(index).random(24)).float(), label


class Made(Pictures):
    """Every picture is invented from its index."""

    def __getitem__(self, index: int) -> Sample:
        return torch.rand((3, 8, 8), generator=torch.Generator().manual_seed(index)), self.labels[index]


def mixed(samples: list[Sample]) -> Any:
    return v2.MixUp(num_classes=10)(*default_collate(samples))


class Lone(Pictures):
    """One of six pictures is invented, from its index."""

    def __init__(self) -> None:
        super().__init__(count=6)

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        invented = torch.from_numpy(np.random.default_rng(index).random((3, 8, 8))) if index == 4 else image
        return invented.float(), label


class Chosen(Pictures):
    """Which picture an index means, and its label, are drawn at the first read."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen: dict[int, int] = {}

    def __getitem__(self, index: int) -> Sample:
        return super().__getitem__(self.chosen.setdefault(index, (index + random.randrange(16)) % 16))


class Reordered(Stream):
    """The order of a stream is drawn from a constant at its beginning."""

    def numbers(self) -> Iterator[int]:
        numbers = list(super().numbers())
        random.Random(0).shuffle(numbers)
        return iter(numbers)


class Picked(Stream):
    """Which picture comes next is drawn from a constant, over again for each."""

    def numbers(self) -> Iterator[int]:
        return (int(np.random.RandomState(0).permutation(64)[number]) for number in super().numbers())


def passing() -> dict[str, DataLoader[Any]]:
    return {
        "train_deterministic": kept(Kept(transform=torch.sqrt)),
        "train_invented": kept(Invented()),
        "train_palette": kept(Palette()),
        "train_numbered": kept(Numbered(), persistent_workers=False),
        "train_lone": kept(Lone()),
        "train_beside": kept(Beside()),
        "train_mixed": kept(Made(), collate_fn=mixed),
        "train_numbered_stream": kept(Stream(lambda image, number: image * random.Random(number).uniform(0.5, 1))),
        "train_order": kept(Reordered(lambda image, number: brighten(image))),
    }


def unclear() -> dict[str, DataLoader[Any]]:
    return {"train_chosen": kept(Chosen()), "train_picked": kept(Picked(lambda image, number: image))}


def briefly() -> dict[str, DataLoader[Any]]:
    return {"train": kept(Kept(), persistent_workers=False)}
