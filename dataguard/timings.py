"""What `dataguard bench` measured, as plain data that goes into a file and comes back. Standard library only.

All times are in seconds.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dataguard.model import UsageError
from dataguard.stats.timing_comparison import Ranking, Ratio, paired, rank, unpaired

SCHEMA = "urn:dataguard:bench:1"
HOST = "name"
"""What is told of a machine and does not make it another one: a container has a new name with each start."""
STARVED = 0.1
"""The share of the time spent waiting from which on a step is starved."""
_STRETCHES = 3
"""Fewer stretches of a training loop than that say nothing of their spread."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a bench is to measure beyond the loader as it is.

    `workers` are the worker counts to try, empty for a choice that suits the machine; `step_ms` is how long a training
    step takes, `step` spells a function of a batch that is one.
    """

    workers: tuple[int, ...] = ()
    step_ms: float | None = None
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """Arguments of a DataLoader that decide how fast it is, and nothing else; `prefetch` is None without workers."""

    workers: int
    prefetch: int | None
    persistent: bool
    pin: bool

    def __str__(self) -> str:
        words = [f"{self.workers} worker{'' if self.workers == 1 else 's'}"]
        words += [f"prefetch {self.prefetch}"] if self.prefetch not in (None, 2) else []
        words += ["persistent"] if self.persistent else []
        words += ["pinned"] if self.pin else []
        return ", ".join(words)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a DataLoader."""
        alone: dict[str, Any] = {"num_workers": self.workers, "pin_memory": self.pin}
        if not self.workers:
            return alone
        return {**alone, "prefetch_factor": self.prefetch or 2, "persistent_workers": self.persistent}


@dataclass(frozen=True, slots=True)
class Timed:
    """One setting in the rounds it took part in: seconds a batch, and seconds to the first batch of an epoch.

    `failed` says why it has no times.
    """

    setting: Setting
    per_batch: tuple[float, ...] = ()
    starts: tuple[float, ...] = ()
    failed: str | None = None

    def costs(self, batches: int | None) -> tuple[float, ...]:
        """What ranks it, round by round: an epoch of so many batches, or a batch where their number is unknown.

        An epoch starts as it did at best: whatever else the machine does makes starting processes slower, by far.
        """
        if batches is None or not self.starts:
            return self.per_batch
        rest = max(batches - max(self.setting.workers, 1), 0)
        return tuple(min(self.starts) + rest * each for each in self.per_batch)


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a part of the time of a batch goes; the steps of it, such as transforms, in `parts`.

    `skipped` says why there is no number.
    """

    name: str
    seconds: float | None = None
    parts: tuple[Stage, ...] = ()
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """A training loop with a step under one setting: for each of some stretches, seconds of waiting and of steps."""

    setting: Setting
    batches: int
    waiting: tuple[float, ...]
    stepping: tuple[float, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of the time spent waiting, stretch by stretch."""
        return tuple(wait / (wait + step) for wait, step in zip(self.waiting, self.stepping, strict=True))

    @property
    def share(self) -> float:
        """The share of all the time that was spent waiting."""
        total = sum(self.waiting)
        return total / (total + sum(self.stepping))

    @property
    def starved(self) -> bool | None:
        """Whether steps wait for a tenth of the time or more; None where the stretches do not agree, or are too few."""
        if self.share < STARVED and len(self.shares) >= _STRETCHES:
            return False
        return True if min(self.shares) >= STARVED and len(self.shares) >= _STRETCHES else None

    @property
    def spread(self) -> str:
        """The share of waiting in words, at least and at most."""
        return f"{min(self.shares):.0%} to {max(self.shares):.0%} in {len(self.shares)} intervals"

    @property
    def step(self) -> float:
        """What a step took."""
        return sum(self.stepping) / self.batches

    @property
    def each(self) -> float:
        """What a batch and its step took together."""
        return self.step + sum(self.waiting) / self.batches


@dataclass(frozen=True, slots=True)
class LoaderTimes:
    """All that was measured of one loader.

    `batches` is the length of an epoch, None where nobody knows; `own` is the setting of the user; `workers` and
    `others` are two races, of worker counts and then of the other arguments; `ideal` is what a batch and its step
    take when batches come from memory; `accelerator` names the device, if there is one.
    """

    name: str
    batch_size: int | None
    batches: int | None
    own: Setting
    workers: tuple[Timed, ...]
    others: tuple[Timed, ...] = ()
    stages: tuple[Stage, ...] = ()
    waits: tuple[Waits, ...] = ()
    ideal: float | None = None
    step: str | None = None
    device: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def ranking(self, race: Sequence[Timed]) -> Ranking:
        """The ranking of a race, by the names of its settings."""
        return rank({str(timed.setting): timed.costs(self.batches) for timed in race if timed.per_batch})

    def ratio(self, race: Sequence[Timed], one: str, other: str) -> Ratio | None:
        """How many times as long one setting of a race takes as another."""
        costs = {str(timed.setting): timed.costs(self.batches) for timed in race}
        return paired(costs[one], costs[other])

    def timed(self, setting: Setting) -> Timed | None:
        """The measurements of a setting."""
        return next((timed for timed in self.workers if timed.setting == setting and timed.per_batch), None)


