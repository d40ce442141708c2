"""The order in which threads and processes of the user's code finish: that of submission, or another possible one."""

from __future__ import annotations

import concurrent.futures
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count, islice
from multiprocessing.pool import Pool
from time import sleep
from typing import Any

from dataguard.lab.core.stand_ins import replaced
from dataguard.lab.reproducibility.use_log import UseLog

WINDOW = 4
"""How many results may overtake each other: as many as a small pool has workers."""
_DELAY = 0.004
"""Seconds by which a thread that puts results into a queue is held up."""


@contextmanager
def finishing(log: UseLog, *, backward: bool) -> Iterator[None]:
    """Let results be ready in the order of submission, or `backward`, a few at a time.

    Logs where the user's code takes results as they are ready. Threads that put results into a queue of their own
    cannot be put in order: `backward` holds up every other one.
    """

    def imap_unordered(pool: Any, function: Callable[..., Any], items: Iterable[Any], chunksize: int = 1) -> Any:
        log.note("imap_unordered")
        found = pool.imap(function, items, chunksize)
        return _backward(found) if backward else found

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
            sleep(_DELAY)
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
    while few := list(islice(waiting, WINDOW)):
        yield from reversed(few)
