"""The loaders that benchmarks scan."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


def folder_of_jpegs(copies: int = 1) -> DataLoader[Any]:
    """A training loader over the JPEGs in the folder that DATAGUARD_BENCH names, each listed `copies` times."""
    from torchvision import datasets, transforms

    transform = transforms.Compose(
        [
            transforms.RandomResizedCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    folder = datasets.ImageFolder(os.environ["DATAGUARD_BENCH"], transform)
    folder.samples = folder.samples * copies
    return DataLoader(folder, batch_size=32, shuffle=True, num_workers=2)


def folder_of_many_jpegs() -> DataLoader[Any]:
    """The same with a hundred times as many indices."""
    return folder_of_jpegs(copies=100)


class Dealt(IterableDataset[torch.Tensor]):
    """Four hundred numbers, dealt out among ranks and workers."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.numbers = range(400)[rank::world_size]

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        return (torch.full((8,), float(number)) for number in self.numbers[start::step])


def stream_on_ranks(rank: int, world_size: int) -> DataLoader[Any]:
    """A stream that knows of ranks."""
    return DataLoader(Dealt(rank, world_size), batch_size=4, num_workers=2)


def write_jpegs(folder: Path, count: int = 1000, size: tuple[int, int] = (500, 375)) -> None:
    """Write `count` JPEGs of noisy gradients, which compress about as badly as photographs, in two classes."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    across = np.linspace(0, 200, size[0])[None, :, None] * np.ones((size[1], 1, 3))
    for number in range(count):
        noise = (
            rng.integers(0, 56, (size[1] // 5 + 1, size[0] // 5 + 1, 3)).repeat(5, 0).repeat(5, 1)[: size[1], : size[0]]
        )
        path = folder / f"class{number % 2}" / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((across + noise).astype(np.uint8)).save(path, quality=90)


class Cheap(Dataset[tuple[torch.Tensor, int]]):
    """Ten thousand samples that take no time, with numbers of their own."""

    def __init__(self) -> None:
        self.numbers = torch.rand(10_000, 16)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.numbers[index], index % 10


def cheap_train() -> DataLoader[Any]:
    """A training loader over them."""
    return DataLoader(Cheap(), batch_size=32, shuffle=True, num_workers=2)


class Counted(Cheap):
    """Takes down each read outside of workers, by a byte in the file that DATAGUARD_BENCH_READS names."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if multiprocessing.parent_process() is None:
            with Path(os.environ["DATAGUARD_BENCH_READS"]).open("ab") as log:
                log.write(b".")
        return super().__getitem__(index)


def counted_train() -> DataLoader[Any]:
    """A training loader over those."""
    return DataLoader(Counted(), batch_size=32, shuffle=True, num_workers=2)


class Slow(Cheap):
    """Samples that take 200 ms each."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.2)
        return super().__getitem__(index)


def slow_train() -> DataLoader[Any]:
    """A training loader over those."""
    return DataLoader(Slow(), batch_size=32, shuffle=True, num_workers=2)
