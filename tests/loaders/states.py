"""Datasets that change while they are read: those whose workers lose something by it, and those that only look so."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, default_collate

from sample_datasets._parts import Pictures, brighten, picture, share
from sample_datasets.dg107_deaf_workers import (
    Counting,
    EpochStream,
    Remembering,
    ShownCounter,
    Words,
)

Sample = tuple[Tensor, int]


def anew(dataset: Any, **settings: Any) -> DataLoader[Any]:
    return DataLoader(dataset, **{"batch_size": 4, "num_workers": 2, **settings})


def kept(dataset: Any, **settings: Any) -> DataLoader[Any]:
    return anew(dataset, persistent_workers=True, **settings)


class Darken:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, image: Tensor) -> Tensor:
        self.calls += 1
        return image * 0.999**self.calls


class CollateDarker:
    def __init__(self) -> None:
        self.batches = 0

    def __call__(self, samples: list[Sample]) -> tuple[Tensor, Tensor]:
        self.batches += 1
        images, labels = default_collate(samples)
        return images * 0.999**self.batches, labels


class Cursor(Pictures):
    """Brightness comes from a table that was drawn beforehand, one number after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.table = np.random.default_rng(0).uniform(0.5, 1.0, 10_000)
        self.position = 0

    def __getitem__(self, index: int) -> Sample:
        self.position += 1
        image, label = super().__getitem__(index)
        return image * self.table[self.position % 10_000], label


class Several(Counting):
    """Gives several samples at once."""

    def __getitems__(self, indices: list[int]) -> list[Sample]:
        return [self[index] for index in indices]


class Reader(IterableDataset[Sample]):
    """Every epoch takes the next few samples of an endless source."""

    def __init__(self) -> None:
        self.numbers = cycle(range(1000))

    def __iter__(self) -> Iterator[Sample]:
        for number in share(islice(self.numbers, 32)):
            yield picture(number), number


class Shuffling(IterableDataset[Sample]):
    """The order is drawn from a generator that is held: nothing but a draw changes with the epoch."""

    def __init__(self) -> None:
        self.rng = random.Random(0)

    def __iter__(self) -> Iterator[Sample]:
        numbers = list(range(32))
        self.rng.shuffle(numbers)
        return iter([(picture(number), number) for number in share(numbers)])


class Leftover(IterableDataset[Sample]):
    """Each sample is mixed with the one before; the first of an epoch with the last of the epoch before."""

    def __init__(self) -> None:
        self.before = picture(0)

    def __iter__(self) -> Iterator[Sample]:
        for number in share(range(32)):
            before, self.before = self.before, picture(number)
            yield (before + self.before) / 2, number


class Paired(Pictures):
    """Each picture comes with the one that was read before."""

    def __init__(self) -> None:
        super().__init__()
        self.previous = picture(0)

    def __getitem__(self, index: int) -> Any:
        image, _ = super().__getitem__(index)
        before, self.previous = self.previous, image
        return image, before


class Round(Pictures):
    """Three brightnesses take turns."""

    turn = 0

    def __getitem__(self, index: int) -> Sample:
        self.turn = (self.turn + 1) % 3
        image, label = super().__getitem__(index)
        return image * (1 - self.turn / 10), label


class Fading(Pictures):
    """The source gets darker each time it is read."""

    def __getitem__(self, index: int) -> Sample:
        self.images[index] *= 0.99
        return self.images[index].clone(), self.labels[index]


class Stamped(Pictures):
    """Each picture has the time at which it was read, and how long the worker has been at it."""

    started: float | None = None

    def __getitem__(self, index: int) -> Any:
        self.started = self.started or time.perf_counter()
        return super().__getitem__(index)[0], time.time(), time.perf_counter() - self.started


class Reseeding(Pictures):
    """Brightness is drawn from the worker's seed and a counter."""

    drawn = 0

    def __getitem__(self, index: int) -> Sample:
        self.drawn += 1
        image, label = super().__getitem__(index)
        return image * np.random.default_rng((torch.initial_seed(), self.drawn)).uniform(0.5, 1.0), label


class Warming(Pictures):
    """Pictures are mixed with some that were read before, once there are six of them."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer: deque[int] = deque(maxlen=100)

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        if len(self.buffer) >= 6:
            image = (image + self.images[random.choice(self.buffer)]) / 2
        self.buffer.append(index)
        return image, label


class Mosaic(Pictures):
    """Pictures mixed with some that were read before, once there are enough of them."""

    def __init__(self, warm: int = 4) -> None:
        super().__init__()
        self.buffer: deque[int] = deque(maxlen=8)
        self.warm = warm

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        self.buffer.append(index)
        if len(self.buffer) >= self.warm:
            others = random.choices(list(self.buffer), k=3)
            image = (image + sum(self.images[other] for other in others)) / 4
        return image, label


class HeldMosaic(Mosaic):
    """The partners are drawn from a generator that is held."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index: int) -> Sample:
        image, label = Pictures.__getitem__(self, index)
        self.buffer.append(index)
        return (image + self.images[int(self.rng.choice(list(self.buffer)))]) / 2, label


def losing() -> dict[str, DataLoader[Any]]:
    return {
        "augmented": anew(Counting(transform=brighten), num_workers=1),
        "transform": anew(Pictures(transform=Darken()), batch_size=None),
        "collate": anew(Pictures(), collate_fn=CollateDarker()),
        "several": anew(Several()),
        "cursor": anew(Cursor()),
        "vocabulary": kept(Words()),
        "stream": anew(Reader()),
    }


def keeping() -> dict[str, DataLoader[Any]]:
    return {
        "one": kept(Counting(), num_workers=1),
        "shared": kept(ShownCounter()),
        "memory": kept(Remembering()),
        "mosaic": anew(Mosaic()),
        "mosaic_kept": kept(Mosaic(warm=1)),
        "warming": anew(Warming()),
        "held": anew(HeldMosaic()),
        "previous": anew(Paired()),
        "round": anew(Round()),
        "stamped": anew(Stamped()),
        "reseeding": anew(Reseeding()),
        "reseeding_kept": kept(Reseeding()),
        "told": anew(EpochStream()),
        "shuffling": anew(Shuffling()),
        "leftover": anew(Leftover()),
    }


def unclear() -> dict[str, DataLoader[Any]]:
    return {"in_place": anew(Fading()), "in_place_kept": kept(Fading())}
