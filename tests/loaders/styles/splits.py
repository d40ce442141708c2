"""Splits into training and evaluation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, random_split
from torchvision import transforms as T

from tests.loaders.styles import _data
from tests.loaders.styles._bases import InMemory
from tests.loaders.styles._data import IMAGENET_MEAN, IMAGENET_STD, PHOTOGRAPHS, class_of

Loaders = dict[str, DataLoader[Any]]


def two(train: Dataset[Any], val: Dataset[Any]) -> Loaders:
    return {
        "train": DataLoader(train, batch_size=4, shuffle=True, drop_last=True),
        "val": DataLoader(val, batch_size=4),
    }


class Photographs(Dataset[Any]):
    def __init__(self, paths: list[Any], transform: Callable[[Image.Image], Tensor]) -> None:
        self.paths, self.transform = paths, transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        path = self.paths[index]
        return self.transform(Image.open(path).convert("RGB")), class_of(path)


def normalized(*first: Any) -> T.Compose:
    return T.Compose([*first, T.ToTensor(), T.Normalize(IMAGENET_MEAN, IMAGENET_STD)])


def train_transform() -> T.Compose:
    return normalized(T.RandomResizedCrop(40, (0.5, 1.0)), T.RandomHorizontalFlip())


def eval_transform() -> T.Compose:
    return normalized(T.Resize((48, 48)), T.CenterCrop(40))


def dg514_overlapping_slices() -> Loaders:
    rows = _data.vectors(60)
    cut = int(len(rows) * 0.8)
    train, val = rows[:cut], rows[cut - 10 :]  # culprit
    return two(InMemory(train), InMemory(val))


def dg514_two_permutations() -> Loaders:
    def indices(part: str, size: int, fraction: float = 0.75) -> list[int]:
        order = np.random.permutation(size)  # culprit
        cut = int(size * fraction)
        return [int(i) for i in (order[:cut] if part == "train" else order[cut:])]  # culprit

    data = InMemory(_data.vectors())
    twin = copy.copy(data)
    return two(Subset(data, indices("train", 48)), Subset(twin, indices("val", 48)))


def dg514_oversampled_first() -> Loaders:
    rows = _data.vectors(40)
    rare = rows[::5]
    table = np.concatenate([rows, rare, rare])  # culprit
    train, val = train_test_split(table, test_size=0.25, random_state=0)  # culprit
    return two(InMemory(train), InMemory(val))


def dg514_concatenated() -> Loaders:
    first, second = InMemory(_data.vectors(32)), InMemory(_data.vectors(56)[32:])
    everything = ConcatDataset([first, second])
    return two(everything, second)  # culprit


def dg517_one_transform() -> Loaders:
    transform = train_transform()
    train, val = PHOTOGRAPHS[::2], PHOTOGRAPHS[1::2]
    return two(Photographs(train, transform), Photographs(val, transform))  # culprit


@dataclass
class Config:
    size: int = 40
    flip: float = 0.5

    def build(self, train: bool) -> T.Compose:
        steps: list[Any] = [T.Resize((self.size, self.size))]
        if train:
            steps.append(T.RandomHorizontalFlip(self.flip))
        steps.append(T.ColorJitter(0.3, 0.3))  # culprit
        return normalized(*steps)


def dg517_config() -> Loaders:
    config = Config()
    paths = PHOTOGRAPHS[::2], PHOTOGRAPHS[1::2]
    return two(*(Photographs(part, config.build(train)) for part, train in zip(paths, (True, False), strict=True)))


class Module:
    """A data module in the manner of Lightning."""

    def __init__(self) -> None:
        self.crop = T.RandomCrop(36)
        self.stages: dict[str, Callable[[Image.Image], Tensor]] = {}

    def setup(self) -> None:
        self.stages["fit"] = normalized(T.Resize((44, 44)), self.crop, T.RandomHorizontalFlip())
        self.stages["validate"] = normalized(T.Resize((44, 44)), self.crop)  # culprit

    def loaders(self) -> Loaders:
        return two(
            Photographs(PHOTOGRAPHS[::2], self.stages["fit"]), Photographs(PHOTOGRAPHS[1::2], self.stages["validate"])
        )


def dg517_data_module() -> Loaders:
    module = Module()
    module.setup()
    return module.loaders()


def dg518_random_split() -> Loaders:
    full = Photographs(PHOTOGRAPHS, train_transform())  # culprit
    train, val = random_split(full, [16, 8], torch.Generator().manual_seed(0))  # culprit
    return two(train, val)


def dg518_val_transform_assigned() -> Loaders:
    full = Photographs(PHOTOGRAPHS, train_transform())
    train, val = random_split(full, [16, 8], torch.Generator().manual_seed(0))  # culprit
    val.dataset.transform = eval_transform()  # type: ignore[attr-defined] # culprit
    return two(train, val)


def split_by(data: Dataset[Any], every: int) -> tuple[Subset[Any], Subset[Any]]:
    size = len(data)  # type: ignore[arg-type]
    held_out = set(range(0, size, every))
    return Subset(data, [i for i in range(size) if i not in held_out]), Subset(data, sorted(held_out))  # culprit


def dg518_helper() -> Loaders:
    data = Photographs(PHOTOGRAPHS, train_transform())  # culprit
    train, val = split_by(data, 4)  # culprit
    return two(train, val)


def dg521_scaled_before() -> Loaders:
    scaled = StandardScaler().fit_transform(_data.table()).astype(np.float32)  # culprit
    train, val = scaled[:180], scaled[180:]
    return two(TensorDataset(torch.from_numpy(train)), TensorDataset(torch.from_numpy(val)))


class Table:
    """Keeps its scaler with the rows."""

    def __init__(self, rows: np.ndarray) -> None:
        self.scaler = MinMaxScaler()
        self.rows = self.scaler.fit_transform(rows).astype(np.float32)  # culprit

    def part(self, begin: int, end: int) -> Dataset[Any]:
        return InMemory(self.rows[begin:end])


def dg521_min_max_table() -> Loaders:
    table = Table(_data.table())
    return two(table.part(0, 180), table.part(180, 240))


def standardize(rows: Tensor) -> Tensor:
    mean, std = rows.mean(0), rows.std(0)  # culprit
    return (rows - mean) / std  # culprit


def dg521_torch_function() -> Loaders:
    data = TensorDataset(standardize(torch.from_numpy(_data.table())), torch.arange(240) % 2)  # culprit
    return two(Subset(data, range(180)), Subset(data, range(180, 240)))
