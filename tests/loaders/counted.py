"""Loaders whose reads are counted by the observation that makes them; see `tests.support.reads`."""

from __future__ import annotations

import json
import mmap
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from dataguard.lab.core.observation_cache import ObservationCache

LOG = "COUNTED_READS"
"""The environment variable with the path of a file that gets a line for each observation: its name, and its reads."""
MOST_OBSERVATIONS = 512


class Counter:
    """Counts reads by observation, in memory that forks share."""

    def __init__(self) -> None:
        self._counts = mmap.mmap(-1, 8 * MOST_OBSERVATIONS)
        self._numbers: dict[object, int] = {}
        self._own = 0

    def note(self) -> None:
        """Count a read of the observation that this process makes."""
        self._set(self._own, 1 + self.count(self._own))

    def count(self, observation: int) -> int:
        """The reads of an observation so far."""
        return int(struct.unpack_from("q", self._counts, 8 * observation)[0])

    def _set(self, observation: int, count: int) -> None:
        struct.pack_into("q", self._counts, 8 * observation, count)

    def install(self) -> None:
        """Have each observation of this process counted, and written to the log when it ends."""
        observe = ObservationCache.observe

        def counting(cache: Any, key: object, run: Callable[[Path], Any], *args: Any, **kwargs: Any) -> Any:
            number = self._numbers.setdefault((id(cache), key), 1 + len(self._numbers))

            def counted(folder: Path) -> Any:
                self._own = number
                return run(folder)

            try:
                return observe(cache, key, counted, *args, **kwargs)
            finally:
                if count := self.count(number):
                    self._set(number, 0)
                    with Path(os.environ[LOG]).open("a") as log:
                        log.write(json.dumps([_name_of(key), count]) + "\n")

        ObservationCache.observe = counting  # type: ignore[method-assign,assignment]


def _name_of(key: object) -> str:
    """The words of a key, without its numbers."""
    first = next((part for part in key if isinstance(part, str)), "") if isinstance(key, tuple) else key
    return re.split("[/:]", first if isinstance(first, str) else type(first).__name__)[0]


counter: Counter = getattr(ObservationCache, "counter", None) or Counter()  # kept when this module is imported anew
if LOG in os.environ and not hasattr(ObservationCache, "counter"):
    ObservationCache.counter = counter  # type: ignore[attr-defined]
    counter.install()


class Noisy(Dataset[Any]):
    """Tensors in memory with noise of the global generator."""

    def __init__(self, size: int = 2000) -> None:
        self.images = torch.randn(256, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        counter.note()
        index = range(self.size)[index]
        return self.images[index % 256] * (1 + index / self.size) + 0.1 * torch.randn(3, 16, 16), index % 10


class Steady(Dataset[Any]):
    """Rows of an array, as they are."""

    def __init__(self) -> None:
        self.rows = np.random.default_rng(1).normal(size=(500, 12)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        counter.note()
        return {"features": self.rows[index], "target": int(self.rows[index].sum() > 0)}


class Numbers(IterableDataset[Any]):
    """A stream that workers share out."""

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for number in range(first, 600, step):
            counter.note()
            yield torch.full((4,), float(number)) + torch.rand(4)


def train() -> DataLoader[Any]:
    """Training with two workers."""
    return DataLoader(Noisy(), batch_size=16, shuffle=True, num_workers=2)


def validation() -> DataLoader[Any]:
    """Evaluation without workers or randomness."""
    return DataLoader(Steady(), batch_size=32)


def stream() -> DataLoader[Any]:
    """A stream with two workers."""
    return DataLoader(Numbers(), batch_size=8, num_workers=2)


def splits() -> Mapping[str, DataLoader[Any]]:
    """Two splits of one data set."""
    steady = Steady()
    return {
        "train": DataLoader(Subset(steady, range(400)), batch_size=16, shuffle=True),
        "val": DataLoader(Subset(steady, range(400, 500)), batch_size=16),
    }
