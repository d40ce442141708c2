"""Ranks that share a model, as the contract says, read the same batches, and others do not."""

from __future__ import annotations

import pytest

import dataguard
from dataguard.core.model import Status

CODES = ("DG108", "DG202", "DG203", "DG204")
FAILED = {
    "split": "ranks 0 and 1 share a model, and read different batches",
    "whole": "more than one of 2 ranks reads 33 samples",
    "split_stream": "ranks 0 and 1 share a model, and read different batches",
}


@pytest.mark.scan
def test_ranks_that_share_a_model_read_the_same_batches() -> None:
    names = ("shared", "stream", "unseeded", *FAILED)
    targets = [f"{name}=tests.loaders.tensor_parallel:{name}" for name in names]
    report = dataguard.scan(*targets, select=CODES, contract={"same_batches": 2})
    failed = {result.loader: finding.message for result in report.failed for finding in result.findings}
    assert failed == FAILED
    undecided = {result.loader for result in report.results if result.status is Status.INCONCLUSIVE}
    assert undecided == {"unseeded"}
    by_case = {(result.code, result.loader): result for result in report.results}
    assert by_case["DG203", "shared"].exercised["ranks"] == 2
