"""The user's own key recognises samples that nothing else does."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dataguard.core.model import Result, Status, UsageError
from dataguard.engine import scan
from dataguard.settings.settings import Settings

pytestmark = pytest.mark.scan

KEY = {"key": "tests.loaders.keyed:key"}


def result(loader: str, contract: Mapping[str, str]) -> Result:
    """What DG201 says."""
    return scan(f"tests.loaders.keyed:{loader}", Settings(select=("DG201",), contract=contract)).results[0]


def test_without_it_nothing_tells_samples_apart() -> None:
    assert result("doubled", {}).status is Status.INCONCLUSIVE


def test_with_it_they_are_counted() -> None:
    found = result("doubled", KEY)
    assert found.status is Status.FAILED
    assert found.findings[0].evidence["first duplicate"] == "sample 0 in a single process (['key'] = 0)"
    assert result("shared", KEY).status is Status.PASSED


@pytest.mark.parametrize("name", [":nothing", "", ":__name__"])
def test_a_key_that_is_no_function_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError):
        result("shared", {"key": f"tests.loaders.keyed{name}"})
