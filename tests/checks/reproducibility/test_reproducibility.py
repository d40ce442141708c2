"""Family 7 on real loaders: the stage that differs, what looks as if it did, and the recommended seeds."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from torch.utils.data import DataLoader

from dataguard.core.model import Result, Status
from dataguard.engine import scan
from dataguard.report import Report
from dataguard.settings.settings import Settings
from tests.bench.stages import is_named
from tests.loaders import reproducible

pytestmark = pytest.mark.scan
HERE = "tests.loaders.reproducible"


def scanned(name: str, *select: str, **options: Any) -> Report:
    return scan(f"{HERE}:{name}", Settings(select=select or ("DG7",), **options))


def of(report: Report, code: str, loader: str | None = None) -> Result:
    (found,) = (one for one in report.results if one.code == code and loader in (None, one.loader))
    return found


def test_the_planted_stage_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = [*reproducible.names(len(reproducible.SOURCES))][::3]
    monkeypatch.setenv("PLANTED", " ".join(planted))
    report = scanned("planted", "DG701")
    results = {one.loader: one for one in report.results if one.code == "DG701"}
    assert [name for name in planted if not is_named(results[name])] == []


def test_what_only_looks_random_passes() -> None:
    report = scanned("clean")
    assert {one.loader: one.status for one in report.results if one.code == "DG701"} == {
        "timed": Status.PASSED,
        "late": Status.PASSED,
        "mixed": Status.PASSED,
        "unseeded": Status.SKIPPED,
    }
    assert "no seed is set anywhere" in str(of(report, "DG701", "unseeded").reason)


def test_a_contract_requires_reproducible_runs() -> None:
    report = scanned("clean", contract={"deterministic": True})
    (finding,) = of(report, "DG701", "unseeded").findings
    assert finding.evidence["expected by"] == ["contract.deterministic"]
    assert finding.evidence["values that differ"] == "192 of 192"


def test_the_recommended_seeds_give_the_same_batches() -> None:
    result = of(scanned("recommended", "DG701"), "DG701")
    assert (result.status, result.exercised["runs"]) == (Status.PASSED, 2)


def test_spawned_workers_are_not_started_for_it() -> None:
    result = of(scanned("spawned", "DG701"), "DG701")
    assert (result.status, result.reason) == (
        Status.SKIPPED,
        "not tested: its workers are spawned, and it does not run without them",
    )


def test_threads_with_a_queue_are_held_up() -> None:
    report = scanned("queued")
    assert not of(report, "DG701").findings
    (finding,) = of(report, "DG702").findings
    assert "queue.Queue.put" in finding.message


@pytest.mark.skipif("in_order" not in inspect.signature(DataLoader.__init__).parameters, reason="needs torch 2.6")
def test_batches_in_any_order_harm_training_only() -> None:
    report = scanned("unordered")
    assert "in_order=False" in of(report, "DG702", "train").findings[0].message
    assert of(report, "DG702", "val").status is Status.PASSED
