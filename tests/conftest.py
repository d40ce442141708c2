"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import settings

from dataguard.process import session
from dataguard.process.cheap_forks import prepare_to_fork
from dataguard.process.launcher import exported_zygote, shared_zygote

STARTS = ((session, "start"), (BaseProcess, "start"), (os, "fork"))
"""What starts a scan, a worker or an observation."""


TOGETHER = (
    "process/test_survival",
    "machine/test_dg601_shm_headroom",
    "randomness/test_repeat_evidence",
    "epoch/test_full_epoch",
    "cli/test_bench",
)
"""Modules whose tests share scans, or a resource that only one may use."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have pytest-xdist hand out each test alone, as long ones stand in a row; but those of a class in `TOGETHER`.

    Its own marks for that have no effect under pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            test, _, _ = nodeid.partition("[")
            return test.rpartition("::")[0] if any(name in test for name in TOGETHER) else nodeid

    return Scheduler(config, log)


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


def pytest_itemcollected(item: pytest.Item) -> None:
    """Have tests that scan share one import of torch, and run one that fails once more: the summary shows both.

    They start processes that run against deadlines, on a machine that others may use.
    """
    if isinstance(item, pytest.Function) and item.get_closest_marker("scan"):
        item.fixturenames.insert(0, "_one_import_of_torch")
        item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(autouse=True, scope="session")
def _found_from_any_folder() -> Iterator[None]:
    """Find dataguard from any folder, installed or not. Another value would have torch imported again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        yield


@pytest.fixture(scope="session")
def _one_import_of_torch(_found_from_any_folder: None) -> Iterator[None]:
    """Fork the observing processes of all scans, of commands that tests run too, from one that has torch imported."""
    with exported_zygote(), shared_zygote():
        yield


@pytest.fixture(autouse=True, scope="session")
def _cheap_forks() -> None:
    """Make forks of this process cheap, which has imported more than any user's."""
    prepare_to_fork()


@pytest.fixture
def ordinary_profile() -> Iterator[None]:
    """The profile that hypothesis has where no CI runs it."""
    before = settings.get_current_profile_name()
    settings.load_profile("default")
    yield
    settings.load_profile(before)
