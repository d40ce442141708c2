"""DG701 unreproducible-run: two runs with the same seeds give different batches."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate, get_worker_info

from sample_datasets._parts import Pictures

Step = Callable[[Tensor], Tensor]


class Pipeline:
    """Steps, one after the other."""

    def __init__(self, *steps: Step) -> None:
        self.steps = steps

    def __call__(self, image: Tensor) -> Tensor:
        for step in self.steps:
            image = step(image)
        return image


class Contrast:
    """Contrast that is drawn from the generator torch seeds in each worker."""

    def __call__(self, image: Tensor) -> Tensor:
        return (image - 0.5) * (0.5 + torch.rand(())) + 0.5


class Noise:
    """Noise from a generator that each call makes anew, without a seed."""

    def __call__(self, image: Tensor) -> Tensor:
        return image + torch.from_numpy(np.random.default_rng().random(image.shape)).float()  # culprit


class SeededNoise:
    """Noise from a generator that each process seeds from its own seed."""

    rng: np.random.Generator | None = None

    def __call__(self, image: Tensor) -> Tensor:
        if self.rng is None:
            self.rng = np.random.default_rng(torch.initial_seed())
        return image + torch.from_numpy(self.rng.random(image.shape)).float()


def _loader(*steps: Step, seeded: bool = True, **options: Any) -> DataLoader[Any]:
    """A loader of pictures, shuffled by a generator with a seed or, if not `seeded`, by the global one."""
    generator = torch.Generator().manual_seed(0) if seeded else None
    pictures = Pictures(64, Pipeline(*steps))
    return DataLoader(pictures, batch_size=8, shuffle=True, generator=generator, num_workers=2, **options)


def bad() -> DataLoader[Any]:
    """The order is seeded, and noise is not."""
    return _loader(Contrast(), Noise())


class Clock:
    """Brightness by the time of day."""

    def __call__(self, image: Tensor) -> Tensor:
        return image * (1 + time.time() % 1)  # culprit


def bad_clock() -> DataLoader[Any]:
    """Images depend on the clock; nothing is seeded."""
    return _loader(Clock(), Contrast(), seeded=False)


class Addressed:
    """Brightness by the address of the image."""

    def __call__(self, image: Tensor) -> Tensor:
        return image * (1 + id(image) // 64 % 64 / 64)  # culprit


def bad_address() -> DataLoader[Any]:
    """Images depend on `id()`; nothing is seeded."""
    return _loader(Contrast(), Addressed(), seeded=False)


def bad_order() -> DataLoader[Any]:
    """The generator of the order gets another seed in every run."""
    loader = _loader(Contrast())
    loader.generator.seed()  # culprit
    return loader


def _shuffled(samples: Sequence[Any]) -> Any:
    return default_collate(random.SystemRandom().sample(list(samples), len(samples)))  # culprit


def bad_collate() -> DataLoader[Any]:
    """`collate_fn` draws from the system."""
    return _loader(Contrast(), collate_fn=_shuffled)


def good() -> DataLoader[Any]:
    """The same with a generator that each worker seeds."""
    return _loader(Contrast(), SeededNoise())


class WorkerNoise(Noise):
    """Noise without a seed in the main process, where samples are only looked at, but seeded in workers."""

    def __call__(self, image: Tensor) -> Tensor:
        info = get_worker_info()
        rng = np.random.default_rng(info.seed if info else None)
        return image + torch.from_numpy(rng.random(image.shape)).float()


def good_in_workers() -> DataLoader[Any]:
    """The workers that the loader has draw the same in every run."""
    return _loader(Contrast(), WorkerNoise())


def good_unseeded() -> DataLoader[Any]:
    """Noise without a seed, where nothing asks for the same batches."""
    return _loader(Contrast(), Noise(), seeded=False)


class Keyed(Pictures):
    """Pictures with a key and the time of reading, which no model is trained on."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return {"image": image, "label": label, "key": uuid.uuid4().hex, "read_time": time.time()}


def good_key() -> DataLoader[Any]:
    """A new key for each read."""
    return DataLoader(Keyed(), batch_size=4, generator=torch.Generator().manual_seed(0), num_workers=2)
