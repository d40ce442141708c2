"""The checks of the dataset protocol on loaders that only look broken, on slow ones, and by the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dataguard.engine import scan
from dataguard.model import Severity, Status
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


@pytest.mark.parametrize("face", ["unlike_rank", "unlike_keys", "unlike_none", "unlike_dtype"])
def test_samples_of_another_structure_that_collate_refuses_fail_both_checks(face: str) -> None:
    report = scan(f"sample_datasets.dg401_ragged_collate:{face}", Settings(select=("DG0", "DG3", "DG4")))
    assert reported(report, Status.FAILED) == [(face, "DG305"), (face, "DG401")]


def test_slow_samples_leave_verdicts_open() -> None:
    report = scan("tests.loaders.protocol:slow", Settings(select=("DG306",), budget=2))
    assert reported(report, Status.INCONCLUSIVE) == [("slow", "DG306")]
    assert "use --budget" in (report.results[0].reason or "")


@pytest.mark.parametrize(("contract", "failing"), [({}, ["DG303"]), ({"repeat": 2}, ["DG303"]), ({"repeat": 3}, [])])
def test_a_repetition_may_be_declared(contract: Mapping[str, Any], failing: list[str]) -> None:
    report = scan("sample_datasets.dg303_wrapped_index:bad", Settings(select=("DG303",), contract=contract))
    assert [code for _, code in reported(report, Status.FAILED)] == failing
    assert not report.notes


def test_a_stream_has_no_indices() -> None:
    report = scan("tests.loaders.public:numbers_stream", Settings(select=("DG3",)))
    assert {result.code for result in report.results if result.status is not Status.SKIPPED} == {"DG305"}


@pytest.mark.parametrize(
    ("face", "severity"),
    [
        ("dg302_endless_index:bad", Severity.WARNING),
        ("dg302_endless_index:bad_dataset", Severity.ERROR),
        ("dg307_mutated_source:bad", Severity.ERROR),
        ("dg307_mutated_source:bad_rounded", Severity.WARNING),
        ("dg307_mutated_source:bad_validation", Severity.WARNING),
        ("dg307_mutated_source:bad_shared", Severity.ERROR),
        ("dg307_mutated_source:bad_flipped", Severity.ERROR),
        ("dg309_listing_order:bad_classes", Severity.ERROR),
        ("dg309_listing_order:bad_walk", Severity.WARNING),
        ("dg309_listing_order:bad_unlabelled", Severity.WARNING),
        ("dg309_listing_order:bad_indexed", Severity.WARNING),
        ("dg309_listing_order:bad_windows", Severity.WARNING),
    ],
)
def test_what_does_little_harm_is_a_warning(face: str, severity: Severity) -> None:
    report = scan(f"sample_datasets.{face}", Settings(select=(face[:5].upper(),)))
    assert [(result.status, result.severity) for result in report.results] == [(Status.FAILED, severity)]


def test_what_a_sample_always_reads_is_not_read_instead() -> None:
    (result,) = scan("sample_datasets.dg312_substituted_sample:bad_frame", Settings(select=("DG312",))).results
    assert "read instead" not in result.findings[0].evidence


def test_an_order_that_only_a_convention_calls_wrong_is_a_warning() -> None:
    for face, severity in (("bad", Severity.ERROR), ("bad_by_hand", Severity.WARNING)):
        (result,) = scan(f"sample_datasets.dg505_swapped_channels:{face}", Settings(select=("DG505",))).results
        assert (result.status, result.severity) == (Status.FAILED, severity)
