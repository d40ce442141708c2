"""DG313 reseeded-process: reading a sample seeds a generator that the training process draws from as well."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, default_collate

from sample_datasets._parts import Pictures, picture


class NoisyLabels(Pictures):
    """Pictures, a tenth of them with a wrong label: always the same ones."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        torch.manual_seed(range(len(self))[index])  # culprit
        return image, (label + 1) % 4 if torch.rand(()) < 0.1 else label


def bad() -> DataLoader[Any]:
    """torch is seeded by index, so that each sample has its own fixed label; and dropout starts there."""
    return DataLoader(NoisyLabels(), batch_size=4, shuffle=True)


class Masked(Pictures):
    """Pictures with one mask, which hides the same values of all of them."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        np.random.seed(0)  # culprit
        return image * torch.from_numpy(np.random.random(image.shape) < 0.9), label


def bad_validation() -> DataLoader[Any]:
    """One mask for all of validation is right; the training that continues after it repeats."""
    return DataLoader(Masked(), batch_size=4)


def collate_in_fixed_order(samples: Sequence[Any]) -> Any:
    """The rows of each batch in a mixed order of its own."""
    random.seed(sum(label for _, label in samples))  # culprit
    return default_collate(random.sample(list(samples), len(samples)))


def bad_collate() -> DataLoader[Any]:
    """`collate_fn` seeds Python's generator."""
    return DataLoader(Pictures(), batch_size=4, shuffle=True, collate_fn=collate_in_fixed_order)


class NoisyStream(IterableDataset[Tensor]):
    """Pictures with noise that belongs to each of them."""

    def __iter__(self) -> Iterator[Tensor]:
        for number in range(32):
            torch.manual_seed(number)  # culprit
            yield picture(number) + 0.1 * torch.rand(3, 8, 8)


def bad_stream() -> DataLoader[Any]:
    """A stream seeds torch by position."""
    return DataLoader(NoisyStream(), batch_size=4)


class EpochCounted(Pictures):
    """Wrong labels that follow from the index and from an epoch that the training loop counts."""

    epoch = 0

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        torch.manual_seed(self.epoch * len(self) + index)
        return image, (label + 1) % 4 if torch.rand(()) < 0.1 else label


def good_epoch_counted() -> DataLoader[Any]:
    """No state comes twice where training counts the epochs."""
    return DataLoader(EpochCounted(), batch_size=4)


class OwnGenerator(Pictures):
    """The same fixed labels, drawn from a generator of their own."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        generator = torch.Generator().manual_seed(range(len(self))[index])
        return image, (label + 1) % 4 if torch.rand((), generator=generator) < 0.1 else label


def good() -> DataLoader[Any]:
    """A generator by index leaves that of the process alone."""
    return DataLoader(OwnGenerator(), batch_size=4, shuffle=True)


class Restored(NoisyLabels):
    """The global generator is seeded, and restored after the read."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        with torch.random.fork_rng():
            return super().__getitem__(index)


def good_restored() -> DataLoader[Any]:
    """What the process draws does not depend on the read."""
    return DataLoader(Restored(), batch_size=4, shuffle=True)


def good_workers() -> DataLoader[Any]:
    """Workers seed their own copies of the generator."""
    return DataLoader(NoisyLabels(), batch_size=4, shuffle=True, num_workers=2)


class ByEpoch(Pictures):
    """Brightness by epoch and index, from Python's global generator."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Seeds differ in each epoch."""
        self.epoch = epoch

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        random.seed(f"{self.epoch} {range(len(self))[index]}")
        return image * random.uniform(0.5, 1.0), label


def good_epochs() -> DataLoader[Any]:
    """The state differs in each epoch."""
    return DataLoader(ByEpoch(), batch_size=4, shuffle=True)


class OnceSeeded(Pictures):
    """A table that is drawn at the first read, with a fixed seed."""

    table: Tensor | None = None

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        if self.table is None:
            torch.manual_seed(0)
            self.table = torch.rand(3, 8, 8)
        return image * self.table, label


def good_once() -> DataLoader[Any]:
    """torch is seeded at the first read, and never again."""
    return DataLoader(OnceSeeded(), batch_size=4, shuffle=True)
