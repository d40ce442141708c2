"""Checks that need an accelerator reach their verdicts without one, on a device in software; see `simulated_device`."""

from __future__ import annotations

import pytest
from torch.utils import backend_registration

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings

CODES = ("DG405", "DG408", "DG802")

pytestmark = [
    pytest.mark.scan,
    pytest.mark.skipif(
        not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
        reason="this torch has no devices written in Python",
    ),
]


def test_faces_on_a_simulated_device_trip_what_their_names_say() -> None:
    settings = Settings(samples=64, select=CODES, contract={"step_ms": 40})
    results = scan("tests.loaders.on_simulated_device:loaders", settings).results
    found = {result.loader for result in results if result.status is Status.FAILED}
    assert {result.code for result in results if result.status is Status.FAILED} == set(CODES)
    assert found == {result.loader for result in results if ".bad" in result.loader}
    own = [result for result in results if result.code == result.loader[:5] and ".good" in result.loader]
    assert {result.status for result in own} <= {Status.PASSED, Status.SKIPPED}
    assert {result.code for result in own if result.status is Status.PASSED} == set(CODES)
