"""Loaders that wait forever, or burn the CPU forever."""

from __future__ import annotations

import atexit
import itertools
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from tests.hostile.declared import hangs, passes
from tests.hostile.healthy import (
    Numbers,
    healthy,
    in_init,
    in_main,
    in_sampler,
    in_stream,
    in_worker,
    of,
    sleep,
)


@hangs("while calling the factory")
def hang_in_factory() -> DataLoader:
    sleep()
    return healthy()


class Measured(Numbers):
    __len__ = sleep


@hangs("while calling the factory")
def hang_in_len() -> DataLoader:
    return of(Measured())


@hangs("while starting a worker (worker")
def hang_in_init() -> DataLoader:
    return in_init(sleep)


@hangs("while iterating the loader")
def hang_in_sampler() -> DataLoader:
    return in_sampler(sleep)


@hangs("while reading a sample (worker", slow=True)
def hang_in_stream() -> DataLoader:
    return in_stream(sleep)


class Last(Numbers):
    __del__ = sleep


@passes()
def hang_in_del() -> DataLoader:
    return of(Last(), num_workers=0)


class Pickled(Numbers):
    __reduce__ = sleep


@passes(select="DG0", timeout=1.0, options=("--start-method", "spawn"))
def hang_in_reduce() -> DataLoader:
    return of(Pickled())


@hangs("while reading a sample (index 5")
def stopped_by_its_own_signal() -> DataLoader:
    return in_main(lambda: os.kill(os.getpid(), signal.SIGSTOP))


@hangs("while reading a sample (index 5, worker 1)")
def deaf_to_signals() -> DataLoader:
    return in_worker(ignore_and_sleep)


def ignore_and_sleep() -> None:
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)
    sleep()


@passes()
def exit_handler_that_hangs() -> DataLoader:
    return of(Numbers(), worker_init_fn=lambda _: atexit.register(sleep))


@hangs("while iterating the loader")
def thread_that_never_ends() -> DataLoader:
    return of(Numbers(), worker_init_fn=lambda _: threading.Thread(target=sleep).start())


class Endless(IterableDataset):
    def __iter__(self) -> Iterator[Any]:
        return (torch.full((3,), float(number)) for number in itertools.count())


@passes(options=("--samples", "64"))
def endless_stream() -> DataLoader:
    return of(Endless())


class Barren(IterableDataset):
    """Endless without a single sample."""

    def __iter__(self) -> Iterator[Any]:
        return filter(None, itertools.repeat(0))


@hangs("while reading a sample")
def endless_search() -> DataLoader:
    return of(Barren())
