"""What users write is answered in words, whatever it is; `python -m tests.bench.fuzz` tries many more cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.hostile.fuzz import PROPERTIES

CASES = 50


@pytest.mark.parametrize("prove", PROPERTIES, ids=lambda one: one.__name__)
def test_holds(prove: Callable[[Any], None]) -> None:
    hold(prove, CASES)


def hold(prove: Callable[[Any], None], cases: int) -> None:
    """Try a property on so many cases; the same ones each time."""
    limits = settings(
        max_examples=cases,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    limits(given(PROPERTIES[prove])(prove))()
