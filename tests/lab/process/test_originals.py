"""What observes is not affected by what the user's code does to modules of the standard library."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dataguard
from dataguard.process import originals

LAB = Path(dataguard.__file__).parent / "lab"
PATCHING = {"entropy.py", "fork_safety.py", "held_clock.py", "listing_order.py", "skipped_pauses.py"}
"""Modules that compare or replace the functions that the user's code finds."""


def test_functions_that_are_replaced_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: 42)
    for clock in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, clock, lambda: 0.0)
    assert originals.os.getpid() == own
    assert all(clock() > 0 for clock in (originals.time.time, originals.time.monotonic, originals.time.perf_counter))


@pytest.mark.scan
def test_functions_that_were_replaced_before_are_those_of_the_system() -> None:
    program = (
        "import os, pickle, time; own = os.getpid(); os.getpid = pickle.dumps = time.monotonic = lambda *_: 42;"
        "from dataguard.process import originals as found;"
        "assert found.os.getpid() == own and found.pickle.dumps(1) != 42 and found.time.monotonic() != 42"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_observations_take_them_from_there() -> None:
    direct = re.compile(rf"^import ({'|'.join(originals.__all__)})$", re.MULTILINE)
    found = {file.name for file in LAB.rglob("*.py") if direct.search(file.read_text(encoding="utf-8"))}
    assert found == PATCHING
