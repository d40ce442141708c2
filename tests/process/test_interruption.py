"""The reporting process is interrupted or killed."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable

import pytest

from tests.support.projects import Project

pytestmark = pytest.mark.scan


GONE_WITHIN = 8.0
"""Seconds within which everything is gone after the reporting process was killed."""


class TestInterruptions:
    """The reporting process is interrupted or killed while a loader with daemons hangs."""

    @pytest.mark.parametrize(
        ("number", "kill"),
        [(signal.SIGINT, os.kill), (signal.SIGINT, os.killpg), (signal.SIGTERM, os.killpg), (signal.SIGKILL, os.kill)],
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
