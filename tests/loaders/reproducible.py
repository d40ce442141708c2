"""Loaders with a step that differs from run to run, and others that only look as if they had one."""

from __future__ import annotations

import datetime
import os
import queue
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from dataguard.training import make_generator, seed_everything, seed_worker

IMAGES = torch.arange(64.0)[:, None, None, None].expand(64, 3, 8, 8) / 64

SOURCES: dict[str, Callable[[Any], float]] = {
    "default_rng": lambda _: np.random.default_rng().random(),
    "RandomState": lambda _: np.random.RandomState().rand(),
    "Random": lambda _: random.Random().random(),
    "SystemRandom": lambda _: random.SystemRandom().random(),
    "urandom": lambda _: os.urandom(1)[0] / 255,
    "secrets": lambda _: secrets.randbelow(1000) / 1000,
    "time": lambda _: time.time() % 1,
    "perf_counter": lambda _: time.perf_counter() % 1,
    "now": lambda _: datetime.datetime.now().microsecond / 1e6,
    "id": lambda image: id(image) // 16 % 997 / 997,
    "pid": lambda _: os.getpid() % 997 / 997,
}
"""Numbers that differ from run to run, given an image."""


class Steady:
    """A step that draws from torch's generator, which the seed decides."""

    def __call__(self, image: Tensor) -> Tensor:
        return image * (0.5 + torch.rand(()))


