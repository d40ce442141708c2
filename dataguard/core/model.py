"""The core types: checks and their documentation, findings, results, reports and errors. Standard library only.

A `Check` judges a `Lab`: it yields a `Finding` for each defect and returns a `Coverage`. The engine makes a `Result` of
both, and a `Report` of all results. Every part of dataguard, and the small reporting process, imports this module.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from textwrap import dedent
from typing import Any

from dataguard.core.figures import Figure

PACKAGE = "dataguard"
"""The name to install."""
DOCS = "https://dataguard.readthedocs.io"
"""Where `docs/` is published as a site."""
REPOSITORY = "https://github.com/dataguard-dev/dataguard"
"""Where the code is developed."""
ISSUES = f"{REPOSITORY}/issues"
"""Where wrong findings, missed bugs and crashes are reported."""


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

        Raises ValueError when a section is missing.
        """
        summary, *sections = re.split(r"^(Symptom|Cause|Fix|Links):", inspect.cleandoc(docstring), flags=re.MULTILINE)
        texts = {
            name.lower(): inspect.cleandoc("    " + text)
            for name, text in zip(sections[::2], sections[1::2], strict=True)
        }
        missing = {"symptom", "cause", "fix"} - set(texts)
        if missing or not summary.strip():
            raise ValueError(f"a check's docstring lacks: {', '.join(sorted(missing)) or 'its summary'}")
        links = tuple(texts.pop("links", "").split())
        return cls(summary=" ".join(summary.split()), links=links, **texts)


SCHEMA = "urn:dataguard:report:1"
SCHEMA_VERSION = 1


class DataguardError(Exception):
    """Base class of all errors that dataguard raises on purpose."""


class UsageError(DataguardError):
    """A target, a setting or an option is wrong."""


class NotApplicable(DataguardError):
    """The check does not apply to this loader; reported as SKIPPED."""


class NotTested(NotApplicable):
    """The check may apply, but there is no means to test it here: the reason says what is missing."""

    def __str__(self) -> str:
        return f"{UNTESTED}{super().__str__()}"


class Undecided(DataguardError):
    """The check applies, but the budget or the data were not enough to decide; reported as INCONCLUSIVE."""


def prevented(lack: str) -> Undecided:
    """What is raised where there is too little of what observing takes."""
    return Undecided(f"{PREVENTED}{lack}")


class Severity(str, Enum):
    """How much a defect costs: ERROR ruins training, WARNING may, NOTE is worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for the most severe, so that sorting by rank puts errors first."""
        return list(Severity).index(self)


class Status(str, Enum):
    """The outcome of one check on one loader."""

    FAILED = "failed"
    BROKEN = "broken"
    INCONCLUSIVE = "inconclusive"
    EXPECTED = "expected"
    SKIPPED = "skipped"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's code: a file and line, and what is there (an attribute path, a function)."""

    file: str | None = None
    line: int | None = None
    what: str | None = None

    def __str__(self) -> str:
        file_and_line = self.file if self.line is None else f"{self.file}:{self.line}"
        return " in ".join(part for part in (self.what, file_and_line if self.file else None) if part)


@dataclass(frozen=True, slots=True)
class SourceLines:
    """Lines of the user's file as text: the one that a finding points at, the one before and the one after."""

    first: int
    """The number of the first of these lines."""
    lines: tuple[str, ...]

    @property
    def numbered(self) -> list[tuple[int, str]]:
        """Each line with its number, without the indentation that all share."""
        return list(enumerate(dedent("\n".join(self.lines).expandtabs(4)).split("\n"), self.first))

    def marked(self, line: int | None) -> str:
        """The lines as text with their numbers, this one with a mark."""
        column = max(len(str(number)) for number, _ in self.numbered)
        shown = (f"{'>' if number == line else ' '} {number:>{column}}  {text}" for number, text in self.numbered)
        return "\n".join(map(str.rstrip, shown))


@dataclass(frozen=True, slots=True)
class Finding:
    """One observed defect: what, with which numbers, where, and how to reproduce it.

    An `ambiguous` finding has an innocent explanation too: a result with only ambiguous findings is at most a warning.
    `source` is the line of `at` with its neighbours; the reporting process reads it. `sample` is the index of the
    sample that it is about: what that is read from is added to the evidence when the judgement is complete.
    """

    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    at: Location | None = None
    repro: str | None = None
    ambiguous: bool = False
    source: SourceLines | None = None
    sample: Any = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a verdict is based on: how much was exercised, by unit, and a note that a pass should carry."""

    exercised: Mapping[str, int]
    note: str | None = None


def without_empty(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Evidence without the entries that are None or empty."""
    return {name: value for name, value in evidence.items() if value not in (None, "", [], {}, ())}


Judgement = Generator[Finding, None, Coverage]
"""What a check's judge returns: a generator that yields findings and returns what it looked at."""


FIRST_SET = "2026.1"
"""The first check set. A later one, such as `2026.2`, contains the earlier sets and adds new checks."""


@dataclass(frozen=True, slots=True)
class Check:
    """A contract that a loader must keep: a stable code and name, documentation, and the function that judges it."""

    code: str
    name: str
    severity: Severity
    doc: Doc
    judge: Callable[[Any], Judgement]
    """Judges one loader, by its `Lab`."""
    since: str = FIRST_SET
    """The check set that introduced it."""

    @property
    def stem(self) -> str:
        """The name that the check's module, sample and docs page share: `dg101_cloned_worker_rng`."""
        return f"{self.code}-{self.name}".lower().replace("-", "_")

    @property
    def id(self) -> str:
        """The name shown to users: `DG101-cloned-worker-rng`."""
        return f"{self.code}-{self.name}"

    @property
    def page(self) -> str:
        """The address of its page in the documentation."""
        return f"{DOCS}/checks/{self.stem}/"

    @property
    def spellings(self) -> tuple[str, str, str]:
        """What users may call it: its code, its name, or both."""
        return self.code, self.name, self.id


