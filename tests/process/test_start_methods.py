"""`--start-method all`: what other start methods change is found, and said to be theirs."""

from __future__ import annotations

import pytest

from dataguard.core.model import Result, Severity, Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings
from tests.support.faces import EVERY_FACE

pytestmark = pytest.mark.scan

SPAWN = "under spawn, the default on macOS and Windows: "
ONLY_SPAWNED = [
    ("sample_datasets.dg104_unspawnable_loader:good_lambda_forked", "DG104"),
    ("tests.loaders.public:shared_random_state", "DG101"),  # which takes most of a minute
]


def judged(target: str, *codes: str) -> dict[str, Result]:
    report = scan(target, Settings(select=codes, start_method="all"))
    return {result.code: result for result in report.results}


@pytest.mark.parametrize(("target", "code"), ONLY_SPAWNED if EVERY_FACE else ONLY_SPAWNED[:1])
def test_what_fails_only_when_spawned_is_said_to(target: str, code: str) -> None:
    found = judged(target, code)[code]
    assert found.status is Status.FAILED
    assert found.findings[0].message.startswith(SPAWN)
    assert (found.findings[0].repro or "").endswith(f"--select {code} --start-method spawn")
    assert not any(result.status is Status.FAILED for result in scan(target, Settings(select=(code,))).results)


def test_what_fails_anyway_is_not_blamed_on_the_start_method() -> None:
    found = judged("sample_datasets.dg101_cloned_worker_rng:bad", "DG101")["DG101"]
    assert found.status is Status.FAILED
    assert not found.findings[0].message.startswith("under")
    assert (found.findings[0].repro or "").endswith("--select DG101")
    source = found.findings[0].source
    assert source is not None
    assert "default_rng" in source.lines[1]


def test_what_is_a_warning_here_is_an_error_elsewhere() -> None:
    found = judged("sample_datasets.dg104_unspawnable_loader:bad", "DG104")["DG104"]
    assert found.severity is Severity.ERROR
    assert found.findings[0].message.startswith(SPAWN)


def test_what_forked_workers_skip_is_tried() -> None:
    found = judged("sample_datasets.dg105_spawn_divergence:good_fork", "DG104")["DG104"]
    assert found.status is Status.PASSED
    assert found.reason == "workers were started with spawn, the default on macOS and Windows"
