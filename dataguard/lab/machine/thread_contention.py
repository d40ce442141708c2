"""Whether workers are faster with one thread each: alternating rounds of the same work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dataguard.lab.core.index_schedules import Dealt, exists, flat, unique
from dataguard.lab.core.process_usage import Pools
from dataguard.lab.process.spool import read_spools
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.library_threads import LibraryThreads
from dataguard.lab.spy.plan import Plan
from dataguard.targets.variants import Loader

ROUNDS = 3
"""How often both are measured, one after the other."""
SECONDS = 0.5
"""How long one round takes, without the start of the workers."""
START = {"fork": 0.1, "spawn": 3.0, "forkserver": 3.0}
"""Seconds that starting the workers of a round takes."""
CLEAR = 1.5
"""The speedup with one thread each that every round must reach."""
ITEMS = 256


@dataclass(frozen=True, slots=True)
class ThreadContention:
    """Samples per second of all `workers` in each round, with threads `as_is` and with one each; `pools` have more.

    Rounds end early once it is clear that one thread each is not faster.
    """

    workers: int
    as_is: tuple[float, ...]
    alone: tuple[float, ...]
    pools: tuple[str, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """The speedup with one thread each, round by round."""
        return tuple(alone / max(as_is, 1e-9) for as_is, alone in zip(self.as_is, self.alone, strict=True))


def measure_contention(
    build: Callable[..., Loader], folder: Path, workers: int, size: int, limit: int | None, *, stream: bool
) -> ThreadContention:
    """Measure rounds, each with new workers, after one that only warms up."""

    def schedule(inner: Any, batched: bool) -> Dealt:
        first = islice(unique(flat(inner, batched=batched)), ITEMS)
        drawn = [index for index in first if exists(index, limit)]
        return Dealt(inner, [drawn[worker::workers] for worker in range(workers)], size, batched=batched)

    asked: dict[str, Any] = {"num_workers": workers, "persistent_workers": False}
    loader = build(**asked) if stream else build(schedule=schedule, in_order=True, **asked)
    user_init = loader.worker_init_fn

    def speed(threads: int) -> float:
        loader.worker_init_fn = user_init
        (ride,) = drive(loader, Plan(folder, (LibraryThreads(threads),)), batches=(None,), seconds=SECONDS)
        return size * (ride.batches - 1) / max(ride.seconds - ride.start_seconds, 1e-9)

    speed(1)
    as_is: list[float] = []
    alone: list[float] = []
    for number in range(ROUNDS):
        order = (0, 1) if number % 2 == 0 else (1, 0)  # a drift over time must not favour one of them
        speeds = {threads: speed(threads) for threads in order}
        as_is.append(speeds[0])
        alone.append(speeds[1])
        if alone[-1] < CLEAR * as_is[-1]:
            break
    seen = (pool for record in read_spools(folder) if isinstance(record, Pools) for pool in record.pools)
    return ThreadContention(workers, tuple(as_is), tuple(alone), tuple(dict.fromkeys(seen)))
