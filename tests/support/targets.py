"""Simple targets for tests: datasets, a loader, factories, and what is found in them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset

from dataguard.targets.loading import Target

KINDS = (
    "not a DataLoader, a Dataset, a dict, tuple or dataclass of them, a LightningDataModule, or an iterable of batches"
)


class Ten(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index


class Plain:
    """No torch Dataset, but one to a DataLoader."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(10))


class Foreign:
    """A loader that torch knows nothing of."""

    def __init__(self):
        self.dataset = Ten()

    def __iter__(self):
        return iter(range(10))


class Gathered(Plain):
    """As fastai gathers its loaders: by length and index it could be a dataset."""

    def __init__(self):
        self.loaders = [Foreign(), Foreign()]


def loader(**arguments: Any) -> DataLoader:
    return DataLoader(Ten(), **{"batch_size": 5, **arguments})


def target(source: Any) -> Target:
    return Target("make", "pkg.mod:make", source)


def names(source: Any) -> list[str]:
    return list(target(source).build_all())


@dataclasses.dataclass
class Data:
    train: Any
    val: Any = None
    classes: int = 10


class Make:
    """Factories as methods and as instances."""

    def __init__(self, batch_size: int = 5) -> None:
        self.batch_size = batch_size

    def __call__(self) -> DataLoader:
        return loader(batch_size=self.batch_size)

    def plainly(self) -> DataLoader:
        return self()

    @classmethod
    def by_class(cls) -> DataLoader:
        return cls(2)()

    @staticmethod
    def statically() -> DataLoader:
        return loader(batch_size=2)

    @functools.cached_property
    def held(self) -> DataLoader:
        return self()
