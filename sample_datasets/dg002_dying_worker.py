"""DG002 dying-worker: a process of the loader is killed by a signal or calls exit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from sample_datasets._parts import Pictures


class DeadlyPictures(Pictures):
    """Pictures, one of which makes the native decoder kill the process that reads it."""

    def __init__(self, deadly_signal: signal.Signals) -> None:
        super().__init__()
        self.deadly_signal = deadly_signal

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 9:
            os.kill(os.getpid(), self.deadly_signal)
        return super().__getitem__(index)


def bad() -> DataLoader[Any]:
    """Sample 9 makes native code touch memory that is not there: SIGSEGV."""
    return DataLoader(DeadlyPictures(signal.SIGSEGV), batch_size=4, num_workers=2)


def bad_killed() -> DataLoader[Any]:
    """Sample 9 ends its worker the way the kernel does when memory runs out: SIGKILL."""
    return DataLoader(DeadlyPictures(signal.SIGKILL), batch_size=4, num_workers=2)


def bad_bus() -> DataLoader[Any]:
    """Sample 9 ends its worker the way a full shared memory or a truncated memory map does: SIGBUS."""
    return DataLoader(DeadlyPictures(signal.SIGBUS), batch_size=4, num_workers=2)


def bad_abort() -> DataLoader[Any]:
    """Sample 9 violates an assertion of native code, which aborts: SIGABRT."""
    return DataLoader(DeadlyPictures(signal.SIGABRT), batch_size=4, num_workers=2)


def bad_main() -> DataLoader[Any]:
    """Without workers, the segmentation fault takes the main process with it."""
    return DataLoader(DeadlyPictures(signal.SIGSEGV), batch_size=4)


class ExitingPictures(Pictures):
    """Pictures, one of which makes a library leave the process at once."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 9:
            os._exit(3)
        return super().__getitem__(index)


def bad_exit() -> DataLoader[Any]:
    """Sample 9 leaves the worker by `os._exit`."""
    return DataLoader(ExitingPictures(), batch_size=4, num_workers=2)


class QuittingPictures(Pictures):
    """Pictures read by code that was written as a script and gives up with `sys.exit`."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 9:
            sys.exit("sample 9 is corrupt")
        return super().__getitem__(index)


def bad_sys_exit() -> DataLoader[Any]:
    """Sample 9 calls `sys.exit`, which the worker obeys."""
    return DataLoader(QuittingPictures(), batch_size=4, num_workers=2)


def die_at_start(worker_id: int) -> None:
    """Kill the second worker before it has read anything."""
    if worker_id == 1:
        os.kill(os.getpid(), signal.SIGSEGV)


def bad_worker_init() -> DataLoader[Any]:
    """The `worker_init_fn` crashes natively in one of two workers."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, worker_init_fn=die_at_start)


def die_at_collate(samples: list[tuple[Tensor, int]]) -> None:
    """Crash natively on whatever comes."""
    os.kill(os.getpid(), signal.SIGSEGV)


def bad_collate() -> DataLoader[Any]:
    """Every sample reads well, then the collate function crashes natively."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, collate_fn=die_at_collate)


def bad_factory() -> NoReturn:
    """Building the loader leaves the process."""
    os._exit(7)


def good() -> DataLoader[Any]:
    """Nothing dies."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2)


class ConvertedPictures(Pictures):
    """Pictures that an external program converts, successful or not."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        converted = subprocess.run(["false"], check=False).returncode == 0
        return (image if converted else torch.rot90(image, dims=(1, 2))), label


def good_child_fails() -> DataLoader[Any]:
    """What exits with an error is a child of the worker, and the dataset copes with it."""
    return DataLoader(ConvertedPictures(), batch_size=4, num_workers=2)
