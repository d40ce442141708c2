"""Processes that end by a signal or by an exit call."""

from __future__ import annotations

import mmap
import os
import resource
import signal
import sys
import tempfile
from functools import partial

import torch
from torch.utils.data import DataLoader

from tests.hostile.declared import named
from tests.hostile.healthy import (
    Numbers,
    healthy,
    in_main,
    in_worker,
    of,
)


def kill(number: int = signal.SIGKILL) -> None:
    os.kill(os.getpid(), number)


def bus_error() -> None:
    """Read a mapped file behind its end, as when another process truncates it."""
    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        with mmap.mmap(file.fileno(), mmap.PAGESIZE) as mapped:
            file.truncate(0)
            mapped[0]


def leave(code: int = 7) -> None:
    os._exit(code)


def overflow() -> None:
    """Use up the stack of the process: no RecursionError stops it."""
    sys.setrecursionlimit(1 << 30)
    nested: list = []
    for _ in range(1_000_000):
        nested = [nested]
    repr(nested)


@named("DG002", "worker 1 was killed by SIGBUS while reading a sample (index 5")
def bus_error_in_worker() -> DataLoader:
    return in_worker(bus_error)


@named("DG601", select="DG0,DG601")
def bus_error_on_small_shared_memory() -> DataLoader:
    return of(Numbers(), collate_fn=large)


def large(_: object) -> torch.Tensor:
    return torch.ones(1 << 24)


@named("DG002", "the main process was killed by SIGKILL")
def kill_of_the_main_process_by_a_worker() -> DataLoader:
    return in_worker(lambda: os.kill(os.getppid(), signal.SIGKILL))


@named("DG002", "the main process was killed by SIGKILL")
def kill_of_the_process_group() -> DataLoader:
    return in_worker(lambda: os.killpg(0, signal.SIGKILL))


@named("DG002", "the observing process was killed by SIGKILL")
def kill_of_the_process_that_observes() -> DataLoader:
    return in_main(lambda: os.kill(os.getppid(), signal.SIGKILL))


@named("DG002", "the observing process was killed by SIGKILL while calling the factory")
def kill_of_the_process_that_observes_by_the_factory() -> DataLoader:
    os.kill(os.getppid(), signal.SIGKILL)
    return healthy()


@named("DG002", "was killed by SIGTERM")
def terminate_in_main() -> DataLoader:
    return in_main(partial(kill, signal.SIGTERM))


@named("DG002", "the main process exited with status 0 while reading a sample (index 5")
def leave_in_main_with_success() -> DataLoader:
    return in_main(partial(leave, 0))


@named("DG002", "exited with status 0 while calling the factory")
def leave_in_factory_with_success() -> DataLoader:
    leave(0)
    return healthy()


@named("DG002", "was killed by SIGSEGV")
def overflow_of_the_stack() -> DataLoader:
    return in_worker(overflow)


@named("DG002", "was killed by SIGXCPU")
def use_up_the_cpu_time() -> DataLoader:
    return in_main(spend_more_than_allowed)


def spend_more_than_allowed() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (1, 2))
    while True:
        pass
