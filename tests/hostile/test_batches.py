"""Batches that do not reach the main process get the verdict of plain torch, which raises, hangs or dies."""

from __future__ import annotations

import pytest

from dataguard import scan
from tests.hostile.loaders_batches import CASES, RAISED

pytestmark = pytest.mark.scan


def test_each_batch_gets_the_verdict_of_plain_torch() -> None:
    report = scan("tests.hostile.loaders_batches:make_loaders", select="DG0", timeout=1.0)
    failed = {result.loader: (result.code, result.findings[0].message) for result in report.results if result.findings}
    for name, (code, words, _) in CASES.items():
        found, message = failed.get(name, (None, ""))
        assert (found, words in message) == (code, True), f"{name}: {found} {message}"


def test_a_batch_of_spawned_workers_too() -> None:
    report = scan("tests.hostile.loaders_batches:make_spawned", select="DG0,DG104")
    (result,) = (result for result in report.results if result.findings)
    assert result.code == RAISED
    assert "class Delegates" in result.findings[0].message
