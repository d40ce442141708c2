"""What describes, chooses and reports starts fast: no torch, no numpy, no hypothesis, and often not even rich."""

from __future__ import annotations

import gc
import importlib
import math
import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils.data import DataLoader

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.lab.reading.checkpoint import survey
from dataguard.process.cheap_forks import infrequent_gc
from dataguard.settings.settings import Settings
from dataguard.targets.loading import load

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "numpy", "hypothesis")
TERMINAL = ("rich", "click")
LIGHT = (
    "dataguard",
    "dataguard.cli.main",
    "dataguard.render",
    "dataguard.settings.settings",
    "dataguard.core.model",
    "dataguard.process.session",
    "dataguard.checks",
    "dataguard.engine",
    "dataguard.render.check_pages",
)


def loaded(program: str, *names: str) -> set[str]:
    """Those of `names` that a fresh interpreter has loaded after `program`."""
    report = f"{program}\nimport sys; print(*[name for name in {names!r} if name in sys.modules])"
    outcome = subprocess.run([sys.executable, "-c", report], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(outcome.stdout.splitlines()[-1].split())


def test_no_room_before_the_lab_loads_anything_heavy() -> None:
    assert loaded(f"import {', '.join(LIGHT)}", *HEAVY) == set()


@pytest.mark.parametrize("module", ["dataguard", "dataguard.core.model", "dataguard.settings.settings"])
def test_the_core_is_standard_library_only(module: str) -> None:
    assert loaded(f"import {module}", *HEAVY, *TERMINAL, "psutil") == set()


@pytest.mark.parametrize("arguments", [["--help"], ["scan", "--help"], ["bench", "--help"], ["--version"]])
def test_help_waits_for_nothing(arguments: list[str]) -> None:
    assert loaded(f"from dataguard.cli.main import main; main({arguments})", *HEAVY, "rich") == set()


@pytest.mark.parametrize("target", ["shop.data", "shop.data:make"])
def test_a_wrong_target_is_answered_without_torch(target: str) -> None:
    assert loaded(f"from dataguard.cli.main import main; assert main(['scan', '{target}']) == 2", *HEAVY) == set()


@pytest.mark.parametrize("arguments", [["list"], ["explain", "DG101"]])
def test_reading_about_checks_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded(f"from dataguard.cli.main import main; assert main({arguments}) == 0", *HEAVY) == set()


def test_a_public_name_is_loaded_when_it_is_asked_for() -> None:
    assert (
        loaded("import dataguard", "dataguard.core.model", "dataguard.settings.settings", "dataguard.engine") == set()
    )
    names = ("dataguard.report", "dataguard.engine", "dataguard.checks")
    assert loaded("from dataguard import Report", *names) == {"dataguard.report"}


LATE, OWN = "wave", "tests.support.namespace"
"""A module of the standard library that nothing else imports, and one that is none of a library's."""


def make_late() -> DataLoader[int]:
    """A factory that imports a library, and a module of its own."""
    importlib.import_module(LATE)
    importlib.import_module(OWN)
    return DataLoader(range(4))  # type: ignore[arg-type] # it can be indexed and has a length


@pytest.mark.scan
def test_what_a_factory_imports_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (LATE, OWN):
        monkeypatch.delitem(sys.modules, module, raising=False)
    found = survey(load("tests.test_imports:make_late"), Settings(), tmp_path, alone=False)
    assert {LATE, OWN} <= set(found.modules)
    assert LATE not in sys.modules


def make_if_there() -> DataLoader[float]:
    """Samples are NaN unless what the factory imports is there before it runs."""
    there = LATE in sys.modules
    importlib.import_module(LATE)
    return DataLoader([float(number) if there else math.nan for number in range(8)])  # type: ignore[arg-type]


FACTORIES = {"one": make_if_there, "two": make_if_there}
"""Factories beside each other have no checkpoint: each observation calls its own again."""


@pytest.mark.scan
def test_what_a_factory_imports_is_there_when_it_is_called_again() -> None:
    results = scan("tests.test_imports:FACTORIES", Settings(select=("DG501",))).results
    assert [result.status for result in results] == [Status.PASSED, Status.PASSED], results


def test_garbage_is_looked_for_seldom_and_then_as_before() -> None:
    usual = gc.get_threshold()
    with infrequent_gc():
        assert gc.get_threshold() > usual
    assert gc.get_threshold() == usual
    with infrequent_gc():
        gc.set_threshold(1_234)  # as the user's module may
    assert gc.get_threshold()[0] == 1_234
    gc.set_threshold(*usual)
