"""What `dataguard bench` measured, as plain data that is written to a file and read back. Standard library only.

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
from dataguard.settings.typed import built
from dataguard.settings.user_files import json_in
from dataguard.stats.timing_comparison import Ranking, Ratio, paired, rank, unpaired

SCHEMA = "urn:dataguard:bench:1"
HOST = "name"
"""The machine property that is not compared: a container has a new host name with each start."""
STARVED = 0.1
"""A step is starved when it waits for at least this share of the time."""
_INTERVALS = 3
"""Fewer intervals of a training loop than this give no spread."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What a benchmark measures beyond the loader's own settings.

    `workers` are the worker counts to try, empty for counts that suit the machine; `step_ms` is how long a training
    step takes; `step`, `pkg.mod:function`, names a function of a batch that runs a step.
    """

    workers: tuple[int, ...] = ()
    step_ms: float | None = None
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """The DataLoader arguments that only affect speed; `prefetch` is None without workers."""

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
        """The setting as DataLoader arguments."""
        alone: dict[str, Any] = {"num_workers": self.workers, "pin_memory": self.pin}
        if not self.workers:
            return alone
        return {**alone, "prefetch_factor": self.prefetch or 2, "persistent_workers": self.persistent}


@dataclass(frozen=True, slots=True)
class Timed:
    """One setting, round by round: seconds per batch, and seconds to the first batch of an epoch.

    `failed` says why there are no times.
    """

    setting: Setting
    per_batch: tuple[float, ...] = ()
    starts: tuple[float, ...] = ()
    failed: str | None = None

    def costs(self, batches: int | None) -> tuple[float, ...]:
        """The times to rank by, round by round: an epoch of `batches` batches, or one batch if their number is unknown.

        The shortest start-up counts: other load on the machine slows process start-up down by far.
        """
        if batches is None or not self.starts:
            return self.per_batch
        rest = max(batches - max(self.setting.workers, 1), 0)
        return tuple(min(self.starts) + rest * each for each in self.per_batch)


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of making a batch and its time; its steps, such as transforms, are in `parts`.

    `skipped` says why there is no time.
    """

    name: str
    seconds: float | None = None
    parts: tuple[Stage, ...] = ()
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """A training loop under one setting: for each interval, seconds of waiting and of steps."""

    setting: Setting
    batches: int
    waiting: tuple[float, ...]
    stepping: tuple[float, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of time spent waiting, interval by interval."""
        return tuple(wait / (wait + step) for wait, step in zip(self.waiting, self.stepping, strict=True))

    @property
    def share(self) -> float:
        """The share of the total time that was spent waiting."""
        total = sum(self.waiting)
        return total / (total + sum(self.stepping))

    @property
    def starved(self) -> bool | None:
        """Whether steps wait for at least a tenth of the time; None if the intervals disagree or are too few."""
        if self.share < STARVED and len(self.shares) >= _INTERVALS:
            return False
        return True if min(self.shares) >= STARVED and len(self.shares) >= _INTERVALS else None

    @property
    def spread(self) -> str:
        """The range of the share of waiting, in words."""
        return f"{min(self.shares):.0%} to {max(self.shares):.0%} in {len(self.shares)} intervals"

    @property
    def step(self) -> float:
        """Seconds per step."""
        return sum(self.stepping) / self.batches

    @property
    def each(self) -> float:
        """Seconds per batch and step."""
        return self.step + sum(self.waiting) / self.batches


@dataclass(frozen=True, slots=True)
class LoaderTimes:
    """The measurements of one loader.

    `batches` is the length of an epoch, None if unknown; `own` is the user's setting; `workers` and `others` are two
    comparisons, of worker counts and of the other arguments; `ideal` is the time of a batch and its step when batches
    come from memory; `device` describes copies to the accelerator, if there is one.
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
        """The ranking of the settings of one comparison, by name."""
        return rank({str(timed.setting): timed.costs(self.batches) for timed in race if timed.per_batch})

    def ratio(self, race: Sequence[Timed], one: str, other: str) -> Ratio | None:
        """How many times as long as `other` the setting `one` takes."""
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
        """The measurements as the JSON object that `from_file` reads."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2) + "\n"


def from_file(path: Path) -> Bench:
    """Read what `to_json` wrote. Raises UsageError for anything else."""
    try:
        document = json_in(path)
    except ValueError as error:
        raise UsageError(f"{path}: not readable as the output of `dataguard bench --format json`: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UsageError(f"{path}: not written by this version's `dataguard bench --format json`")
    try:
        return built(Bench, document)
    except ValueError as error:
        raise UsageError(f"{path}: damaged output of `dataguard bench`: {error}") from error


@dataclass(frozen=True, slots=True)
class Change:
    """How the time of one setting changed since an earlier run: seconds per batch, now and then."""

    loader: str
    setting: Setting
    now: float
    then: float
    ratio: Ratio | None
    own: bool

    @property
    def words(self) -> str:
        """The verdict in words."""
        if self.ratio is None:
            return "too few rounds to tell"
        if self.ratio.least > MARGIN_BETWEEN:
            return "slower"
        return "faster" if self.ratio.most < 1 / MARGIN_BETWEEN else "cannot tell"


MARGIN_BETWEEN = 1.1
"""Two runs are compared more cautiously than rounds of one run, because a machine's speed varies from day to day."""


def require_comparable(then: Bench, target: str, machine: Mapping[str, Any]) -> None:
    """Raise UsageError unless earlier measurements are of this target and of a machine like this one.

    The host name may differ.
    """
    other = [name for name in sorted(machine) if name != HOST and machine[name] != then.machine.get(name)]
    if other:
        differences = ", ".join(f"{name} was {then.machine.get(name)!r}, is {machine[name]!r}" for name in other)
        raise UsageError(f"--compare: the earlier run was made on another machine: {differences}")
    if target != then.target:
        raise UsageError(f"--compare: the earlier run measured {then.target}, not {target}")


def changes(now: Bench, then: Bench) -> tuple[Change, ...]:
    """Compare two runs, setting by setting. Raises UsageError when the runs are not comparable."""
    require_comparable(then, now.target, {**dict.fromkeys(then.machine), **now.machine})
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
        raise UsageError("--compare: no loader was measured with the same setting in both runs")
    return tuple(found)
