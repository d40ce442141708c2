"""Objects on their way to a spawned worker: pickled and unpickled in one process, with their content passed through.

Tensors and arrays are not copied, so that this is cheap whatever a dataset holds. A real transfer separates arrays from
the memory that they share with other parts, and so does this one.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import context, synchronize
from multiprocessing.heap import Arena
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
from torch.multiprocessing import reductions

from dataguard.lab.reading.open_files import overlapping
from dataguard.process.originals import os, pickle, time

MOST_SECONDS = 3.0
"""Seconds after which an object is not pickled any further: a twentieth of the default budget."""
MOST_BYTES = 100_000_000
"""Bytes after which an object is not pickled any further, and most bytes of arrays that are copied."""


class PickleLimitExceeded(Exception):
    """Pickling would take too much time or memory."""


def send(value: Any, *, forked: bool = False, deadline: float | None = None) -> Sent:
    """Pickle an object as for a new process. Raises whatever pickling raises, and PickleLimitExceeded.

    `forked`: the workers of the loader are forked, so its locks and shared values were created for that. If spawning
    were the default they would be created for spawning, so they pass through.
    """
    sink = _Sink(time.monotonic() + MOST_SECONDS if deadline is None else deadline)
    pickler = _Pickler(sink, forked=forked)
    pickler.dump(value)
    return Sent(sink.getvalue(), tuple(pickler.contents))


@dataclass(frozen=True, slots=True)
class Sent:
    """A pickled object, without its `contents`: tensors, arrays and what passes through for other reasons."""

    pickled: bytes
    contents: tuple[Any, ...]

    @property
    def generators(self) -> int:
        """How many torch generators it holds; their state may be gone before a real worker reads it."""
        return sum(isinstance(part, torch.Generator) for part in self.contents)

    @property
    def has_freed(self) -> bool:
        """Whether an array is a view of a tensor that is sent before it."""
        views = (
            (part, self.contents[:position])
            for position, part in enumerate(self.contents)
            if isinstance(part, np.ndarray)
        )
        return any(_freed(array, before) for array, before in views)

    def received(self, *, overwritten: bool = True) -> Any:
        """The object as the worker gets it, freed memory `overwritten`. Raises whatever unpickling raises."""
        _arrived[:] = separated(self.contents, overwritten=overwritten)
        try:
            return pickle.loads(self.pickled)
        finally:
            _arrived.clear()


_arrived: list[Any] = []
"""The contents of what is being unpickled."""


def _content(number: int) -> Any:
    return _arrived[number]


def separated(contents: tuple[Any, ...], *, overwritten: bool = True) -> list[Any]:
    """The contents, with a copy of each array that shares memory with another part.

    A tensor moves to shared memory when it is pickled, which frees its own: a view of it that is pickled later reads
    whatever is there by then (measured on torch 2.15). If `overwritten`, such a copy is filled with other values.
    """
    parts = list(contents)
    arrays = [number for number in overlapping(contents) if isinstance(contents[number], np.ndarray)]
    if sum(contents[number].nbytes for number in arrays) > MOST_BYTES:
        return parts
    for number in arrays:
        parts[number] = contents[number].copy()
        if overwritten and _freed(contents[number], contents[:number]):
            parts[number].reshape(-1).view(np.uint8)[...] ^= 0x01 if parts[number].dtype == bool else 0x55
    return parts


def _freed(array: np.ndarray, before: tuple[Any, ...]) -> bool:
    """Whether the memory of an array belongs to one of the tensors that are pickled before it."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if not isinstance(owner, torch.Tensor):
        return False
    start = owner.untyped_storage().data_ptr()
    return any(isinstance(part, torch.Tensor) and part.untyped_storage().data_ptr() == start for part in before)


class _Sink(io.BytesIO):
    """A buffer to pickle into, up to a limit."""

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self.deadline = deadline

    def write(self, data: Any) -> int:
        if self.tell() > MOST_BYTES or time.monotonic() > self.deadline:
            raise PickleLimitExceeded
        return super().write(data)


_LOCKS = (synchronize.SemLock, synchronize.Lock, synchronize.RLock, synchronize.Semaphore, synchronize.BoundedSemaphore)


class _Pickler(ForkingPickler):
    """Pickles as for a new process, but collects contents. By type, as a method called for each object is slow."""

    dispatch_table: Any

    def __init__(self, sink: io.BytesIO, *, forked: bool) -> None:
        super().__init__(sink)
        self.contents: list[Any] = []
        reducers: Mapping[type, Callable[[Any], Any]] = {
            torch.Tensor: self._tensor,
            torch.nn.Parameter: self._tensor,
            torch.UntypedStorage: self._collected,
            torch.Generator: self._collected,
            np.ndarray: self._array,
            np.memmap: self._collected,
            **(dict.fromkeys((*_LOCKS, Arena), self._collected) if forked else {}),
        }
        self.dispatch_table = {**self.dispatch_table, **reducers}

    def _collected(self, value: Any) -> tuple[Any, ...]:
        self.contents.append(value)
        return _content, (len(self.contents) - 1,)

    def _tensor(self, value: torch.Tensor) -> Any:
        if value.requires_grad and not value.is_leaf:
            return reductions.reduce_tensor(value)  # raises, as torch refuses to send it
        return self._collected(value)

    def _array(self, value: np.ndarray) -> Any:
        return value.__reduce__() if value.dtype.hasobject else self._collected(value)


@contextmanager
def as_if_spawning() -> Iterator[None]:
    """Pretend to start a process: otherwise queues, pipes and locks refuse to be pickled."""
    stand_in: Any = _Spawning()
    context.set_spawning_popen(stand_in)
    try:
        yield
    finally:
        context.set_spawning_popen(None)


class _Spawning:
    """Replaces the process being started, which multiprocessing asks to inherit file descriptors."""

    def duplicate_for_child(self, descriptor: int) -> int:
        return descriptor

    @staticmethod
    def DupFd(descriptor: int) -> _Descriptor:
        return _Descriptor(descriptor)


@dataclass(frozen=True, slots=True)
class _Descriptor:
    number: int

    def detach(self) -> int:
        return os.dup(self.number)
