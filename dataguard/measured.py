"""What `dataguard bench` and `dataguard fingerprint` measured, as plain data that is written to files.

Times are in seconds. A fingerprint holds digests of a loader's dataset and first batches, to compare machines, versions
and months. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dataguard.core.model import UsageError
from dataguard.settings.files import json_in
from dataguard.settings.parsers import built
from dataguard.stats.timing_comparison import Ranking, Ratio, paired, rank

SCHEMA = "urn:dataguard:bench:1"
STARVED_SHARE = 0.1
"""A step is starved when it waits for at least this share of the time."""
_FEWEST_INTERVALS = 3
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
        arguments: dict[str, Any] = {"num_workers": self.workers, "pin_memory": self.pin}
        if not self.workers:
            return arguments
        return {**arguments, "prefetch_factor": self.prefetch or 2, "persistent_workers": self.persistent}

    def changes_to(self, other: Setting) -> dict[str, Any]:
        """The arguments to write for another setting; None for one that torch refuses without workers."""
        mine, wanted = self.arguments, {**_UNSAID, **other.arguments}
        changed = {name: value for name, value in wanted.items() if value != {**_UNSAID, **mine}[name]}
        return changed | ({} if other.workers else dict.fromkeys(_NEED_WORKERS))


_UNSAID = {"prefetch_factor": 2, "persistent_workers": False}
"""What torch takes where these are not given."""
_NEED_WORKERS = (*_UNSAID, "multiprocessing_context", "timeout")


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
        if self.share < STARVED_SHARE and len(self.shares) >= _FEWEST_INTERVALS:
            return False
        return True if min(self.shares) >= STARVED_SHARE and len(self.shares) >= _FEWEST_INTERVALS else None

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
class Advice:
    """The fastest setting, and what it changes in the user's code and in the training of a script.

    `at` is the line that constructs the loader, and `diff` the lines to remove (`-`) and to write (`+`). `tried` are
    the user's own setting and this one in the `script`, where a batch includes its training step; `untried` says why
    not.
    """

    setting: Setting
    at: str | None = None
    diff: tuple[str, ...] = ()
    script: str | None = None
    tried: tuple[Timed, ...] = ()
    untried: str | None = None


@dataclass(frozen=True, slots=True)
class LoaderTimes:
    """The measurements of one loader.

    `batches` is the length of an epoch, None if unknown; `own` is the user's setting; `workers` and `others` are two
    comparisons, of worker counts and of the other arguments; `ideal` is the time of a batch and its step when batches
    come from memory; `device` describes copies to the accelerator, if there is one; `advice` is None if the user's own
    setting is the fastest, or may be.
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
    advice: Advice | None = None

    def ranking(self, race: Sequence[Timed]) -> Ranking:
        """The ranking of the settings of one comparison, by name."""
        return rank({str(timed.setting): timed.costs(self.batches) for timed in race if timed.per_batch})

    def ratio(self, race: Sequence[Timed], first: str, second: str) -> Ratio | None:
        """How many times as long as `other` the setting `one` takes."""
        costs = {str(timed.setting): timed.costs(self.batches) for timed in race}
        return paired(costs[first], costs[second])


@dataclass(frozen=True, slots=True)
class Bench:
    """What one run of `dataguard bench` measured, and on which machine."""

    target: str
    machine: Mapping[str, Any]
    environment: Mapping[str, Any]
    loaders: tuple[LoaderTimes, ...]
    seconds: float = 0.0

    def to_json(self) -> str:
        """The measurements as the JSON object of `--format json`."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2) + "\n"


FORMAT = 1
"""The version of the file format; it changes when older files cannot be compared any more."""

Digests = Mapping[str, str]
"""The content of each leaf in hexadecimal, by its path."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is compared: a sample of the dataset, or a stage of a batch, named for a reader."""

    stage: str
    what: str
    digests: Digests


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The digests of one loader, in the order in which data flow: dataset, order of indices, samples, batches.

    `conditions` are what may explain a difference: the seed, the number of workers, the machine, versions of packages.
    """

    target: str
    loader: str
    parts: tuple[Part, ...]
    conditions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """One number for all parts, of 16 bytes; it does not depend on the conditions."""
        content = [[part.stage, part.what, sorted(part.digests.items())] for part in self.parts]
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Changed:
    """The first part that differs between two fingerprints, its leaves, and the conditions that differ as well."""

    part: Part
    leaves: tuple[str, ...]
    conditions: tuple[str, ...]


def first_change(now: Fingerprint, before: Fingerprint) -> Changed | None:
    """The first difference; None if the parts that both have are equal."""
    others = {(part.stage, part.what): part for part in before.parts}
    for part in now.parts:
        other = others.get((part.stage, part.what))
        paths = {**part.digests, **(other.digests if other else {})}
        leaves = tuple(path for path in paths if other is None or part.digests.get(path) != other.digests.get(path))
        if leaves or other is None:
            return Changed(part, leaves, tuple(_conditions(now.conditions, before.conditions)))
    return None


def _conditions(now: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    for name in {**now, **before}:
        if now.get(name) != before.get(name):
            yield f"{name}: {before.get(name)} before, {now.get(name)} now"


def written(several: Sequence[Fingerprint]) -> str:
    """The content of a file of fingerprints."""
    entries = [{"digest": fingerprint.digest, **asdict(fingerprint)} for fingerprint in several]
    return json.dumps({"format": FORMAT, "fingerprints": entries}, indent=1) + "\n"


def read(path: Path) -> dict[str, Fingerprint]:
    """The fingerprints of a file, by loader. Raises UsageError if it is not one that `written` made."""
    try:
        document = json_in(path)
        version = document["format"]
    except (ValueError, TypeError, LookupError) as error:
        why = f" ({error})" if isinstance(error, ValueError) else ""
        raise UsageError(
            f"{path}: not a fingerprint{why}; write one with `dataguard fingerprint --output FILE`"
        ) from error
    if version != FORMAT:
        raise UsageError(f"{path}: fingerprints of format {version!r:.40}, but this version compares format {FORMAT}")
    try:
        several = [built(Fingerprint, fingerprint) for fingerprint in document["fingerprints"]]
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: the fingerprints are incomplete: {error}") from error
    return {fingerprint.loader: fingerprint for fingerprint in several}
