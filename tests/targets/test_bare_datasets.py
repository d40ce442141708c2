"""A dataset alone: how it is loaded is not known, and so nothing that hangs on it is held against it."""

from __future__ import annotations

import pytest

from dataguard.core.model import Result, Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings

pytestmark = pytest.mark.scan

HOW_IT_IS_LOADED = ("DG201", "DG207", "DG208")


def results(name: str) -> dict[str, Result]:
    """What those checks say of a dataset."""
    key = {"key": "tests.loaders.keyed:key"} if name == "train_stream" else {}
    report = scan(f"tests.loaders.bare:{name}", Settings(select=HOW_IT_IS_LOADED, contract=key))
    return {result.code: result for result in report.results}


@pytest.mark.parametrize("name", ["train_pictures", "train_stream", "train_shard"])
def test_a_loader_of_our_own_is_not_judged(name: str) -> None:
    assert {result.status for result in results(name).values()} == {Status.SKIPPED}


def test_any_object_with_an_index_is_a_dataset() -> None:
    report = scan("tests.loaders.bare:plain", Settings())
    told = [(one.loader, one.code) for one in report.results if one.status in (Status.FAILED, Status.BROKEN)]
    assert told == []
    orders = [one for one in report.results if one.code == "DG206"]
    assert [one.exercised.get("indices") for one in orders] == [96] * 4  # each loader's own, and no other's


def test_what_would_be_read_twice_is_said() -> None:
    reason = results("train_stream")["DG201"].reason or ""
    assert "the target is a dataset, not a loader" in reason
    assert "two workers would each read everything" in reason
