"""Our own processes import nothing from the folder they are started in, and the user's module is found there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dataguard.process.launcher import ADDRESS

pytestmark = pytest.mark.scan

ROOT = Path(__file__).parents[2]
OURS = ("click", "dataguard", "hypothesis", "json", "psutil", "queue", "rich", "typing")
"""Modules that our processes import, and Python itself does not import before it runs a module or spawns a process."""
LIBRARIES = ("torch", "numpy", "cv2", "PIL", "torchvision", "torchdata", "albumentations")
INTRUDER = "raise AssertionError(f'{__name__} of the working folder was imported')"
LOADERS = """
import multiprocessing
from multiprocessing import spawn
from torch.utils.data import DataLoader
from dataguard.process.cheap_forks import infrequent_gc

def make():
    assert not [name for name in spawn.get_preparation_data("worker") if name.startswith("init_main")]
    spawned = multiprocessing.get_context("spawn").Process(target=infrequent_gc)
    spawned.start()
    spawned.join()
    assert spawned.exitcode == 0
    return DataLoader([1, 2])
"""


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command line that has processes of its own."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, ADDRESS: "", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with modules of ours, which raise, and a target."""
    below = tmp_path / "work"
    below.mkdir()
    for module in OURS:
        (below / f"{module}.py").write_text(INTRUDER)
    (below / "found_here.py").write_text(LOADERS)
    (tmp_path / "dataguard_command.py").write_text("from dataguard.cli.main import main; raise SystemExit(main())")
    return below


@pytest.mark.parametrize("targets", [["found_here:make"], ["found_here:make", "again=found_here:make"]])
def test_a_scan_imports_only_its_target_from_the_working_folder(folder: Path, targets: list[str]) -> None:
    outcome = run(folder, "../dataguard_command.py", "scan", *targets, "--select", "DG001", "--format", "github")
    assert (outcome.returncode, outcome.stderr) == (0, ""), outcome.stdout


@pytest.mark.parametrize("safe", ["", "1"])
def test_python_m_dataguard_imports_nothing_from_the_working_folder(folder: Path, safe: str) -> None:
    (folder / "dataguard.py").unlink()  # Python runs it in place of ours
    outcome = run(folder, "-m", "dataguard", "explain", "DG001", PYTHONSAFEPATH=safe)
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_doctor_imports_nothing_from_the_working_folder(folder: Path, tmp_path: Path) -> None:
    for library in LIBRARIES:
        (tmp_path / f"{library}.py").write_text("raise ImportError('quickly')")
    found = os.pathsep.join([str(ROOT), str(tmp_path)])
    outcome = run(folder, "../dataguard_command.py", "doctor", PYTHONPATH=found)
    assert "torch cannot be imported: ImportError: quickly" in outcome.stdout
    assert (outcome.returncode, outcome.stderr) == (1, "")
