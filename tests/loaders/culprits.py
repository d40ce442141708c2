"""Loaders that repeat random numbers, each with something that makes it hard to say which generator is to blame."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import torch
from numpy.random import seed as seed_numpy
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

Draw = Callable[[], float]
RNG = random.Random(0)
"""A generator for other modules."""


class Drawn(Dataset[Any]):
    """Sixteen samples, each a picture of its own times a random factor; other numbers are drawn and dropped."""

    def __init__(self, draw: Draw, dropped: Draw = float) -> None:
        self.dropped = dropped
        self.draw = draw

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        self.dropped()
        return torch.full((4,), 1.0 + index) * self.draw()


class Held(Drawn):
    """The factor comes from a generator that the dataset holds, behind one that it draws from in vain."""

    def __init__(self) -> None:
        super().__init__(lambda: self.used.random(), lambda: self.spare.random())
        self.spare = np.random.default_rng(0)
        self.used = np.random.default_rng(1)


class TwoLeaves(Held):
    """Two values, each from a generator of its own."""

    def __getitem__(self, index: int) -> tuple[Tensor, float]:
        return super().__getitem__(index), self.spare.random()


class Counted(Drawn):
    """The value counts the samples that a worker has read, while two generators are drawn from in vain."""

    def __init__(self) -> None:
        super().__init__(self.count, lambda: self.one.random() + self.two.random())
        self.one, self.two = random.Random(0), random.Random(1)
        self.number = 0.0

    def count(self) -> float:
        self.number += 1
        return self.number


def from_cv2() -> float:
    noise = np.empty(1)
    cv2.randu(noise, 0.0, 1.0)
    return float(noise[0])


class Lazy(Drawn):
    """The generator is made in the worker, but from a constant."""

    def __init__(self) -> None:
        super().__init__(self.lazily)
        self.rng: random.Random | None = None

    def lazily(self) -> float:
        if self.rng is None:
            self.rng = random.Random(7)  # the seed of Lazy
        return self.rng.random()


def seed_all(number: int) -> None:
    random.seed(number)
    seed_numpy(number)  # the seed of numpy


def seed_alike(worker: int) -> None:
    seed_all(42)


def seed_by_number(worker: int) -> None:
    random.seed(worker)  # the seed by number


def seed_cv2_alike(worker: int) -> None:
    cv2.setRNGSeed(5)  # the seed of cv2


def loader(dataset: Dataset[Any], init: Callable[[int], None] | None = None, **settings: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=4, num_workers=2, worker_init_fn=init, **settings)


def make_loaders() -> dict[str, DataLoader[Any]]:
    """Most keep their workers, so that no epoch repeats another one."""
    stay: dict[str, Any] = {"persistent_workers": True}
    spare = random.Random(0)
    return {
        "dropped": loader(Held()),
        "two_leaves": loader(TwoLeaves(), **stay),
        "counted": loader(Counted(), **stay),
        "behind_cv2": loader(Drawn(from_cv2, spare.random), **stay),
        "bound": loader(Drawn(np.random.default_rng(0).random), **stay),
        "lazy": loader(Lazy(), **stay),
        "init": loader(Drawn(np.random.random, random.random), seed_alike, **stay),
        "init_by_number": loader(Drawn(random.random), seed_by_number),
        "init_cv2": loader(Drawn(from_cv2), seed_cv2_alike, **stay),
    }
