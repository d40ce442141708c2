from __future__ import annotations

from collections.abc import Iterator

import pytest

from dataguard.training.guard import guard


@pytest.fixture(autouse=True)
def _no_other_loaders() -> Iterator[None]:
    """Each test has a report of its own."""
    guard.reset()
    yield
    guard.reset()
