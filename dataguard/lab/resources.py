"""What the loader's own workers take of the machine over many samples; see `Lab.resources`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataguard.lab.crowding import ROUNDS, SECONDS, START, Crowding, run_crowding
from dataguard.lab.drive import Ride, drive
from dataguard.lab.heavies import Heavy, find_heavies
from dataguard.lab.hoards import READS, Hoards, run_hoards
from dataguard.lab.holdings import Pages, Reading
from dataguard.lab.plan import Plan
from dataguard.lab.records import BatchRecord, Index, read_spools
from dataguard.lab.schedules import Schedule, Trials, existing, unique
from dataguard.model import Undecided
from dataguard.variants import Loader

if TYPE_CHECKING:
    from dataguard.lab import Lab

WORKERS = 2
"""Workers that are watched; what one takes does not hang on how many there are."""
SHARE, MOST_SHARE = 0.01, 0.1
"""The share of the budget that a first look takes, and at most where samples are slow."""
LONGER = 2
"""How many times longer a second look is, made where something seems to grow."""
FEWEST, MOST = 24, 1500
"""Samples that each worker reads in a first look."""
MOST_WORKERS = 16
"""Workers that compete with each other at most."""
BATCH = 0.05
"""Seconds that a batch takes while speeds are compared."""
READINGS = 12
"""Readings in each of two stretches: while samples are new, and while they come again."""


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

    def moments(self, fresh: int, *, stream: bool) -> list[int]:
        """After how many samples readings are made, where the first `fresh` ones are new.

        A stream may end at any time, so that the first ones are close together.
        """
        again = self.total - fresh
        again = again if again > READINGS * self.size else 0
        steps = [step / READINGS for step in range(1, READINGS + 1)]
        early = [self.size * number for number in range(1, READINGS + 1)] if stream else []
        late = [round(fresh * step) for step in steps] + [round(fresh + again * step) for step in steps if again]
        return sorted({*early, *late})


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
            if len(counted) < 3:
                continue
            settled, last = counted[1], counted[-1]
            assert settled.pages is not None
            assert last.pages is not None
            copied = _copied(settled.pages, last.pages)
            found.append((copied / max(last.samples - settled.samples, 1), copied))
        return found


def _copied(first: Pages, now: Pages) -> int:
    """Bytes that were shared and are not any more, as far as that is not what was given back or taken anew."""
    return min(first.shared - now.shared, (now.private - first.private) - (now.anonymous - first.anonymous))


class Resources:
    """The part of a lab for memory and files; each observation is made once."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    @property
    def strain(self) -> Strain:
        """A first look: samples that are new to each worker, as far as there are any."""
        look = self._look()
        return self._seen(look)

    @property
    def longer(self) -> Strain:
        """A longer look, in which all samples come a second time."""
        look = self._look()
        fresh = LONGER * look.fresh
        self._lab.afford(2 * fresh * self._lab.epoch.seconds_per_sample)
        return self._seen(replace(look, fresh=fresh, total=2 * fresh))

    @property
    def hoards(self) -> Hoards:
        """Which containers grow with every sample, and whether they let go of something in the end."""
        lab = self._lab
        lab.afford(READS * lab.epoch.seconds_per_sample)
        limit = lab.epoch.limit
        found: Hoards = lab.vary(
            "hoards", lambda folder: run_hoards(lab.build, folder, lab.facts, limit), lambda _, same: same
        )
        return found

    @property
    def heavies(self) -> tuple[Heavy, ...]:
        """The large containers of Python objects that the dataset holds, the largest first."""
        lab = self._lab
        found: tuple[Heavy, ...] = lab.vary(
            "heavies", lambda _: find_heavies(lab.build().dataset), lambda _, same: same or ()
        )
        return found

    def batch_of(self, indices: Sequence[Index]) -> int | None:
        """Bytes of shared memory that a batch of these samples takes, None where there is no such batch."""
        lab = self._lab
        lab.afford(len(indices) * lab.epoch.seconds_per_sample + START.get(lab.facts.start_method, 3.0))
        found: int | None = lab.vary(
            ("batch of", tuple(indices)),
            lambda folder: run_trial(lab.build, folder, indices),
            lambda folder, _: next(
                (one.shared_bytes for one in read_spools(folder) if isinstance(one, BatchRecord)), None
            ),
        )
        return found

    @property
    def crowding(self) -> Crowding:
        """How fast the loader's workers are as they are, and with one thread each."""
        lab, facts = self._lab, self._lab.facts
        workers = min(facts.num_workers, max(2 * lab.machine.usable_cores, 2), MOST_WORKERS)
        seconds, stream = lab.epoch.seconds_per_sample, facts.kind == "stream"
        lab.afford((2 * ROUNDS + 1) * (SECONDS + START.get(facts.start_method, 3.0)))
        size = max(1, min(facts.batch_size or 1, round(BATCH / max(seconds, 1e-9))))
        size, limit = (facts.batch_size or 1) if stream else size, lab.epoch.limit
        found: Crowding = lab.vary(
            "crowding",
            lambda folder: run_crowding(lab.build, folder, workers, size, limit, stream=stream),
            lambda _, same: same,
        )
        return found

    def _look(self) -> Look:
        lab, facts = self._lab, self._lab.facts
        workers = max(1, min(facts.num_workers, WORKERS))
        seconds, budget = lab.epoch.seconds_per_sample, lab.settings.budget
        fresh = round(min(max(SHARE * budget / max(seconds, 1e-9), FEWEST), MOST))
        if fresh * seconds > MOST_SHARE * budget:
            raise Undecided(
                f"a sample takes {seconds:.2g} s, and {FEWEST} for each worker take more than a tenth of the budget: "
                "raise --budget"
            )
        size = facts.batch_size or 1 if facts.kind == "stream" else min(facts.batch_size or 1, max(1, fresh // 24))
        return Look(workers, fresh, fresh, size, facts.num_workers > workers)

    def _seen(self, look: Look) -> Strain:
        lab = self._lab
        limit, stream = lab.epoch.limit, lab.facts.kind == "stream"
        share = MOST_SHARE * lab.settings.budget * (look.total / self._look().fresh) / 2
        return lab.vary(
            look,
            lambda folder: run_look(lab.build, folder, look, limit, share, stream=stream),
            lambda folder, answer: read_look(folder, answer, look),
        )


def run_trial(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> None:
    """Let one worker make a batch of these samples; it is not sent."""
    loader = build(num_workers=1, schedule=lambda inner, batched: Trials(inner, [indices]))
    drive(loader, Plan(folder, keep_going=True), batches=(1,))


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
    rides = drive(loader, Plan(folder, gauge=look.moments(fresh, stream=stream)), batches=(most,), seconds=seconds)
    return rides, fresh


def read_look(folder: Path, answer: tuple[list[Ride], int] | None, look: Look) -> Strain:
    """Sort the readings by worker. Raises Undecided where there are too few, or the budget cut the look short."""
    if answer is None:
        raise Undecided("the budget ran out while workers were watched: raise --budget")
    _, fresh = answer
    by_worker: dict[int | None, list[Reading]] = {}
    for record in read_spools(folder):
        if isinstance(record, Reading):
            by_worker.setdefault(record.worker, []).append(record)
    readings = {worker: tuple(found) for worker, found in by_worker.items() if len(found) > 1}
    if not readings:
        raise Undecided("too few samples were read to see what workers take")
    speed = [(one[-1].samples - one[0].samples) / max(one[-1].at - one[0].at, 1e-9) for one in readings.values()]
    return Strain(readings, fresh, min(speed) if speed else math.nan)