class Planted:
    """A step that multiplies by a number of one of the sources."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __call__(self, image: Tensor) -> Tensor:
        return image * (1 + SOURCES[self.source](image))


class Chain:
    def __init__(self, steps: list[Any]) -> None:
        self.steps = steps

    def __call__(self, image: Tensor) -> Tensor:
        for step in self.steps:
            image = step(image)
        return image


class Nested(Dataset[Tensor]):
    """Steps in attributes of their own."""

    def __init__(self, steps: list[Any]) -> None:
        self.first, self.rest = steps[0], Chain(steps[1:])

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> Tensor:
        return self.rest(self.first(IMAGES[index]))


class Chained(Nested):
    """Steps in one chain."""

    def __init__(self, steps: list[Any]) -> None:
        self.transform = Chain(steps)

    def __getitem__(self, index: int) -> Tensor:
        return self.transform(IMAGES[index])


class Streamed(IterableDataset[Tensor]):
    def __init__(self, steps: list[Any]) -> None:
        self.transform = Chain(steps)

    def __iter__(self) -> Iterator[Tensor]:
        return map(self.transform, IMAGES)


KINDS: dict[str, Callable[[list[Any]], Any]] = {"chained": Chained, "nested": Nested, "stream": Streamed}


def planted() -> dict[str, DataLoader[Any]]:
    """The pipelines of PLANTED, such as `chained-2-of-3-time-w1`: the planted step, the source, num_workers."""
    found = {}
    for name in os.environ["PLANTED"].split():
        kind, place, _, count, source, workers = name.split("-")
        steps: list[Any] = [Steady() for _ in range(int(count))]
        steps[int(place) - 1] = Planted(source)
        data = KINDS[kind](steps)
        found[name] = DataLoader(data, batch_size=4, num_workers=int(workers[1:]), generator=torch.Generator())
    return found


def names(count: int) -> Iterator[str]:
    """The names of so many pipelines, over all kinds, places, sources and numbers of workers."""
    source = random.Random(7)
    every = list(SOURCES)
    for number in range(count):
        steps = source.randrange(2, 5)
        place = source.randrange(1, steps + 1)
        kind = list(KINDS)[number % len(KINDS)]
        yield f"{kind}-{place}-of-{steps}-{every[number % len(every)]}-w{source.randrange(3)}"


class Timed(Dataset[Any]):
    """Reads the clock for a log, and makes a temporary name."""

    def __init__(self) -> None:
        self.log: list[float] = []

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> tuple[Tensor, str]:
        self.log.append(time.time())
        return IMAGES[index], f"/tmp/{os.getpid()}/{index}"


class SeededLate(Dataset[Tensor]):
    """A generator that each process makes at its first read."""

    rng: np.random.Generator | None = None

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> Tensor:
        self.rng = self.rng or np.random.default_rng(torch.initial_seed())
        return IMAGES[index] * self.rng.random()


def _mixed(samples: list[Tensor]) -> Tensor:
    """Mixes samples by global random numbers."""
    batch = default_collate(samples)
    mixed: Tensor = batch * np.random.rand() + batch.flip(0) * random.random()
    return mixed


def clean() -> dict[str, DataLoader[Any]]:
    """Loaders that look as if their runs differed."""
    seeded = torch.Generator().manual_seed(3)
    return {
        "timed": DataLoader(Timed(), batch_size=4, num_workers=2, generator=seeded),
        "late": DataLoader(SeededLate(), batch_size=4, num_workers=2, shuffle=True, generator=seeded),
        "mixed": DataLoader(TensorDataset(IMAGES), batch_size=4, num_workers=1, collate_fn=_mixed_rows),
        "unseeded": DataLoader(Chained([Planted("default_rng")]), batch_size=4, num_workers=2),
    }


def _mixed_rows(samples: list[tuple[Tensor]]) -> Tensor:
    return _mixed([row for (row,) in samples])


def _read(into: queue.Queue[int], number: int) -> None:
    into.put(number)


class Queued(Dataset[Tensor]):
    """Threads put the parts of a sample into one queue."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Tensor:
        parts: queue.Queue[int] = queue.Queue()
        threads = [threading.Thread(target=_read, args=(parts, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return torch.tensor([float(parts.get() + index) for _ in threads])


def queued() -> DataLoader[Any]:
    return DataLoader(Queued(), batch_size=4)


def unordered() -> dict[str, DataLoader[Any]]:
    """Batches that arrive as workers finish; an evaluation is unharmed."""
    options: dict[str, Any] = {"batch_size": 4, "num_workers": 2, "in_order": False}
    return {"train": DataLoader(SeededLate(), **options), "val": DataLoader(TensorDataset(IMAGES), **options)}


class Augmented(Dataset[Tensor]):
    """Draws from every generator that a process shares."""

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> Tensor:
        noise = cv2.randn(np.zeros(1, np.float32), 0, 1)[0]
        return IMAGES[index] * random.random() + np.random.rand() + torch.rand(()) + float(noise)


def recommended(seed: int = 0) -> DataLoader[Any]:
    """Seeded as `dataguard.training` recommends."""
    seed_everything(seed)
    options: dict[str, Any] = {"worker_init_fn": seed_worker, "generator": make_generator(seed)}
    return DataLoader(Augmented(), batch_size=4, shuffle=True, num_workers=2, **options)


class OwnLoader(DataLoader[Any]):
    """Handles batches itself, so that it may count on its workers."""

    def __iter__(self) -> Any:
        return super().__iter__()


def spawned() -> DataLoader[Any]:
    return OwnLoader(TensorDataset(IMAGES[:8]), batch_size=4, num_workers=1, multiprocessing_context="spawn")


class Drawn(Dataset[Tensor]):
    """Samples that a seed, the epoch and the index decide, and no worker."""

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> Tensor:
        return IMAGES[index] * torch.rand((), generator=torch.Generator().manual_seed(1000 + index))


def seeded(scale: float = 1.0) -> DataLoader[Any]:
    """The same data in every process; `scale` changes what `collate_fn` makes of them."""
    order = torch.Generator().manual_seed(5)
    return DataLoader(Drawn(), batch_size=8, shuffle=True, generator=order, collate_fn=Scaled(scale))


class Scaled:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, samples: list[Tensor]) -> Tensor:
        return torch.stack(samples) * self.scale


def unseeded() -> DataLoader[Any]:
    """One step draws from a generator that nobody seeds."""
    return DataLoader(Chained([Steady(), Planted("default_rng")]), batch_size=4)