@dataclass(frozen=True, slots=True)
class Bench:
    """What one run of `dataguard bench` measured, and on which machine."""

    target: str
    machine: Mapping[str, Any]
    environment: Mapping[str, Any]
    loaders: tuple[LoaderTimes, ...]
    seconds: float = 0.0

    def to_json(self) -> str:
        """One JSON object that `from_file` reads."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2) + "\n"


def from_file(path: Path) -> Bench:
    """Read what `to_json` wrote. Raises UsageError for anything else."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as the JSON of a bench: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UsageError(f"{path}: no measurements of this version's `dataguard bench --format json`")
    try:
        return Bench(
            document["target"],
            document["machine"],
            document["environment"],
            tuple(map(_loader, document["loaders"])),
            document["seconds"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path}: measurements of `dataguard bench` that are damaged: {error!r}") from error


def _loader(data: Mapping[str, Any]) -> LoaderTimes:
    made = {
        "own": Setting(**data["own"]),
        "workers": tuple(map(_timed, data["workers"])),
        "others": tuple(map(_timed, data["others"])),
        "stages": tuple(map(_stage, data["stages"])),
        "waits": tuple(map(_waits, data["waits"])),
        "notes": tuple(data["notes"]),
    }
    return LoaderTimes(**{**data, **made})


def _timed(data: Mapping[str, Any]) -> Timed:
    times = {name: tuple(map(float, data[name])) for name in ("per_batch", "starts")}
    return Timed(**{**data, **times, "setting": Setting(**data["setting"])})


def _stage(data: Mapping[str, Any]) -> Stage:
    return Stage(**{**data, "parts": tuple(map(_stage, data["parts"]))})


def _waits(data: Mapping[str, Any]) -> Waits:
    times = {name: tuple(map(float, data[name])) for name in ("waiting", "stepping")}
    return Waits(**{**data, **times, "setting": Setting(**data["setting"])})


@dataclass(frozen=True, slots=True)
class Change:
    """How a setting of a loader has changed since earlier measurements: times a batch took, now against then."""

    loader: str
    setting: Setting
    now: float
    then: float
    ratio: Ratio | None
    own: bool

    @property
    def words(self) -> str:
        """What can be said of it."""
        if self.ratio is None:
            return "too few rounds to tell"
        if self.ratio.least > MARGIN_BETWEEN:
            return "slower"
        return "faster" if self.ratio.most < 1 / MARGIN_BETWEEN else "cannot tell apart"


MARGIN_BETWEEN = 1.1
"""Two runs are compared more cautiously than rounds of one: a machine is not the same every day."""


def need_alike(then: Bench, target: str, machine: Mapping[str, Any]) -> None:
    """Raise UsageError unless earlier measurements are of this target, on a machine of which all that is true.

    It may have another name.
    """
    other = [name for name in sorted(machine) if name != HOST and machine[name] != then.machine.get(name)]
    if other:
        told = ", ".join(f"{name} {then.machine.get(name)!r} there, {machine[name]!r} here" for name in other)
        raise UsageError(f"--compare: those numbers come from another machine: {told}")
    if target != then.target:
        raise UsageError(f"--compare: those numbers are of {then.target}, not of {target}")


def changes(now: Bench, then: Bench) -> tuple[Change, ...]:
    """Compare two runs, setting by setting. Raises UsageError when they were not made alike."""
    need_alike(then, now.target, {**dict.fromkeys(then.machine), **now.machine})
    found = []
    for loader in now.loaders:
        earlier = next((one for one in then.loaders if one.name == loader.name), None)
        for timed in loader.workers:
            before = earlier.timed(timed.setting) if earlier else None
            if before is not None and timed.per_batch:
                found.append(
                    Change(
                        loader.name,
                        timed.setting,
                        statistics.median(timed.per_batch),
                        statistics.median(before.per_batch),
                        unpaired(timed.per_batch, before.per_batch),
                        timed.setting == loader.own,
                    )
                )
    if not found:
        raise UsageError("--compare: no loader was measured with the same setting in both")
    return tuple(found)
