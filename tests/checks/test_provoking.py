"""Healthy loaders that were written to provoke the checks of set 2026.3 are left alone."""

from __future__ import annotations

import pytest

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings
from tests.support.faces import todays

PROVOKED = ("DG411", "DG412", "DG521", "DG522", "DG523")


@pytest.mark.scan
@pytest.mark.parametrize("factory", todays(["views", "buffers", "mixtures", "splits"], turns=4))
def test_nothing_is_found(factory: str) -> None:
    report = scan(f"tests.loaders.provoking:{factory}", Settings(select=PROVOKED))
    found = [(result.id, result.reason) for result in report.results if result.status is Status.FAILED]
    assert found == [] == [(one.id, one.reason) for one in report.results if one.status is Status.BROKEN]
    assert any(result.status is Status.PASSED for result in report.results)
