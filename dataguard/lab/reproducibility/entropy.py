"""Fixes what gives other values in every run: random bytes of the system, the clock, and who finishes first.

`fixed` puts stand-ins in place of functions that return other values in every run. `finishing` lets threads and
processes of the user's code finish in the order of submission, or in another possible one.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import os
import queue
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count, islice
from multiprocessing.pool import Pool
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.source_location import replaced
from dataguard.lab.reproducibility.seeded_run import UseLog

MOST_OVERTAKING = 4
"""How many results may overtake each other: as many as a small pool has workers. With more, an order would be tried
that few pools can have."""
_DELAY_SECONDS = 0.004
"""Seconds by which a thread that puts results into a queue is held up: longer than the system takes to switch
threads."""


@contextmanager
def finishing(log: UseLog, *, backward: bool) -> Iterator[None]:
    """Let results be ready in the order of submission, or `backward`, a few at a time.

    Logs where the user's code takes results as they are ready. Threads that put results into a queue of their own
    cannot be put in order: `backward` holds up every other one.
    """

    def imap_unordered(pool: Any, function: Callable[..., Any], items: Iterable[Any], chunksize: int = 1) -> Any:
        log.note("imap_unordered")
        results = pool.imap(function, items, chunksize)
        return _backward(results) if backward else results

    def as_completed(futures: Iterable[Any], timeout: float | None = None) -> Iterator[Any]:
        log.note("as_completed")
        ordered = sorted(futures, key=lambda future: numbers.get(id(future), (0, None))[0])
        return _backward(ordered) if backward else iter(ordered)

    def submit(executor: Any, *args: Any, **kwargs: Any) -> Any:
        future = submitting[type(executor)](executor, *args, **kwargs)
        numbers[id(future)] = next(counter), future  # holds the future, so that its id stays unique
        return future

    def put(into: Any, item: Any, *args: Any, **kwargs: Any) -> None:
        threaded = threading.current_thread() is not threading.main_thread()
        if threaded and log.note("queue.Queue.put") and backward and threading.get_native_id() % 2:
            time.sleep(_DELAY_SECONDS)
        putting(into, item, *args, **kwargs)

    numbers: dict[int, tuple[int, Any]] = {}
    counter, putting = count(1), queue.Queue.put
    executors = (concurrent.futures.ThreadPoolExecutor, concurrent.futures.ProcessPoolExecutor)
    submitting: dict[type, Any] = {kind: kind.submit for kind in executors}
    with ExitStack() as stack:
        stack.enter_context(replaced(Pool, "imap_unordered", imap_unordered))
        stack.enter_context(replaced(queue.Queue, "put", put))
        for owner in (concurrent.futures, concurrent.futures._base):
            stack.enter_context(replaced(owner, "as_completed", as_completed))
        for kind in executors:
            stack.enter_context(replaced(kind, "submit", submit))
        yield


def _backward(results: Iterable[Any]) -> Iterator[Any]:
    """A few results at a time, the last first."""
    waiting = iter(results)
    while few := list(islice(waiting, MOST_OVERTAKING)):
        yield from reversed(few)


UNSEEDED, SEEDED, CLOCK = "unseeded generators", "all generators", "the clock"
_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time")

_numbers = count(1)
"""Seeds in place of those that the system would give: as many as are asked for, the same in every run."""


@contextmanager
def fixed(kind: str, log: UseLog) -> Iterator[None]:
    """Let the functions of a kind return the same values in every run, and log which ones the user's code calls.

    Generators without a seed get one, or all generators get another seed, whatever they are given.
    """
    with ExitStack() as stack:
        for owner, name, make in _TIMES if kind == CLOCK else _SYSTEM:
            label = "random.Random" if owner is random.Random else f"{owner.__name__}.{name.removeprefix('_')}"
            options = (kind == SEEDED,) if make in _SEEDING else ()
            made = make(getattr(owner, name), partial(log.note, label), *options)
            stack.enter_context(replaced(owner, name, made))
        yield


def _bytes(_: Any, note: Callable[[], bool]) -> Callable[[int], bytes]:
    def urandom(size: int) -> bytes:
        note()
        return random.Random(next(_numbers)).randbytes(size)

    return urandom


def _seeded_call(original: Any, note: Callable[[], bool], always: bool) -> Callable[..., Any]:
    """A function of an optional seed, which gets one if it has none, or `always`."""

    def call(seed: Any = None, *args: Any, **kwargs: Any) -> Any:
        if seed is None:
            note()
        return original(next(_numbers) if seed is None or always else seed, *args, **kwargs)

    return call


def _seeded_class(original: type, note: Callable[[], bool], always: bool) -> type:
    """The same for a class; `isinstance` answers as for the original."""

    def init(made: Any, seed: Any = None, *args: Any, **kwargs: Any) -> None:
        if seed is None:
            note()
        given = next(_numbers) if seed is None or always else seed
        original.__init__(made, given, *args, **kwargs)  # type: ignore[misc]

    meta = type("_Meta", (type(original),), {"__instancecheck__": lambda _, instance: isinstance(instance, original)})
    return meta(original.__name__, (original,), {"__init__": init})  # type: ignore[no-any-return]


def _seeded_method(original: Any, note: Callable[[], bool], always: bool) -> Callable[..., None]:
    """The same for `random.Random.seed`, which every new generator calls."""

    def seed(generator: random.Random, number: Any = None, *args: Any) -> None:
        if number is None:
            note()
        original(generator, next(_numbers) if number is None or always else number, *args)

    return seed


def _torch_seed(_: Any, note: Callable[[], bool]) -> Callable[[], int]:
    def seed() -> int:
        note()
        number = next(_numbers)
        torch.manual_seed(number)
        return number

    return seed


def _clock(original: Callable[[], Any], note: Callable[[], bool]) -> Callable[[], Any]:
    """The time stands still for the user's code, and continues for everything else."""
    start = original()

    def clock() -> Any:
        return type(start)(1_000_000) if note() else original()

    return clock


def _calendar(original: Any, note: Callable[[], bool]) -> Any:
    class Fixed(original):  # type: ignore[misc]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return original(2001, 2, 3, tzinfo=tz) if note() else original.now(tz)

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now()

        @classmethod
        def today(cls) -> Any:
            return cls.now()

    return Fixed


def _uuid(original: Callable[..., uuid.UUID], note: Callable[[], bool]) -> Callable[..., uuid.UUID]:
    return lambda *args, **kwargs: uuid.UUID(int=next(_numbers)) if note() else original(*args, **kwargs)


_SEEDING: tuple[Any, ...] = (_seeded_call, _seeded_class, _seeded_method)
_SYSTEM: tuple[tuple[Any, str, Any], ...] = (
    (os, "urandom", _bytes),
    (random, "_urandom", _bytes),
    (random.Random, "seed", _seeded_method),
    (random, "seed", _seeded_call),
    (np.random, "default_rng", _seeded_call),
    (np.random, "RandomState", _seeded_class),
    (np.random, "SeedSequence", _seeded_class),
    (np.random, "seed", _seeded_call),
    (torch, "seed", _torch_seed),
    (uuid, "uuid4", _uuid),
)
_TIMES: tuple[tuple[Any, str, Any], ...] = (
    *((time, name, _clock) for name in _CLOCKS),
    (datetime, "datetime", _calendar),
    (uuid, "uuid1", _uuid),
)
