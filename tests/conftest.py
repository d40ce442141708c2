"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from multiprocessing.process import BaseProcess
from unittest import mock

import pytest
from hypothesis import settings

from dataguard.process import session
from dataguard.process.launcher import shared_zygote

STARTS = ((session, "start"), (BaseProcess, "start"), (os, "fork"))
"""What starts a scan, a worker or an observation."""


def pytest_configure(config: pytest.Config) -> None:
    # Long tests stand in a row: pytest-xdist, where it is there and not told otherwise, hands out each alone, but those
    # that share a scan together. Its workers are not told by themselves.
    if getattr(config.option, "dist", None) == "load":
        config.option.dist = "loadgroup"
    if hasattr(config, "workerinput"):
        config.option.loadgroup = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Keep the quick suite quick: only tests that are marked may scan."""
    with ExitStack() as stack:
        if item.get_closest_marker("scan") is None:
            for owner, name in STARTS:
                stack.enter_context(mock.patch.object(owner, name, _refuse))
        return (yield)


def _refuse(*_: object, **__: object) -> None:
    pytest.fail("this test starts a scan, a worker or an observation: mark it with pytest.mark.scan")


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
