"""Measurements of the resources that a loader's own workers use while they read samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dataguard.lab.core.index_schedules import Schedule, drawn, existing, exists, flat, in_use, size_of, unique
from dataguard.lab.core.process_usage import Pages, Reading
from dataguard.lab.process.spool import read_spools
from dataguard.lab.spy.drive import Ride, drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.usage_readings import UsageReadings
from dataguard.model import Undecided
from dataguard.targets.variants import Loader

READINGS = 12
"""Readings in each of two phases: while samples are new, and while they repeat."""
NEEDED = (5, 8, 12)
"""The readings required for a trend: in the middle third, where the last third begins, and at the end."""


class RepeatedIndices(Schedule):
    """The first indices of the user's order, `plan.fresh` per worker, each once, and then repeated.

    Every worker reads its own indices again: torch hands batch k to worker k mod `plan.workers`. A batch is one of the
    user's, or holds up to `plan.size` distinct indices.
    """

    def __init__(self, inner: Any, plan: UsagePlan, limit: int | None, *, batched: bool) -> None:
        super().__init__(inner)
        self.plan = plan
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
        return -(-self.plan.total // max(size_of(rounds[0]), 1)) * self.plan.workers if rounds else 0

    @property
    def fresh(self) -> int:
        """How many samples are new to each worker."""
        return sum(map(size_of, self._dealt())) // self.plan.workers

    def _dealt(self) -> list[list[Any]]:
        """The batches of the first round, as many for every worker."""
        if self._rounds is None:
            workers = self.plan.workers
            batches = self._own() if self.plan.own else self._regrouped()
            self._rounds = batches[: len(batches) // workers * workers] or batches[:1]
        return self._rounds

    def _own(self) -> list[list[Any]]:
        entries = islice(drawn(self.inner), -(-self.plan.fresh // self.plan.size) * self.plan.workers)
        kept = [one for entry in entries for one in existing(entry, self.limit, batched=self.batched)]
        return kept if self.batched else [[one] for one in kept]

    def _regrouped(self) -> list[list[Any]]:
        kept = (index for index in flat(self.inner, batched=self.batched) if exists(index, self.limit))
        known = list(islice(unique(kept), self.plan.fresh * self.plan.workers))
        size = max(1, min(self.plan.size, len(known) // self.plan.workers))
        return [known[start : start + size] for start in range(0, len(known) - size + 1, size)]


@dataclass(frozen=True, slots=True)
class UsagePlan:
    """The length of a measurement: each worker reads up to `fresh` new samples, and `total` in all."""

    workers: int
    fresh: int
    total: int
    size: int
    """Samples in a batch."""
    own: bool
    """Whether the batches are the loader's own."""
    reduced: bool
    """Whether the loader has more workers than that."""
    pages: bool = False
    """Whether pages are counted, first after a third of the new samples and again after all of them."""

    def readings(self, fresh: int, *, stream: bool) -> UsageReadings:
        """When readings are made, if the first `fresh` samples are new.

        A stream may end at any time: each third of what it yielded must have some.
        """
        if self.pages:
            early = _ladder(4 * self.size, 2, self.total) if stream else ()
            return UsageReadings(tuple(sorted({*early, -(-fresh // 3), fresh})), pages=True)
        again = self.total - fresh
        phases = [(0, fresh), (fresh, again)] if again > READINGS * self.size else [(0, fresh)]
        early = _ladder(2 * self.size, 1.5, self.total) if stream else ()
        needed, wished = (
            {start + round(span * step / READINGS) for start, span in phases for step in steps}
            for steps in (NEEDED, range(1, READINGS + 1))
        )
        return UsageReadings(tuple(sorted({*early, *needed})), tuple(sorted(wished)))


def _ladder(start: float, ratio: float, most: int) -> Iterator[int]:
    while start < most:
        yield round(start)
        start *= ratio


@dataclass(frozen=True, slots=True)
class Usage:
    """What each process used over time: `readings` by worker, None for the main process without workers.

    Each read `fresh` new samples before they repeated; `rate` is the samples per second of one process.
    """

    readings: dict[int | None, tuple[Reading, ...]]
    fresh: int
    rate: float

    @property
    def exercised(self) -> dict[str, int]:
        """How much was measured."""
        samples = sum(one[-1].samples for one in self.readings.values())
        workers = len(self.readings.keys() - {None})
        return {"samples": samples, "workers": workers} if workers else {"samples": samples}

    @property
    def longest(self) -> int:
        """The samples that a process read while all were new, or while they repeated, whichever are more."""
        total = max(one[-1].samples for one in self.readings.values())
        return max(self.fresh, total - self.fresh)

    def points(self, measure: Callable[[Reading], float], *, again: bool = False) -> list[list[tuple[float, float]]]:
        """For each process, samples read and a measure of its readings, while samples were new, or repeated."""
        chosen = (
            [one for one in readings if (one.samples >= self.fresh if again else one.samples <= self.fresh)]
            for readings in self.readings.values()
        )
        return [[(one.samples, measure(one)) for one in readings] for readings in chosen]

    def copied(self) -> list[tuple[float, int]]:
        """For each process, the bytes copied per new sample after a warm-up, and in total.

        Writing to a page that is shared with other processes copies it.
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
    """Bytes that are no longer shared, unless they were freed or newly allocated."""
    return min(first.shared - now.shared, (now.private - first.private) - (now.anonymous - first.anonymous))


def measure_usage(
    build: Callable[..., Loader], folder: Path, plan: UsagePlan, limit: int | None, seconds: float, *, stream: bool
) -> tuple[list[Ride], int]:
    """Read samples in the loader's own workers; returns the rides and how many samples were new to each."""
    made: list[RepeatedIndices] = []

    def schedule(inner: Any, batched: bool) -> RepeatedIndices:
        made.append(RepeatedIndices(inner, plan, limit, batched=batched))
        return made[-1]

    asked = {"num_workers": plan.workers} if plan.reduced else {}
    loader = build(**asked) if stream else build(schedule=schedule, in_order=True, **asked)
    most = -(-plan.total * plan.workers // plan.size) if stream else None
    own = in_use(made, loader)
    fresh = plan.total if own is None else own.fresh
    rides = drive(loader, Plan(folder, (plan.readings(fresh, stream=stream),)), batches=(most,), seconds=seconds)
    return rides, fresh


def read_usage(folder: Path, answer: tuple[list[Ride], int] | None, plan: UsagePlan) -> Usage:
    """Group the readings by worker. Raises Undecided if there are too few, or the budget cut them short."""
    if answer is None:
        raise Undecided("the budget ran out while the memory of workers was measured")
    _, fresh = answer
    by_worker: dict[int | None, list[Reading]] = {}
    for record in read_spools(folder):
        if isinstance(record, Reading):
            by_worker.setdefault(record.worker, []).append(record)
    readings = {worker: tuple(found) for worker, found in by_worker.items() if len(found) > 1}
    if not readings:
        raise Undecided("too few samples were read to measure the memory of workers")
    speed = [(one[-1].samples - one[0].samples) / max(one[-1].at - one[0].at, 1e-9) for one in readings.values()]
    return Usage(readings, fresh, min(speed) if speed else math.nan)
