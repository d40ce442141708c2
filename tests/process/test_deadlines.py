"""A scan ends in time, whatever the user's code does to the processes that observe it."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset

import dataguard
from dataguard.core.model import Status, UsageError
from dataguard.process import launcher, session
from dataguard.process.process_tree import descendants
from dataguard.report import Report
from tests.support.offspring import left_over

pytestmark = [pytest.mark.scan, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")]

HOSTILE = """
import gc, os, signal, sys, time
import psutil
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __init__(self, act): self.act = act
    def __len__(self): return 8
    def __getitem__(self, index):
        self.act(psutil.Process(os.getppid()))
        return index

def kill_observer():
    return DataLoader(Data(lambda observer: observer.kill()))

def stop_observer():
    return DataLoader(Data(lambda observer: observer.suspend()))

def kill_reaper():
    return DataLoader(Data(lambda observer: observer.parent().kill()))

def slow_gc():
    owner = os.getppid()
    gc.callbacks.append(lambda *_: time.sleep(1.0) if os.getppid() == owner else None)
    return DataLoader(range(8))
"""
SLACK, BUDGET = 4.0, 4.0
ENDING = 15.0
"""Seconds for imports, and for ending processes that do not exit by themselves, on a busy machine."""
COLLECTIONS = 12.0
"""Seconds that garbage collections sleep before the first check and after the last one, where each sleeps for two."""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "hostile_ends.py").write_text(HOSTILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "SLACK", SLACK)
    before = descendants()
    yield
    sys.modules.pop("hostile_ends", None)
    assert left_over(before) == []


def scanned(name: str, timeout: float = 2.0) -> tuple[Report, float]:
    started = time.monotonic()
    report = dataguard.scan(f"hostile_ends:{name}", budget=BUDGET, timeout=timeout)
    return report, time.monotonic() - started


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kill_observer", "was killed by SIGKILL, as once before: it is not started again"),
        ("stop_observer", "the checks took more than 8 s together, 4 s per loader beyond its budget"),
        ("kill_reaper", "as the process that watches it was killed, as once before: it is not started again"),
    ],
)
def test_an_observing_process_that_is_lost_again_is_not_started_again(name: str, words: str) -> None:
    report, seconds = scanned(name)
    undecided = [result.reason or "" for result in report.results if result.status is Status.INCONCLUSIVE]
    assert len(undecided) > 40
    assert sum(words in reason for reason in undecided) > 40
    assert seconds < BUDGET + SLACK + ENDING
    killed = {result.code for result in report.results if result.status is Status.FAILED}
    assert killed == ({"DG002"} if name == "kill_observer" else set())


def test_time_in_which_the_observing_process_sleeps_counts() -> None:
    report, seconds = scanned("slow_gc", timeout=20)
    assert seconds < BUDGET + SLACK + ENDING + COLLECTIONS
    assert not report.defects


def test_an_import_of_torch_that_takes_long_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "_open", [])  # no process that has imported it already
    monkeypatch.delenv(launcher.ADDRESS)
    with pytest.raises(UsageError, match=r"importing torch took more than 0.05 s: raise import_timeout"):
        dataguard.scan("hostile_ends:slow_gc", import_timeout=0.05)


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return range(8)[index]


def test_more_open_files_than_select_can_wait_for() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    try:
        with ExitStack() as opened:
            for _ in range(1_100):
                opened.enter_context(Path(os.devnull).open())
            targets: tuple[Any, ...] = ("sample_datasets.dg301_overlong_len:good", DataLoader(Numbers()))
            for target in targets:
                report = dataguard.check(target, select=("DG0", "DG301"), workers=1)
                assert {result.status for result in report.results} == {Status.PASSED}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
