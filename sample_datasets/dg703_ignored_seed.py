"""DG703 ignored-seed: runs with different seeds read the same random order, or draw the same augmentation."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler, random_split

from sample_datasets._parts import Brighten, LazyBrighten, Pictures, brighten


def bad(seed: int = 0) -> DataLoader[Any]:
    """The generator of the order gets a constant in place of the seed."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(0)  # culprit
    return DataLoader(Pictures(), batch_size=4, shuffle=True, generator=generator)


def bad_global(seed: int) -> DataLoader[Any]:
    """The factory seeds torch with a constant, whatever seed it is given."""
    torch.manual_seed(42)  # culprit
    return DataLoader(Pictures(transform=brighten), batch_size=4, shuffle=True, num_workers=2)


class ByEpoch(Sampler[int]):
    """Another permutation in each epoch, by its number alone."""

    def __init__(self, dataset: Sized, seed: int = 0) -> None:
        self.count = len(dataset)
        self.seed = seed
        self.epoch = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        yield from np.random.default_rng((self.seed, self.epoch)).permutation(self.count).tolist()


def bad_sampler(seed: int) -> DataLoader[Any]:
    """A sampler has a seed of its own, which nobody sets."""
    pictures = Pictures(transform=LazyBrighten())
    return DataLoader(pictures, batch_size=4, num_workers=2, sampler=ByEpoch(pictures))  # culprit


def seed_by_id(worker_id: int) -> None:
    """Seed numpy from the number of the worker alone."""
    np.random.seed(1234 + worker_id)  # culprit


def brighten_by_numpy(image: Tensor) -> Tensor:
    """Scale by a random factor from numpy's global generator."""
    return image * float(np.random.uniform(0.5, 1.0))


def bad_worker_init(seed: int) -> DataLoader[Any]:
    """Workers are seeded by their number, and live for all epochs."""
    generator = torch.Generator().manual_seed(seed)
    pictures = Pictures(transform=brighten_by_numpy)
    return DataLoader(
        pictures,
        batch_size=4,
        shuffle=True,
        num_workers=2,
        generator=generator,
        worker_init_fn=seed_by_id,
        persistent_workers=True,
    )


def bad_held(seed: int) -> DataLoader[Any]:
    """A transform holds a generator with a seed of its own."""
    torch.manual_seed(seed)
    return DataLoader(Pictures(transform=Brighten(np.random.default_rng(0))), batch_size=4, shuffle=True)  # culprit


def good(seed: int = 0) -> DataLoader[Any]:
    """The generator of the order gets the seed."""
    return DataLoader(Pictures(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(seed))


def good_workers(seed: int) -> DataLoader[Any]:
    """Order and augmentation follow from torch's seed."""
    torch.manual_seed(seed)
    pictures = Pictures(transform=LazyBrighten())
    return DataLoader(pictures, batch_size=4, shuffle=True, num_workers=2)


def good_held(seed: int) -> DataLoader[Any]:
    """A transform holds a generator with the seed of the run."""
    return DataLoader(Pictures(transform=Brighten(np.random.default_rng(seed))), batch_size=4, shuffle=True)


def good_sampler(seed: int) -> DataLoader[Any]:
    """The sampler derives each order from seed and epoch."""
    pictures = Pictures(transform=LazyBrighten())
    return DataLoader(pictures, batch_size=4, num_workers=2, sampler=ByEpoch(pictures, seed))


def good_split(seed: int) -> DataLoader[Any]:
    """The split is one and the same for all seeds; order and augmentation follow from the seed."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(0)
    training, _ = random_split(Pictures(32, brighten), [24, 8], generator)
    return DataLoader(training, batch_size=4, shuffle=True, num_workers=2)


def good_validation(seed: int) -> DataLoader[Any]:
    """Every run validates on the same random crops, in the same order."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(0)
    return DataLoader(Pictures(), batch_size=4, shuffle=True, generator=generator)


def good_unseeded() -> DataLoader[Any]:
    """A constant seed, where a run has no other one."""
    generator = torch.Generator().manual_seed(0)
    return DataLoader(Pictures(), batch_size=4, shuffle=True, generator=generator)


def good_in_order(seed: int) -> DataLoader[Any]:
    """The order of the dataset, and nothing random; the seed is for the model."""
    torch.manual_seed(seed)
    return DataLoader(Pictures(), batch_size=4)
