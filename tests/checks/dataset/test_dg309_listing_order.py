"""DG309: an order of files that decides a split is an error, and one that only moves samples a warning."""

from __future__ import annotations

import pytest

from dataguard.core.model import Severity, Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings


@pytest.mark.scan
@pytest.mark.parametrize(("name", "severity"), [("shared", Severity.WARNING), ("divided", Severity.ERROR)])
def test_an_order_of_files_is_an_error_where_it_decides_a_split(name: str, severity: Severity) -> None:
    report = scan(f"tests.loaders.listed:{name}", Settings(select=("DG309",)))
    failed = [result for result in report.results if result.status is Status.FAILED]
    assert [(result.loader, result.severity) for result in failed] == [("train", severity), ("val", severity)]
