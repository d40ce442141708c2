"""Every outcome of a judge becomes a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataguard.baseline import expected
from dataguard.checks import CATALOGUE
from dataguard.core.incident import Incident, LoaderRaised
from dataguard.core.model import Coverage, Finding, NotApplicable, Result, Severity, Status, Undecided, UsageError
from dataguard.lab.core.observation_cache import ObservationCache
from dataguard.lab.process.side_by_side import counted
from dataguard.lab.subject import Repro
from dataguard.observer.judge import judge
from dataguard.settings.settings import Settings

CHECK = next(check for check in CATALOGUE if check.code == "DG206")
Outcome = Callable[[], Iterator[Finding]]


class Lab:
    """What `judge` itself reads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.repro = Repro("pkg.mod:make", "train")
        self.cache = ObservationCache(settings, Path())
        self.own_processes = 0


def result(
    *findings: Finding, error: Exception | None = None, severity: Severity = CHECK.severity, **options: Any
) -> Result:
    """The result of a judge that yields these findings, and then raises the error."""

    def judged(_: Any) -> Any:
        yield from findings
        if error:
            raise error
        return Coverage({"samples": 3}, "a note")

    check: Any = replace(CHECK, judge=judged, severity=severity)
    lab: Any = Lab(Settings(**options))
    return judge(check, lab, "train")


def test_a_pass_says_what_was_looked_at() -> None:
    passed = result()
    assert (passed.status, passed.reason, passed.exercised) == (Status.PASSED, "a note", {"samples": 3})
    assert (passed.id, passed.severity) == ("DG206-replayed-order[train]", Severity.ERROR)
    assert 0 <= passed.seconds < 60


def test_a_finding_has_a_command() -> None:
    failed = result(Finding("one"), Finding("two", repro="its own"), all=True, workers=2, ranks=3, start_method="spawn")
    assert failed.status is Status.FAILED
    options = "--all --workers 2 --start-method spawn --ranks 3"
    assert [one.repro for one in failed.findings] == [
        f"dataguard scan pkg.mod:make --select DG206 {options}",
        "its own",
    ]


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (NotApplicable("no images"), Status.SKIPPED, "no images"),
        (Undecided("too few"), Status.INCONCLUSIVE, "too few"),
        (UsageError("other loaders"), Status.INCONCLUSIVE, "other loaders"),
        (LoaderRaised(Incident("sample", "KeyError: 3\nmore")), Status.SKIPPED, "see DG001: KeyError: 3"),
    ],
)
def test_what_a_judge_raises(error: Exception, status: Status, reason: str) -> None:
    found = result(error=error)
    assert (found.status, found.reason, found.exercised) == (status, reason, {})


def test_a_bug_is_reported_as_one() -> None:
    found = result(error=IndexError("list index out of range"))
    assert found.status is Status.BROKEN
    assert str(found.reason).rstrip().endswith("IndexError: list index out of range")


@pytest.mark.parametrize(
    ("ambiguous", "severity", "shown"),
    [
        ((True, True), Severity.ERROR, Severity.WARNING),
        ((True, False), Severity.ERROR, Severity.ERROR),
        ((), Severity.ERROR, Severity.ERROR),
        ((True,), Severity.NOTE, Severity.NOTE),
    ],
)
def test_mild_findings_are_a_warning_at_most(ambiguous: tuple[bool, ...], severity: Severity, shown: Severity) -> None:
    findings = (Finding("it", ambiguous=one) for one in ambiguous)
    assert result(*findings, severity=severity).severity is shown


def test_expectations() -> None:
    made = (result(Finding("it")), result(), result(error=NotApplicable("no")))
    failed, passed, skipped = (expected(one, "deliberate") for one in made)
    assert (failed.status, failed.reason) == (Status.EXPECTED, "deliberate")
    assert passed.reason == "expected to fail (deliberate), but it passes: remove the expectation"
    assert (skipped.status, skipped.reason) == (Status.SKIPPED, "no")


@pytest.mark.parametrize(("findings", "status"), [((), Status.INCONCLUSIVE), ((Finding("the first"),), Status.FAILED)])
def test_the_budget_ends_a_judge_that_computes_too_long(findings: tuple[Finding, ...], status: Status) -> None:
    def judged(_: Any) -> Any:
        yield from findings
        while True:
            with suppress(Exception):  # as judges do around observations that may be missing
                sum(range(1000))

    check: Any = replace(CHECK, judge=judged)
    lab: Any = Lab(Settings(budget=0.5))
    with counted():
        found = judge(check, lab, "train")
    assert (found.status, found.reason) == (
        status,
        "the budget of 0.5 s is too short to judge what was observed: use --budget 1",
    )
    assert [one.message for one in found.findings] == [one.message for one in findings]
