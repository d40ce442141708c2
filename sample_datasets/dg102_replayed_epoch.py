"""DG102 replayed-epoch: every epoch draws the same random numbers.

The bad samples have distinct random numbers in each worker, or a single worker, so that none is cloned.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, default_collate, get_worker_info

from sample_datasets._parts import (
    Brighten,
    EpochSeededPictures,
    LazyBrighten,
    Pictures,
    UniformSource,
    brighten,
    picture,
    share,
)


def seed_by_id(worker_id: int) -> None:
    """Seed the worker from its number alone."""
    random.seed(worker_id)  # culprit
    np.random.seed(worker_id)  # culprit
    torch.manual_seed(worker_id)  # culprit


def bad() -> DataLoader[Any]:
    """Workers are started anew for each epoch, and seeded by their number each time."""
    return DataLoader(Pictures(transform=brighten), batch_size=4, num_workers=2, worker_init_fn=seed_by_id)


def bad_one_worker() -> DataLoader[Any]:
    """Each epoch starts a worker with a copy of the same, never advanced generator."""
    dataset = Pictures(transform=Brighten(np.random.default_rng(0)))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=1)


def bad_python_random() -> DataLoader[Any]:
    """The generator that is never advanced is a `random.Random`."""
    return DataLoader(Pictures(transform=Brighten(random.Random(0))), batch_size=4, num_workers=1)  # culprit


def add_cv2_noise(image: Tensor) -> Tensor:
    """Add noise from cv2's own generator, which nobody seeds in a worker."""
    import cv2

    noise = np.empty((8, 8), dtype=np.float32)
    cv2.randu(noise, 0.0, 0.1)  # culprit
    return image + torch.from_numpy(noise)


def bad_cv2() -> DataLoader[Any]:
    """cv2's generator starts alike in each epoch's worker."""
    return DataLoader(Pictures(transform=add_cv2_noise), batch_size=4, num_workers=1)  # culprit


class BrightenUnderNoise(Brighten):
    """Healthy noise on top of a brightness from a generator that is held."""

    def __call__(self, image: Tensor) -> Tensor:
        return super().__call__(image) + 0.1 * torch.randn_like(image)


def bad_beside_healthy() -> DataLoader[Any]:
    """No two epochs are equal, thanks to healthy noise, but their brightness is replayed."""
    dataset = Pictures(transform=BrightenUnderNoise(np.random.default_rng(0)))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=1)


class BrightenTwice(Brighten):
    """Scale by a factor from a generator that is made in the worker, then by one from a generator that is held."""

    def __init__(self, source: UniformSource) -> None:
        super().__init__(source)
        self.before = LazyBrighten()

    def __call__(self, image: Tensor) -> Tensor:
        return super().__call__(self.before(image))


def bad_under_another() -> DataLoader[Any]:
    """A replayed brightness on top of a healthy one: no two epochs are equal."""
    dataset = Pictures(transform=BrightenTwice(np.random.default_rng(0)))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=1)


class FlipByCoin(Brighten):
    """Mirror every other picture, by the toss of a coin from a generator that is held."""

    def __call__(self, image: Tensor) -> Tensor:
        return image.flip(-1) if self.source.uniform(0, 1) < 0.5 else image


def bad_coin() -> DataLoader[Any]:
    """The only random thing is a coin, and it falls alike in every epoch."""
    dataset = Pictures(transform=FlipByCoin(np.random.default_rng(0)))  # culprit
    return DataLoader(dataset, batch_size=4, num_workers=1)


class BrightenBatch:
    """A collate function that scales the whole batch by a factor from the generator it holds."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)  # culprit

    def __call__(self, samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        images, labels = default_collate(samples)
        return images * self.rng.uniform(0.5, 1.0), labels


def bad_collate() -> DataLoader[Any]:
    """The generator that is never advanced is held by the collate function."""
    return DataLoader(Pictures(), batch_size=4, num_workers=1, collate_fn=BrightenBatch())


def good() -> DataLoader[Any]:
    """Workers stay, each with a generator made from its own seed."""
    dataset = Pictures(transform=LazyBrighten())
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)


def good_restarted() -> DataLoader[Any]:
    """Workers are started anew, but torch gives them another seed in each epoch."""
    return DataLoader(Pictures(transform=LazyBrighten()), batch_size=4, num_workers=2)


def good_persistent() -> DataLoader[Any]:
    """The only worker stays, and so does the generator it has copied."""
    dataset = Pictures(transform=Brighten(np.random.default_rng(0)))
    return DataLoader(dataset, batch_size=4, num_workers=1, persistent_workers=True)


def good_main() -> DataLoader[Any]:
    """Without workers, nothing is copied."""
    return DataLoader(Pictures(transform=Brighten(np.random.default_rng(0))), batch_size=4)


def good_deterministic() -> DataLoader[Any]:
    """Epochs are equal, since nothing is random."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2)


def good_epoch_index() -> DataLoader[Any]:
    """Numbers follow epoch and index, never the position in the epoch."""
    return DataLoader(EpochSeededPictures(), batch_size=4, num_workers=2)


class EpochLoader(DataLoader[Any]):
    """A loader that counts its epochs and tells its dataset."""

    def __iter__(self) -> Any:
        dataset: Any = self.dataset
        dataset.epoch += 1
        return super().__iter__()


def seed_by_epoch_and_id(worker_id: int) -> None:
    """Seed the worker from the epoch and its number."""
    worker: Any = get_worker_info()
    np.random.seed((worker.dataset.epoch, worker_id))


class CountedPictures(Pictures):
    """Pictures that know the epoch."""

    epoch = 0


def brighten_from_numpy(image: Tensor) -> Tensor:
    """Scale by a random factor from numpy's global generator."""
    return image * np.random.uniform(0.5, 1.0)


def good_seed_and_epoch() -> DataLoader[Any]:
    """Workers are seeded by their number, together with the epoch that the loader counts."""
    dataset = CountedPictures(transform=brighten_from_numpy)
    return EpochLoader(dataset, batch_size=4, num_workers=2, worker_init_fn=seed_by_epoch_and_id)


def seed_numpy(worker_id: int) -> None:
    """Seed numpy from the seed that torch gave to this worker for this epoch."""
    np.random.seed(torch.initial_seed() % 2**32)


def good_worker_init() -> DataLoader[Any]:
    """The `worker_init_fn` seeds, but from a seed that torch changes with every epoch."""
    dataset = Pictures(transform=brighten_from_numpy)
    return DataLoader(dataset, batch_size=4, num_workers=2, worker_init_fn=seed_numpy)


class SeededStream(IterableDataset[Tensor]):
    """Each worker streams its share of many pictures, brightened from numpy's global generator."""

    def __iter__(self) -> Iterator[Tensor]:
        return (brighten_from_numpy(picture(number)) for number in share(range(64)))


def bad_stream() -> DataLoader[Any]:
    """The workers of a stream start every epoch from the same seeds."""
    return DataLoader(SeededStream(), batch_size=4, num_workers=2, worker_init_fn=seed_by_id)


def good_stream() -> DataLoader[Any]:
    """The same stream, left to the seeds that torch gives."""
    return DataLoader(SeededStream(), batch_size=4, num_workers=2)
