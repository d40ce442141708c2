"""A loader that does not run is reported whatever was selected."""

from __future__ import annotations

import pytest

from dataguard.core.model import Severity, Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings


@pytest.mark.scan
@pytest.mark.parametrize("settings", [Settings(select=("DG408",)), Settings(select=("DG501",), ignore=("DG001",))])
def test_a_crash_is_reported_though_it_was_not_asked_for(settings: Settings) -> None:
    report = scan("tests.loaders.timed:raising", settings)
    assert [(result.code, result.status) for result in report.results] == [
        ("DG001", Status.FAILED),
        (settings.select[0], Status.SKIPPED),
    ]
    assert report.exit_code(Severity.WARNING) == 1


@pytest.mark.scan
def test_a_loader_that_runs_is_not_mentioned() -> None:
    report = scan("sample_datasets.dg301_overlong_len:good", Settings(select=("DG301",)))
    assert [(result.code, result.status) for result in report.results] == [("DG301", Status.PASSED)]
