"""What describes, chooses and reports starts fast: no torch, no numpy, no hypothesis, and often not even rich."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "numpy", "hypothesis")
TERMINAL = ("rich", "click")
LIGHT = (
    "dataguard",
    "dataguard.cli",
    "dataguard.render",
    "dataguard.settings",
    "dataguard.model",
    "dataguard.supervisor",
    "dataguard.checks",
    "dataguard.engine",
    "dataguard.docs",
)


def loaded(program: str, *names: str) -> set[str]:
    """Those of `names` that a fresh interpreter has loaded after `program`."""
    report = f"{program}\nimport sys; print(*[name for name in {names!r} if name in sys.modules])"
    outcome = subprocess.run([sys.executable, "-c", report], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(outcome.stdout.splitlines()[-1].split())


def test_no_room_before_the_lab_loads_anything_heavy() -> None:
    assert loaded(f"import {', '.join(LIGHT)}", *HEAVY) == set()


@pytest.mark.parametrize("module", ["dataguard", "dataguard.model", "dataguard.settings"])
def test_the_core_is_standard_library_only(module: str) -> None:
    assert loaded(f"import {module}", *HEAVY, *TERMINAL, "psutil") == set()


@pytest.mark.parametrize("arguments", [["--help"], ["scan", "--help"], ["bench", "--help"], ["--version"]])
def test_help_waits_for_nothing(arguments: list[str]) -> None:
    assert loaded(f"from dataguard.cli import main; main({arguments})", *HEAVY, "rich") == set()


@pytest.mark.parametrize("arguments", [["list"], ["explain", "DG101"]])
def test_reading_about_checks_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded(f"from dataguard.cli import main; assert main({arguments}) == 0", *HEAVY) == set()


def test_a_public_name_is_loaded_when_it_is_asked_for() -> None:
    assert loaded("import dataguard", "dataguard.model", "dataguard.settings", "dataguard.engine") == set()
    assert loaded("from dataguard import Report", "dataguard.model", "dataguard.engine") == {"dataguard.model"}
