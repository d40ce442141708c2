"""The reporting process is interrupted or killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from dataguard.process import session
from dataguard.process.launcher import Zygote
from dataguard.process.session import Session
from dataguard.settings.settings import Settings
from tests.bench.interruptions import Scans
from tests.support.faces import todays
from tests.support.namespace import own_or_common_shared_memory
from tests.support.projects import Project

pytestmark = pytest.mark.scan


GONE_WITHIN = 8.0
"""Seconds within which everything is gone after the reporting process was killed."""


class TestInterruptions:
    """The reporting process is interrupted or killed while a loader with daemons hangs."""

    @pytest.mark.parametrize(
        ("number", "kill"),
        todays(
            [
                (signal.SIGINT, os.kill),
                (signal.SIGINT, os.killpg),
                (signal.SIGTERM, os.killpg),
                (signal.SIGKILL, os.kill),
            ],
            turns=2,
        ),
        ids=lambda one: getattr(one, "__name__", None) or one.name,
    )
    def test_everything_is_gone_soon(
        self, project: Project, number: signal.Signals, kill: Callable[[int, int], None]
    ) -> None:
        process = project.start("slow_hang", "--timeout", "60")
        self._wait_for_the_hang(project)
        kill(process.pid, number)
        _, err = process.communicate(timeout=GONE_WITHIN)
        deadline = time.monotonic() + GONE_WITHIN
        while any(project.leftovers()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert project.leftovers() == ([], set(), [])
        if number == signal.SIGINT:
            assert process.returncode == 130
            assert re.fullmatch(r"dataguard: interrupted, (no report|\d+ of \d+ checks ran)", err.strip()), err

    @staticmethod
    def _wait_for_the_hang(project: Project) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            marks = [file.read_bytes() for file in project.temporary.glob("dataguard-*/*/flight_recorder")]
            if any(b"sample\0" in mark and b"\x005\0" in mark for mark in marks):
                return
            time.sleep(0.05)
        pytest.fail("the loader does not hang")


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scans]:
    with own_or_common_shared_memory() as shared:
        yield Scans(tmp_path_factory.mktemp("scans"), shared)


@pytest.mark.parametrize(
    ("whom", "after"),
    todays(
        [
            ("process group", 0.1),
            ("process group", 0.5),
            ("process group", 2.0),
            ("reporting process", 0.2),
            ("reporting process", 0.5),
            ("reporting process", 2.0),
            ("reaper", 1.0),
            ("observing process", 1.0),
        ],
        turns=4,
    ),
)
def test_a_scan_killed_at_any_moment_leaves_nothing(scans: Scans, whom: str, after: float) -> None:
    one_target = replace(scans, targets=scans.targets[: 1 if whom in ("reaper", "observing process") else 2])
    assert one_target.killed(whom, after).wrong == []


def test_folders_are_made_once_the_process_runs_that_removes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reporting process that is killed before it made one, or right after, leaves none."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[list[Path]] = []

    def killed(*_: object, **__: object) -> NoReturn:
        seen.append([*tmp_path.iterdir()])
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "start", killed)
    with pytest.raises(KeyboardInterrupt), Session("sample_datasets.dg101_cloned_worker_rng:bad", Settings()) as one:
        one.loaders()
    monkeypatch.setattr(subprocess, "Popen", killed)
    with pytest.raises(KeyboardInterrupt):
        Zygote().start()
    assert seen == [[], []]
