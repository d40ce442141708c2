"""Looks at what a loader's own workers hold while they read samples: how long one is, and what was seen in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dataguard.lab.core.index_schedules import Schedule, existing, unique
from dataguard.lab.core.process_usage import Pages, Reading
from dataguard.lab.core.records import read_spools
from dataguard.lab.spy.drive import Ride, drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.usage_readings import UsageReadings
from dataguard.model import Undecided
from dataguard.target.variants import Loader

READINGS = 12
"""Readings in each of two stretches: while samples are new, and while they come again."""
NEEDED = (5, 8, 12)
"""Those of them that have to be made, for a trend to be told: in the middle third, where the last one begins, and at
the end."""


class Twice(Schedule):
    """The first `count` indices of the user's order, each once, and then again until `total` were read.

    A worker meets the same ones again: torch hands batch k to worker k mod `workers`. A batch holds up to `size`.
    """

    def __init__(
        self, inner: Any, size: int, workers: int, count: int, total: int, limit: int | None, *, batched: bool
    ) -> None:
        super().__init__(inner)
        self.size, self.workers, self.count, self.total = size, workers, count, total
        self.limit = limit
        self.batched = batched
        self._rounds: list[list[Any]] | None = None

    def __iter__(self) -> Iterator[Any]:
        rounds = self._dealt()
        for number in range(len(self)):
            batch = rounds[number % len(rounds)]
            yield batch if self.batched else batch[0]

    def __len__(self) -> int:
        rounds = self._dealt()
        return -(-self.total // (len(rounds[0]) * self.workers)) * self.workers if rounds else 0

    @property
    def fresh(self) -> int:
        """How many samples are new to each worker."""
        return sum(map(len, self._dealt())) // self.workers

    def _dealt(self) -> list[list[Any]]:
        """The batches of the first round, as many for every worker."""
        if self._rounds is None:
            flat = (index for entry in self.inner for index in (entry if self.batched else [entry]))
            kept = (index for index in flat if existing([index], self.limit, batched=True))
            drawn = list(islice(unique(kept), self.count))
            size = max(1, min(self.size, len(drawn) // self.workers))
            batches = [drawn[start : start + size] for start in range(0, len(drawn) - size + 1, size)]
            self._rounds = batches[: len(batches) // self.workers * self.workers] or batches[:1]
        return self._rounds


@dataclass(frozen=True, slots=True)
class Look:
    """How long a look is: each worker reads up to `fresh` samples that it did not read before, and `total` in all."""

    workers: int
    fresh: int
    total: int
    size: int
    crowd: bool
    """Whether the loader has more workers than that."""
    pages: bool = False
    """Whether pages are counted, once after a third of the new samples and once after them."""

    def readings(self, fresh: int, *, stream: bool) -> UsageReadings:
        """When readings are made, where the first `fresh` samples are new.

        A stream may end at any time: so far as it came, there have to be some in each third of it.
        """
        if self.pages:
            early = _ladder(4 * self.size, 2, self.total) if stream else ()
            return UsageReadings(tuple(sorted({*early, -(-fresh // 3), fresh})), pages=True)
        again = self.total - fresh
        stretches = [(0, fresh), (fresh, again)] if again > READINGS * self.size else [(0, fresh)]
        early = _ladder(2 * self.size, 1.5, self.total) if stream else ()
        needed, wished = (
            {start + round(span * step / READINGS) for start, span in stretches for step in steps}
            for steps in (NEEDED, range(1, READINGS + 1))
        )
        return UsageReadings(tuple(sorted({*early, *needed})), tuple(sorted(wished)))


def _ladder(start: float, ratio: float, most: int) -> Iterator[int]:
    while start < most:
        yield round(start)
        start *= ratio


@dataclass(frozen=True, slots=True)
class Strain:
    """What each process held along the way: `readings` by worker, None for the main process without workers.

    Each read `fresh` samples that were new to it before it met them again; `rate` is the samples that one reads in a
    second.
    """

    readings: dict[int | None, tuple[Reading, ...]]
    fresh: int
    rate: float

    @property
    def exercised(self) -> dict[str, int]:
        """How much was looked at."""
        samples = sum(one[-1].samples for one in self.readings.values())
        workers = len(self.readings.keys() - {None})
        return {"samples": samples, "workers": workers} if workers else {"samples": samples}

    def points(self, measure: Callable[[Reading], float], *, again: bool = False) -> list[list[tuple[float, float]]]:
        """For each process, samples read and a measure of its readings, while samples were new, or came again."""
        chosen = (
            [one for one in readings if (one.samples >= self.fresh if again else one.samples <= self.fresh)]
            for readings in self.readings.values()
        )
        return [[(one.samples, measure(one)) for one in readings] for readings in chosen]

    def copied(self) -> list[tuple[float, int]]:
        """For each process, the bytes that it copied for each new sample once it had settled, and all of them together.

        A page is copied when a process writes to it that shares it with others.
        """
        found = []
        for readings in self.readings.values():
            counted = [one for one in readings if one.pages is not None and one.samples <= self.fresh]
            if len(counted) < 2:
                continue
            settled, last = counted[0], counted[-1]
            assert settled.pages is not None
            assert last.pages is not None
            copied = _copied(settled.pages, last.pages)
            found.append((copied / max(last.samples - settled.samples, 1), copied))
        return found


def _copied(first: Pages, now: Pages) -> int:
    """Bytes that were shared and are not any more, as far as that is not what was given back or taken anew."""
    return min(first.shared - now.shared, (now.private - first.private) - (now.anonymous - first.anonymous))


def run_look(
    build: Callable[..., Loader], folder: Path, look: Look, limit: int | None, seconds: float, *, stream: bool
) -> tuple[list[Ride], int]:
    """Read samples in the loader's own workers, and return the ride and how many were new to each of them."""
    made: list[Twice] = []

    def schedule(inner: Any, batched: bool) -> Twice:
        count = look.fresh * look.workers
        total = look.total * look.workers
        made.append(Twice(inner, look.size, look.workers, count, total, limit, batched=batched))
        return made[-1]

    asked = {"num_workers": look.workers} if look.crowd else {}
    loader = build(**asked) if stream else build(schedule=schedule, in_order=True, **asked)
    most = -(-look.total * look.workers // look.size) if stream else None
    own = next((one for one in made if one in (loader.batch_sampler, loader.sampler)), None)
    fresh = look.total if own is None else own.fresh
    plan = Plan(folder, (look.readings(fresh, stream=stream),))
    rides = drive(loader, plan, batches=(most,), seconds=seconds)
    return rides, fresh


def read_look(folder: Path, answer: tuple[list[Ride], int] | None, look: Look) -> Strain:
    """Sort the readings by worker. Raises Undecided where there are too few, or the budget cut the look short."""
    if answer is None:
        raise Undecided("the budget ran out while the memory of workers was measured: raise --budget")
    _, fresh = answer
    by_worker: dict[int | None, list[Reading]] = {}
    for record in read_spools(folder):
        if isinstance(record, Reading):
            by_worker.setdefault(record.worker, []).append(record)
    readings = {worker: tuple(found) for worker, found in by_worker.items() if len(found) > 1}
    if not readings:
        raise Undecided("too few samples were read to measure the memory of workers")
    speed = [(one[-1].samples - one[0].samples) / max(one[-1].at - one[0].at, 1e-9) for one in readings.values()]
    return Strain(readings, fresh, min(speed) if speed else math.nan)
