"""The checks of the dataset protocol on loaders that only look broken, on slow ones, and by the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.report import Report
from dataguard.settings.settings import Settings

pytestmark = pytest.mark.scan


def reported(report: Report, *statuses: Status) -> list[tuple[str, str]]:
    """The loaders and codes of the results with these statuses."""
    return [(result.loader, result.code) for result in report.results if result.status in statuses]


def test_what_only_looks_broken_passes() -> None:
    report = scan("tests.loaders.protocol:CLEAN", Settings(select=("DG3",)))
    assert reported(report, Status.FAILED, Status.BROKEN, Status.INCONCLUSIVE) == []


def test_an_index_removed_by_filtering_differs_from_other_keys() -> None:
    select = Settings(select=("DG001", "DG301"))
    gap = scan("tests.loaders.protocol:sifted", select)
    assert reported(gap, Status.FAILED) == [("sifted", "DG001"), ("sifted", "DG301")]
    assert gap.results[1].findings[0].message == "len(dataset) is 32, but index 3 raises KeyError: 3"
    assert reported(scan("tests.loaders.protocol:renumbered", select), Status.FAILED) == []
    for other in ("unnamed", "oversampled"):
        assert reported(scan(f"tests.loaders.protocol:{other}", select), Status.FAILED) == [(other, "DG001")]


def test_samples_of_another_structure_that_collate_refuses_fail_both_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"unlike_{what}" for what in ("rank", "keys", "none", "dtype")]
    monkeypatch.setenv("FACES", " ".join(f"dg401_ragged_collate:{name}" for name in names))
    report = scan("tests.loaders.faces:named", Settings(select=("DG0", "DG3", "DG4")))
    failed = [(f"DG401.{name}", code) for name in names for code in ("DG305", "DG401")]
    assert sorted(reported(report, Status.FAILED)) == sorted(failed)


def test_slow_samples_leave_verdicts_open() -> None:
    report = scan("tests.loaders.protocol:slow", Settings(select=("DG306",), budget=2))
    assert reported(report, Status.INCONCLUSIVE) == [("slow", "DG306")]
    assert "use --budget" in (report.results[0].reason or "")


@pytest.mark.parametrize(("contract", "failing"), [({"repeat": 2}, ["DG303"]), ({"repeat": 3}, [])])
def test_a_repetition_may_be_declared(contract: Mapping[str, Any], failing: list[str]) -> None:
    report = scan("sample_datasets.dg303_wrapped_index:bad", Settings(select=("DG303",), contract=contract))
    assert [code for _, code in reported(report, Status.FAILED)] == failing
    assert not report.notes


def test_a_stream_has_no_indices() -> None:
    report = scan("tests.loaders.public:numbers_stream", Settings(select=("DG3",)))
    assert {result.code for result in report.results if result.status is not Status.SKIPPED} == {"DG305"}


def test_what_a_sample_always_reads_is_not_read_instead() -> None:
    (result,) = scan("sample_datasets.dg312_substituted_sample:bad_frame", Settings(select=("DG312",))).results
    assert "read instead" not in result.findings[0].evidence
