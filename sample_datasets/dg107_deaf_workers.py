"""DG107 deaf-workers: what the main process changes between epochs does not reach workers that live on."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, RandomSampler

from sample_datasets._parts import EpochSeededPictures, Pictures, brighten, picture, share

Sample = tuple[Tensor, int]


def loader(dataset: Any, **settings: Any) -> DataLoader[Any]:
    """A loader whose workers live on from epoch to epoch."""
    settings = {"batch_size": 4, "num_workers": 2, "persistent_workers": True, **settings}
    return DataLoader(dataset, **settings)


class Curriculum(Pictures):
    """Pictures that get darker with each epoch."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch."""
        self.epoch = epoch

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return image / (1 + self.epoch), label


def bad() -> DataLoader[Any]:
    """A curriculum that goes by the epoch stays in the first one."""
    return loader(Curriculum())


def bad_epoch_seeded() -> DataLoader[Any]:
    """Augmentation that is seeded from epoch and index never hears of a second epoch."""
    return loader(EpochSeededPictures())


class EpochStream(IterableDataset[Sample]):
    """A stream that is shuffled by its epoch."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[Sample]:
        order = list(range(48))
        random.Random(self.epoch).shuffle(order)
        for number in share(order):
            yield picture(number), number


def bad_stream() -> DataLoader[Any]:
    """A stream keeps the order of the first epoch."""
    return loader(EpochStream())


class StagedSampler(RandomSampler):
    """A sampler that also takes the dataset to its next stage."""

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch, to the dataset as well."""
        dataset: Any = self.data_source
        dataset.epoch = epoch


class Staged(Pictures):
    """Pictures that get darker with each stage."""

    epoch = 0

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return image / (1 + self.epoch), label


def bad_sampler() -> DataLoader[Any]:
    """The sampler changes the dataset, of which workers have copies."""
    dataset = Staged()
    return loader(dataset, sampler=StagedSampler(dataset))


def good() -> DataLoader[Any]:
    """Workers that start anew for each epoch take its number along."""
    return loader(Curriculum(), persistent_workers=False)


class SharedCurriculum(Curriculum):
    """A curriculum whose epoch lies in memory that workers share."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = torch.zeros((), dtype=torch.long).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch to every worker."""
        self.shared.fill_(epoch)

    def __getitem__(self, index: int) -> Sample:
        image, label = Pictures.__getitem__(self, index)
        return image / (1 + float(self.shared)), label


def good_shared() -> DataLoader[Any]:
    """Workers see the epoch in shared memory."""
    return loader(SharedCurriculum())


class ValueStream(EpochStream):
    """A stream whose epoch is a value that processes share."""

    def __init__(self) -> None:
        super().__init__()
        self.value = multiprocessing.get_context("spawn").Value("i", 0)

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch to every worker."""
        self.value.value = epoch

    def __iter__(self) -> Iterator[Sample]:
        self.epoch = self.value.value
        return super().__iter__()


def good_shared_stream() -> DataLoader[Any]:
    """A stream is shuffled by an epoch that its workers see."""
    return loader(ValueStream())


class Counted(Pictures):
    """Pictures with a `set_epoch` that is only for the log."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Remember the epoch."""
        self.epoch = epoch


def good_unused() -> DataLoader[Any]:
    """No sample depends on the epoch."""
    return loader(Counted(transform=brighten))


class Backdrop(Counted):
    """Pictures before a backdrop that each worker makes up once."""

    backdrop: Tensor | None = None

    def __getitem__(self, index: int) -> Sample:
        if self.backdrop is None:
            self.backdrop = torch.rand(8, 8, generator=torch.Generator().manual_seed(torch.initial_seed()))
        image, label = super().__getitem__(index)
        return image + self.backdrop, label


def good_made_up() -> DataLoader[Any]:
    """Samples change with the worker that reads them, not with the epoch."""
    return loader(Backdrop())
