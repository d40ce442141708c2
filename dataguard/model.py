"""The nouns everything else speaks in: checks, findings, results, reports and the ways to fail.

Standard library only, so that the process that reports stays small and every room can import it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

SCHEMA = "urn:dataguard:report:1"
SCHEMA_VERSION = 1


class DataguardError(Exception):
    """The root of every error that dataguard raises on purpose."""


class UsageError(DataguardError):
    """The user asked for something impossible: a target, a setting or an option is wrong."""


class NotApplicable(DataguardError):
    """The loader has nothing that this check could judge; the engine reports SKIPPED."""


class Undecided(DataguardError):
    """The check applies, but the budget or the data could not settle it; reported INCONCLUSIVE."""


class Severity(str, Enum):
    """How much a defect costs: ERROR ruins training, WARNING may, NOTE is good to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for the worst, so that sorting by it puts errors first."""
        return list(Severity).index(self)


class Status(str, Enum):
    """What became of one check on one loader."""

    FAILED = "failed"
    BROKEN = "broken"
    INCONCLUSIVE = "inconclusive"
    EXPECTED = "expected"
    SKIPPED = "skipped"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's code: a file and line, and what stands there (an attribute path, a function)."""

    file: str | None = None
    line: int | None = None
    what: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return " in ".join(part for part in (self.what, place if self.file else None) if part)


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect that was observed: what, with which numbers, where, and how to see it again.

    A `mild` one leaves another reading open: nothing but such findings is a warning at most.
    """

    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    at: Location | None = None
    repro: str | None = None
    mild: bool = False


@dataclass(frozen=True, slots=True)
class Looked:
    """What stood behind a judgement: how much was exercised, by unit, and what a pass should still tell."""

    exercised: Mapping[str, int]
    note: str | None = None


def known(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Evidence without what is None or empty: what could not be seen is not listed."""
    return {name: value for name, value in evidence.items() if value not in (None, "", [], {}, ())}


Judgement = Generator[Finding, None, Looked]
"""What a judge is: it yields findings and returns what it looked at."""


@dataclass(frozen=True, slots=True)
class Doc:
    """The documentation of a check, read from its judge's docstring."""

    summary: str
    symptom: str
    cause: str
    fix: str
    links: tuple[str, ...] = ()

    @classmethod
    def parse(cls, docstring: str) -> Doc:
        """Split a docstring into its summary and its `Symptom:`, `Cause:`, `Fix:` and `Links:` sections.

        Raises ValueError when a section is missing: a check without documentation is a defect.
        """
        summary, *sections = re.split(r"^(Symptom|Cause|Fix|Links):", inspect.cleandoc(docstring), flags=re.MULTILINE)
        found = {
            name.lower(): inspect.cleandoc("    " + text)
            for name, text in zip(sections[::2], sections[1::2], strict=True)
        }
        missing = {"symptom", "cause", "fix"} - set(found)
        if missing or not summary.strip():
            raise ValueError(f"a check's docstring lacks: {', '.join(sorted(missing)) or 'its summary'}")
        links = tuple(found.pop("links", "").split())
        return cls(summary=" ".join(summary.split()), links=links, **found)


FIRST_SET = "2026.1"
"""The first check set. A later one, as `2026.2`, has all checks of those before it and some new ones."""


@dataclass(frozen=True, slots=True)
class Check:
    """A contract that a loader must keep: a stable code and name, its documentation, and its judge."""

    code: str
    name: str
    severity: Severity
    doc: Doc
    judge: Callable[[Any], Judgement]
    """Judges one loader, by its `Lab`."""
    since: str = FIRST_SET
    """The check set in which it arrived."""

    @property
    def stem(self) -> str:
        """The one spelling that the check, its sample and its docs page share: `dg101_cloned_worker_rng`."""
        return f"{self.code}-{self.name}".lower().replace("-", "_")

    @property
    def id(self) -> str:
        """The spelling shown to users: `DG101-cloned-worker-rng`."""
        return f"{self.code}-{self.name}"

    @property
    def spellings(self) -> tuple[str, str, str]:
        """What users may call it: its code, its name, or both."""
        return self.code, self.name, self.id


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one check on one loader.

    `exercised` counts what was really looked at (samples, draws, workers, ranks), by unit.
    `seconds` is the time this check waited for observations and judged them.
    """

    code: str
    name: str
    severity: Severity
    loader: str
    status: Status
    findings: tuple[Finding, ...] = ()
    reason: str | None = None
    exercised: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def id(self) -> str:
        """The stable, selectable name of this result: `DG101-cloned-worker-rng[train]`."""
        return f"{self.code}-{self.name}[{self.loader}]"


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one scan found, ready for a renderer."""

    targets: tuple[str, ...]
    results: tuple[Result, ...]
    environment: Mapping[str, Any]
    settings: Mapping[str, Any]
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    schema: str = SCHEMA
    version: int = SCHEMA_VERSION

    def count(self, status: Status) -> int:
        """How many results have this status."""
        return sum(result.status is status for result in self.results)

    def exit_code(self, fail_on: Severity) -> int:
        """0 when nothing at or above `fail_on` failed, 1 when something did, 3 when dataguard itself broke."""
        if self.count(Status.BROKEN):
            return 3
        failed = (result for result in self.results if result.status is Status.FAILED)
        return int(any(result.severity.rank <= fail_on.rank for result in failed))