STALE = "expected to fail"
"""Begins the reason of a passed check that the user expects to fail."""
UNTESTED = "not tested: "
"""Begins the reason of a check that may apply, and that nothing here can test."""
TO_DECLARE = "; declare "
"""Stands in such a reason between something suspicious that was seen and what the contract can say of it."""
PREVENTED = "this check was prevented: "
"""Begins the reason of an undecided check for which there was no disk space, memory, process, or right to write."""
STOPPED = ("see DG00", "see DG104: ", "see DG106: ")
"""Begin the reason of a check that could not run, because the loader did not."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one check on one loader.

    `exercised` counts what was actually examined (samples, draws, workers, ranks), by unit.
    `seconds` is the time spent on the observations of this check and on judging them.
    `figures` show what the findings say; only formats that draw use them.
    `target` is the spelling of the target that the loader belongs to.
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
    figures: tuple[Figure, ...] = ()
    target: str = ""

    @property
    def id(self) -> str:
        """The stable, selectable name of this result: `DG101-cloned-worker-rng[train]`."""
        return f"{self.code}-{self.name}[{self.loader}]"

    @property
    def page(self) -> str:
        """The address of the page of its check."""
        return f"{DOCS}/checks/{self.code}_{self.name}/".lower().replace("-", "_")

    @property
    def stale(self) -> bool:
        """Whether the check passed although it is expected to fail: the expectation can be removed."""
        return self.status is Status.PASSED and (self.reason or "").startswith(STALE)

    @property
    def stopped(self) -> bool:
        """Whether the check could not run, because the loader did not."""
        return self.status is Status.SKIPPED and (self.reason or "").startswith(STOPPED)

    @property
    def cause(self) -> str | None:
        """The code of the check that says why the loader did not run, so that this one could not."""
        return (self.reason or "")[4:9] if self.stopped else None

    @property
    def untested(self) -> bool:
        """Whether the check may apply, and nothing here could test it."""
        return self.status is Status.SKIPPED and (self.reason or "").startswith(UNTESTED)

    @property
    def prevented(self) -> bool:
        """Whether there was too little of what observing takes, such as disk space."""
        return self.status is Status.INCONCLUSIVE and (self.reason or "").startswith(PREVENTED)

    @property
    def undecided(self) -> bool:
        """Whether the check may apply and was not decided."""
        return self.status is Status.INCONCLUSIVE or self.stopped


def mostly_prevented(applied: Iterable[tuple[str, bool]]) -> tuple[str, ...]:
    """The loaders of which most checks were prevented, from the loader of each check, and whether it was."""
    outcomes: dict[str, list[bool]] = {}
    for loader, prevented in applied:
        outcomes.setdefault(loader, []).append(prevented)
    return tuple(loader for loader, prevented in outcomes.items() if 2 * sum(prevented) > len(prevented))


RUNNING = ("DG001", "DG002", "DG003")
"""The checks of whether a loader runs at all. They run whatever is selected, and are reported then if they fail."""
DECIDED = (Status.PASSED, Status.FAILED, Status.EXPECTED)
"""The statuses of a check that reached a verdict."""


@dataclass(frozen=True, slots=True)
class Report:
    """The results of one scan, as plain data for a renderer; see `dataguard.report` for how it shows itself."""

    targets: tuple[str, ...]
    results: tuple[Result, ...]
    environment: Mapping[str, Any]
    settings: Mapping[str, Any]
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    schema: str = SCHEMA
    version: int = SCHEMA_VERSION

    @property
    def failed(self) -> tuple[Result, ...]:
        """The failed results, the most severe first; then those that were prevented, if they are most."""
        hampered = self.hampered
        return (*self.defects, *(result for result in self.results if result.prevented and result.loader in hampered))

    @property
    def defects(self) -> tuple[Result, ...]:
        """The results with findings that are not expected, the most severe first."""
        failed = [result for result in self.results if result.status is Status.FAILED]
        return tuple(sorted(failed, key=lambda result: (result.severity.rank, result.code)))

    @property
    def hampered(self) -> tuple[str, ...]:
        """The loaders of which more than half of the checks that apply were prevented."""
        applied = (result for result in self.results if result.status in (*DECIDED, Status.INCONCLUSIVE))
        return mostly_prevented((result.loader, result.prevented) for result in applied)

    @property
    def ran(self) -> bool:
        """Whether any loader ran: a check of what it yields reached a verdict."""
        return any(result.status in DECIDED and result.code not in RUNNING for result in self.results)

    def count(self, status: Status) -> int:
        """How many results have this status."""
        return sum(result.status is status for result in self.results)

    def exit_code(self, fail_on: Severity, *, fail_on_undecided: bool = False) -> int:
        """0 for a pass, 1 for findings of severity `fail_on` or above, 3 for a bug of dataguard.

        It is no pass if no check ran, or none was decided of those that may apply, or if most of a loader
        were prevented; with `fail_on_undecided`, nor if a single one was not decided.
        """
        if self.count(Status.BROKEN):
            return 3
        failed = (result for result in self.results if result.status is Status.FAILED)
        undecided = any(result.undecided for result in self.results) or not self.results
        decided = any(result.status in DECIDED for result in self.results)
        open_ = bool(self.hampered) or (undecided and (fail_on_undecided or not decided))
        return int(open_ or any(result.severity.rank <= fail_on.rank for result in failed))


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a scan; `report` holds the results that were made before, of `total` checks."""

    def __init__(self, report: Report, total: int) -> None:
        super().__init__()
        self.report = report
        self.total = total
