"""Loaders whose factories say how often they are called, and what they leave behind in their process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

KEPT: list[Any] = []
"""What a factory leaves behind for as long as its process lives."""


def count() -> None:
    with Path(os.environ["CALLS"]).open("a") as file:
        file.write("called\n")


class Noisy(Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.arange(8.0) * (range(64)[index] + 1) + torch.rand(8), index % 4


def make() -> dict[str, DataLoader]:
    count()
    return {
        "train": DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=2),
        "val": DataLoader(Noisy(), batch_size=8),
    }


def make_plain() -> DataLoader:
    return DataLoader(Noisy(), batch_size=8)


def make_two() -> dict[str, DataLoader]:
    return {"train": make_plain(), "val": make_plain()}


class Forever(DataLoader):
    """Starts its workers while it is constructed, and wraps what deals out its batches."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Again(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self) -> int:
        return len(self.batch_sampler.sampler)  # type: ignore[union-attr]

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        for _ in range(len(self)):
            yield next(self.iterator)


class Again:
    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from iter(self.sampler)


def make_forever() -> DataLoader:
    count()
    return Forever(Noisy(), batch_size=8, shuffle=True, num_workers=2)


def _thread() -> None:
    thread = threading.Thread(target=time.sleep, args=(60,), daemon=True)
    thread.start()


def _process() -> None:
    KEPT.append(subprocess.Popen(["sleep", "60"]))


def _shared() -> None:
    KEPT.append(torch.zeros(4).share_memory_())


def _sockets() -> None:
    KEPT.append(socket.socketpair())


def _lock() -> None:
    KEPT.append(multiprocessing.Lock())


def _handler() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: None)


def _timer() -> None:
    signal.setitimer(signal.ITIMER_PROF, 3600)


def _clock() -> None:
    time.time = lambda: 0.0


LEAVES: dict[str, tuple[Callable[[], None], str]] = {
    "thread": (_thread, "threads"),
    "process": (_process, "processes"),
    "shared": (_shared, "shared memory"),
    "sockets": (_sockets, "sockets or pipes"),
    "lock": (_lock, "shared memory"),
    "handler": (_handler, "signal handler"),
    "timer": (_timer, "timer"),
    "clock": (_clock, "functions of os, signal or time"),
}


def make_leaving() -> DataLoader:
    count()
    LEAVES[os.environ["LEAVES"]][0]()
    return DataLoader(Noisy(), batch_size=8)


def make_with_bar() -> DataLoader:
    """Shows a progress bar, which leaves a thread that redraws it and a lock."""
    count()
    for _ in tqdm(range(2)):
        pass
    return make_plain()


def make_with_blas() -> DataLoader:
    """Uses linear algebra, whose library leaves threads that it ends before a fork."""
    from scipy import linalg

    count()
    linalg.solve(torch.rand(400, 400).numpy(), torch.rand(400).numpy())
    return make_plain()
