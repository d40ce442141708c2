"""What many samples are made of: numbered pictures, sources of randomness, a worker's share of a stream."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

T = TypeVar("T")

PHOTOGRAPHS = sorted((Path(__file__).parent / "images").glob("*/*"))
"""The image files that ship with the samples."""


def picture(number: int, height: int = 8, width: int = 8) -> Tensor:
    """A picture of its own for every number: (3, height, width), float32 in [0, 1]."""
    start = number * 0.618034 % 1
    return torch.linspace(start, start + 1, 3 * height * width).remainder(1).reshape(3, height, width)


def scratch(prefix: str) -> Path:
    """A folder for the files of a scan, removed when the process ends that makes it.

    Made while a module is imported, so that all forks of that process find the same files there.
    """
    made = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def stored(path: Path, write: Callable[[Path], object]) -> Path:
    """A file under the temporary folder, written once, and whole at any moment: other processes may be reading it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            new = Path(folder) / path.name
            write(new)
            new.replace(path)
    return path


class Pictures(Dataset[tuple[Tensor, int]]):
    """Pictures held in memory, with labels of four classes."""

    def __init__(self, count: int = 16, transform: Callable[[Tensor], Tensor] | None = None) -> None:
        self.images = torch.stack([picture(number) for number in range(count)])
        self.labels = [number % 4 for number in range(count)]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.images[index]  # culprit
        return (self.transform(image) if self.transform else image), self.labels[index]


class EpochSeededPictures(Pictures):
    """Pictures whose brightness is drawn from epoch and index."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:  # culprit
        """Tell the epoch before its workers start."""
        self.epoch = epoch

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        number = range(len(self))[index]
        return image * np.random.default_rng((self.epoch, number)).uniform(0.5, 1.0), label


class UniformSource(Protocol):
    """What numpy's generators and `random.Random` have in common."""

    def uniform(self, low: float, high: float, /) -> float:
        """A number between low and high."""


def brighten(image: Tensor) -> Tensor:
    """Scale by a random factor from torch's global generator, which torch seeds anew in every worker and epoch."""
    return image * torch.empty(()).uniform_(0.5, 1.0)


class Brighten:
    """Scale by a random factor from a generator that this object holds: workers start with equal copies of it."""

    def __init__(self, source: UniformSource) -> None:
        self.source = source

    def __call__(self, image: Tensor) -> Tensor:
        return image * self.source.uniform(0.5, 1.0)


class LazyBrighten:
    """Scale by a random factor from a generator that is created on first use, hence in each worker, from its seed."""

    def __init__(self) -> None:
        self.source: np.random.Generator | None = None

    def __call__(self, image: Tensor) -> Tensor:
        if self.source is None:
            self.source = np.random.default_rng(torch.initial_seed())
        return image * self.source.uniform(0.5, 1.0)


def share(items: Iterable[T]) -> Iterator[T]:
    """This worker's share of a stream: every n-th item with n workers, all of it in the main process."""
    worker = get_worker_info()
    return islice(items, worker.id, None, worker.num_workers) if worker else iter(items)


class Forever:
    """Repeats an index sampler without end."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.sampler


class Lasting(DataLoader[Any]):
    """Keeps one iterator for all epochs, so that its workers start once."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        object.__setattr__(self, "batch_sampler", Forever(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self) -> int:
        return len(self.batch_sampler.sampler)  # type: ignore[union-attr]

    def __iter__(self) -> Any:
        for _ in range(len(self)):
            yield next(self.iterator)
