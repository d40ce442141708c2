"""Samples under other settings of the loader: problems are noted, and fail nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import strategies as st

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.lab.batches.settings_trials import ExampleSearch
from dataguard.settings.settings import Settings


@pytest.mark.scan
def test_what_other_settings_would_do_is_a_note() -> None:
    report = scan("tests.loaders.arranged:make", Settings(select=("DG401",), timeout=10))
    assert {result.status for result in report.results} == {Status.PASSED}
    reasons = {result.loader: result.reason or "" for result in report.results}
    settings = "with batch_size=1, drop_last=False, num_workers=0, "
    assert f"{settings}the loader raises AttributeError" in reasons["workers"]
    assert reasons["squeezed"] == f"{settings}batch is float32 of rank 1 instead of float32 of rank 2"
    assert not any(reasons[name] for name in ("even", "plain", "default", "exclusive"))
    tried = {result.loader: result.exercised.get("settings", 0) for result in report.results}
    assert tried["default"] == 0
    assert tried["plain"] > 1


def tries(search: ExampleSearch) -> list[int]:
    """What is drawn until the number is small."""
    drawn: list[int] = []

    def fails(number: int) -> bool:
        drawn.append(number)
        return 500 < number < 600

    search.smallest(st.integers(0, 1000), fails, examples=200, subject="numbers")
    return drawn


def test_the_seed_decides_what_is_drawn() -> None:
    assert tries(ExampleSearch()) == tries(ExampleSearch())
    assert tries(ExampleSearch(seed=1)) != tries(ExampleSearch())


@pytest.mark.usefixtures("ordinary_profile")
def test_a_failing_example_is_kept_for_the_next_run(tmp_path: Path) -> None:
    assert 501 in tries(ExampleSearch(database=str(tmp_path), name="loader"))
    assert tries(ExampleSearch(database=str(tmp_path), name="loader"))[0] == 501
    assert tries(ExampleSearch(database=str(tmp_path), name="other"))[0] != 501


def test_a_seed_goes_without_the_database(tmp_path: Path) -> None:
    assert tries(ExampleSearch(seed=1, database=str(tmp_path))) == tries(ExampleSearch(seed=1))
    assert not list(tmp_path.iterdir())
