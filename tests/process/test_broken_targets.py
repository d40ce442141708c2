"""A bug of dataguard in the survey of one target stays with that target."""

from __future__ import annotations

from pathlib import Path

import pytest

import dataguard
from dataguard.core.model import DataguardError, Status, UsageError
from dataguard.settings.settings import Settings

pytestmark = pytest.mark.scan

BREAKING = """
import sys
sys.modules["dataguard.observer.host"]._labs = None
from sample_datasets.dg301_overlong_len import good
"""
"""A target that breaks our observing process: its module is imported there."""
GOOD = "sample_datasets.dg301_overlong_len:good"
LOADERS = ("good", "broken", "last")


@pytest.fixture(autouse=True)
def _breaking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "breaking_ours.py").write_text(BREAKING)
    monkeypatch.chdir(tmp_path)


def test_the_other_targets_are_reported_and_the_bug_once() -> None:
    report = dataguard.scan(GOOD, "broken=breaking_ours:good", f"last={GOOD}", select=("DG301",))
    statuses = {loader: [one.status for one in report.results if one.loader == loader] for loader in LOADERS}
    assert statuses["good"] == statuses["last"] == [Status.PASSED]
    assert statuses["broken"] == [Status.BROKEN, Status.INCONCLUSIVE]
    assert str(report).count("TypeError: 'NoneType' object is not callable") == 1
    assert "dataguard broke before any check ran: see DG001-crashing-loader" in str(report)
    assert report.exit_code(Settings().fail_on) == 3
    assert "packages" in report.environment


def test_a_scan_of_which_nothing_is_left_is_raised() -> None:
    with pytest.raises(DataguardError, match="TypeError: 'NoneType' object is not callable"):
        dataguard.check("breaking_ours:good", select=("DG301",))


def test_a_wrong_target_is_one_result_if_there_are_others() -> None:
    wrong = f"{GOOD[:-4]}godo"
    report = dataguard.scan(wrong, GOOD, select=("DG301",))
    statuses = {(one.loader, one.code): one.status for one in report.results}
    assert statuses == {
        ("godo", "DG001"): Status.FAILED,
        ("godo", "DG301"): Status.SKIPPED,
        ("good", "DG301"): Status.PASSED,
    }
    (finding,) = report.failed[0].findings
    assert "has no attribute 'godo'" in finding.message
    assert finding.repro == f"dataguard scan {wrong} --select DG001"
    with pytest.raises(UsageError, match="no attribute 'godo'"):
        dataguard.scan(wrong, wrong.replace("godo", "gud"), select=("DG301",))
