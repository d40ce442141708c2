"""Generators, caches, locks and other objects in memory."""

from __future__ import annotations

import contextvars
import functools
import os
import queue
import random
import threading
import time
import weakref
from typing import Any

import numpy as np
import torch

from tests.loaders.held.kinds import SIZE, VALUES, Held, folder, kind, looked_up, value


@kind(workers=0)
def python_generator():
    rows: list[int] = []
    held = iter(value(index) for index in range(SIZE))
    rows.append(next(held))

    def read(held: Any, index: int) -> int:
        while len(rows) <= index:
            rows.append(next(held))
        return rows[index]

    return held, read


@kind(workers=0)
def random_generators():
    held = (random.Random(1), np.random.default_rng(1), torch.Generator().manual_seed(1), random.SystemRandom())

    def read(held: Any, index: int) -> int:
        drawn = held[0].random() + held[1].random() + float(torch.rand((), generator=held[2])) + held[3].random()
        return value(index) if 0 <= drawn <= 4 else 0

    return held, read


@kind()
def thread_primitives():
    event = threading.Event()
    event.set()
    held = (threading.Lock(), threading.Condition(), threading.BoundedSemaphore(2), event, threading.Barrier(1))
    return held, _passed


def _passed(held: Any, index: int) -> int:
    *locks, event, barrier = held
    for lock in locks:
        with lock:
            pass
    return int(value(index) * event.is_set() + barrier.wait())


@kind()
def held_thread_rlock():
    """Is held by the thread that calls the factory, and taken once more while reading."""
    lock = threading.RLock()
    lock.acquire()
    return lock, lambda lock, index: value(index) if lock.acquire(blocking=False) else 0


@kind()
def thread_local():
    held = threading.local()
    held.values = VALUES
    return held, lambda held, index: held.values[index]


@kind(workers=0)
def filled_queue():
    held: queue.Queue[int] = queue.Queue()
    held.put(1)
    return held, lambda held, index: (held.put(held.get(timeout=1)), value(index))[1]


_VALUES: contextvars.ContextVar[list[int]] = contextvars.ContextVar("values")


@kind()
def context_variable():
    _VALUES.set(VALUES)
    return _VALUES, lambda held, index: held.get()[index]


@functools.cache
def _computed(index: int) -> int:
    assert os.environ["HELD"]
    return value(index)


@kind()
def cached_function():
    for index in range(SIZE // 2):
        _computed(index)
    return None, lambda _, index: _computed(index)


class WithTable(Held):
    """Computes its table at the first sample."""

    @functools.cached_property
    def table(self) -> list[int]:
        return list(VALUES)

    def __init__(self) -> None:
        super().__init__(None, lambda _, index: self.table[index])


@kind()
def cached_attribute():
    return WithTable()


class Row:
    def __init__(self, number: int) -> None:
        self.number = number


@kind()
def weak_values():
    rows = [Row(number) for number in VALUES]
    weak = weakref.WeakValueDictionary(enumerate(rows))
    return (rows, weak), lambda held, index: held[1][index].number


@kind(needs="joblib")
def joblib_memory():
    import joblib

    memory = joblib.Memory(folder() / "joblib", verbose=0)
    return memory.cache(value), lambda held, index: held(index)


@kind()
def pid_and_thread():
    """Notes the thread in which the factory ran."""
    return threading.get_ident(), lambda held, index: value(index) * (held == threading.get_ident())


@kind()
def started_clock():
    return time.monotonic(), lambda held, index: value(index) * (time.monotonic() >= held)


@kind()
def pinned_view():
    tensor = torch.tensor(VALUES)
    view: Any = tensor.numpy()
    return memoryview(view), looked_up
