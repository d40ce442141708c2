"""The nouns everything else speaks in: checks, findings, results, reports and the ways to fail.

Standard library only, so that the process that reports stays small and every room can import it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataguard.lab import Lab

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
    """One defect that was observed: what, with which numbers, where, and how to see it again."""

    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    at: Location | None = None
    repro: str | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """What stood behind a judgement: how much was exercised, by unit, and what a pass should still tell."""

    exercised: Mapping[str, int]
    note: str | None = None


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


@dataclass(frozen=True, slots=True)
class Check:
    """A contract that a loader must keep: a stable code and name, its documentation, and its judge."""

    code: str
    name: str
    severity: Severity
    doc: Doc
    judge: Callable[[Lab], Judgement]

    @property
    def stem(self) -> str:
        """The one spelling that the check, its sample and its docs page share: `dg101_cloned_worker_rng`."""
        return f"{self.code}-{self.name}".lower().replace("-", "_")

    @property
    def id(self) -> str:
        """The spelling shown to users: `DG101-cloned-worker-rng`."""
        return f"{self.code}-{self.name}"


def check(code: str, name: str, severity: Severity) -> Callable[[Callable[[Lab], Judgement]], Check]:
    """Turn a judge into a `Check`; its docstring becomes the check's documentation."""

    def decorate(judge: Callable[[Lab], Judgement]) -> Check:
        return Check(code, name, severity, Doc.parse(judge.__doc__ or ""), judge)

    return decorate


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a stack, as plain data."""

    file: str
    line: int
    function: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Incident:
    """What the user's code was doing when it raised, died or hung.

    `stage` is one of import, factory, init (worker start), sampler, iterate, sample, collate, transfer.
    """

    stage: str
    message: str
    frames: tuple[Frame, ...] = ()
    index: str | None = None
    batch: tuple[str, ...] = ()
    worker: int | None = None
    error_type: str | None = None
    error_bases: tuple[str, ...] = ()
    signal: str | None = None
    exit_code: int | None = None
    stacks: str = ""
    output: str = ""

    @property
    def own_frame(self) -> Frame | None:
        """The innermost frame of the user's own code: not torch, not the standard library, not site-packages."""
        return next((frame for frame in reversed(self.frames) if not is_library(frame.file)), None)

    @property
    def headline(self) -> str:
        """The message on one line of at most 160 characters."""
        first = self.message.partition("\n")[0]
        return first if len(first) <= 160 else f"{first[:157]}..."

    @property
    def out_of_shared_memory(self) -> bool:
        """Whether /dev/shm was full: an error since torch 2.10, a bus error while collating before that."""
        return "unable to allocate shared memory" in self.message or (
            self.signal == "SIGBUS" and self.stage in ("collate", "transfer")
        )

    @property
    def location(self) -> Location | None:
        """The user's own frame as a location, else the innermost frame there is."""
        frame = self.own_frame or (self.frames[-1] if self.frames else None)
        return Location(frame.file, frame.line, frame.function) if frame else None

    @property
    def where(self) -> str:
        """The index, worker and stage in words: `index 17 in worker 1`."""
        parts = [f"index {self.index}" if self.index is not None else "", _STAGES.get(self.stage, self.stage)]
        parts.append(f"worker {self.worker}" if self.worker is not None else "")
        return ", ".join(part for part in parts if part)


def is_library(file: str) -> bool:
    """Whether a source file belongs to an installed package, the standard library or dataguard, not to the user."""
    return file.startswith(_OWN) or _LIBRARY.search(file) is not None


_OWN = str(Path(__file__).parent)
_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\]|^<")
_STAGES = {
    "import": "importing the module",
    "factory": "calling the factory",
    "init": "starting the worker",
    "sampler": "drawing indices",
    "iterate": "iterating the loader",
    "sample": "reading a sample",
    "collate": "collating a batch",
    "transfer": "sending a batch to the main process",
}


class LoaderFailed(DataguardError):
    """The user's code did not get through an observation; `incident` says what it was doing."""

    code = "DG001"

    def __init__(self, incident: Incident) -> None:
        super().__init__(incident.message)
        self.incident = incident

    def __reduce__(self) -> tuple[type[LoaderFailed], tuple[Incident]]:
        return type(self), (self.incident,)


class LoaderRaised(LoaderFailed):
    """The user's code raised an exception."""


class LoaderDied(LoaderFailed):
    """A process of the user's loader ended by a signal or an exit call."""

    code = "DG002"


class LoaderHung(LoaderFailed):
    """The user's loader made no progress before the deadline."""

    code = "DG003"


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
