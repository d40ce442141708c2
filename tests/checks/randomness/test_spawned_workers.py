"""What a spawned worker would do is found where workers are forked, and correct loaders that look suspicious pass."""

from __future__ import annotations

import sys

import pytest

from dataguard.core.model import Severity, Status
from dataguard.engine import scan
from dataguard.report import Report
from dataguard.settings.settings import Settings
from tests.loaders import sent

pytestmark = pytest.mark.scan

CODES = ("DG104", "DG105")


def scanned(monkeypatch: pytest.MonkeyPatch, *names: str) -> Report:
    monkeypatch.setenv("FACES", " ".join(f"tests.loaders.sent:{name}" for name in names))
    return scan("tests.loaders.faces:named", Settings(select=CODES, timeout=20))


def failed(report: Report) -> dict[str, str]:
    return {result.loader: result.code for result in report.results if result.status is Status.FAILED}


def test_correct_loaders_that_look_suspicious_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name in vars(sent) if name.startswith("good_")]
    assert len(names) >= 10
    monkeypatch.setenv("DATAGUARD_TEST_SCALE", "3")
    report = scanned(monkeypatch, *names)
    assert {result.status for result in report.results} == {Status.PASSED}, [
        (r.code, r.loader, [f.message for f in r.findings]) for r in report.results if r.findings
    ]


def test_what_fails_or_differs_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {"bad_view_written": "DG105", "bad_view_freed": "DG105", "bad_stream": "DG105", "bad_file": "DG104"}
    report = scanned(monkeypatch, *expected, "asked_for_fork")
    assert failed(report) == {f"sent.{name}": code for name, code in expected.items()}
    warned = [result for result in report.results if result.status is Status.FAILED]
    assert {result.severity for result in warned} == {Severity.WARNING}
    assert all("spawn (the default on macOS and Windows" in result.findings[0].message for result in warned)
    asked = [result for result in report.results if result.loader == "sent.asked_for_fork"]
    assert {result.reason for result in asked} == {"the loader asks for fork, which pickles nothing"}


@pytest.mark.skipif(sys.version_info < (3, 11, 5), reason="Python sends a lock that no worker can open")
def test_what_cannot_be_confirmed_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    report = scanned(monkeypatch, "unconfirmed")
    assert {result.status for result in report.results} == {Status.INCONCLUSIVE}, report
