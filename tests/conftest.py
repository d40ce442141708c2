"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from dataguard.process.launcher import shared_zygote


@pytest.fixture(autouse=True, scope="session")
def _one_import_of_torch() -> Iterator[None]:
    """Fork the observing processes of all scans in this process from one that has torch imported."""
    with shared_zygote():
        yield


@pytest.fixture
def ordinary_profile() -> Iterator[None]:
    """The profile that hypothesis has where no CI runs it."""
    before = settings.get_current_profile_name()
    settings.load_profile("default")
    yield
    settings.load_profile(before)
