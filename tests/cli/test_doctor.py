"""`dataguard doctor`: problems, notes and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dataguard.cli import doctor
from dataguard.cli.main import dataguard as command_line
from dataguard.machine.checkup import Checkup
from dataguard.render.json import CHECKUP_SCHEMA, render_checkup
from dataguard.render.machine import render as text
from tests.support.machines import GB, MACHINE, MB
from tests.test_imports import HEAVY, loaded

LIBRARIES: Mapping[str, Mapping[str, Any]] = {"torch": {"version": "2.9.0", "numpy_works": True, "devices": []}}


checked = partial(Checkup, "0.1.0")
WRONG: Mapping[str, tuple[Checkup, str]] = {
    "small shm": (
        checked(replace(MACHINE, shm_total=67108864, shm_free=67108864), LIBRARIES),
        "/dev/shm has 67.1 MB",
    ),
    "full shm": (checked(replace(MACHINE, shm_free=MB), LIBRARIES), "/dev/shm has 1 MB free"),
    "no shm": (checked(replace(MACHINE, shm_total=None), LIBRARIES), "/dev/shm is missing"),
    "full memory": (
        checked(replace(MACHINE, memory_limit=40 * GB, memory_used=39 * GB), LIBRARIES),
        "only 1 GB of the 40 GB memory limit are free",
    ),
    "few files": (checked(replace(MACHINE, open_files=256), LIBRARIES), "may open 256 files"),
    "no torch": (checked(MACHINE, {"torch": {}}), "torch is not installed"),
    "broken torchvision": (
        checked(
            MACHINE, {**LIBRARIES, "torchvision": {"error": "RuntimeError: operator torchvision::nms does not exist"}}
        ),
        "torchvision cannot be imported",
    ),
    "numpy of another time": (checked(MACHINE, {"torch": {"version": "2.2", "numpy_works": False}}), "incompatible"),
    "no device": (checked(MACHINE, LIBRARIES, driver=True), "torch sees no device: this is a CPU-only build"),
}


@pytest.mark.parametrize("name", WRONG)
def test_problems_come_first(name: str) -> None:
    seen, words = WRONG[name]
    assert not seen.healthy
    lines = text(seen).splitlines()
    assert lines[2] == "problems"
    assert words in lines[3]
    assert words in json.loads(render_checkup(seen))["problems"][0]["what"]


def test_notes_do_not_fail() -> None:
    machine = replace(MACHINE, memory_limit=8 * GB, memory_used=GB, cpu_quota=2.0, open_files=1024)
    two = ("opencv-python", "opencv-python-headless")
    seen = checked(machine, {**LIBRARIES, "pillow": {"version": "9.0.0.post1", "libjpeg_turbo": None}}, two)
    assert seen.healthy
    assert len(seen.remarks) == 6
    assert "no problems" in text(seen)
    assert checked(MACHINE, LIBRARIES).remarks == ()


def test_the_command_tells_by_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    for seen, code in ((checked(MACHINE, LIBRARIES), 0), (WRONG["small shm"][0], 1)):
        monkeypatch.setattr(doctor, "check_up", lambda seen=seen: seen)
        outcome = CliRunner().invoke(command_line, ["doctor", "--format", "json"], standalone_mode=False)
        assert outcome.return_value == code
        assert json.loads(outcome.output)["schema"] == CHECKUP_SCHEMA


def test_an_extension_that_cannot_be_loaded_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("raise AssertionError('it takes seconds')")
    (tmp_path / "torchvision" / "_C.so").write_bytes(b"made for another torch")
    path = os.pathsep.join([str(tmp_path), str(Path.cwd())])
    program = "from dataguard.cli.library_versions import read_libraries; print(read_libraries()['torchvision'])"
    outcome = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "OSError: " in outcome.stdout
    assert "_C.so" in outcome.stdout


def test_libraries_that_only_have_a_version_are_not_imported() -> None:
    program = "from dataguard.cli.library_versions import read_libraries; assert read_libraries()['torchvision']"
    assert loaded(program, "torchvision", "albumentations", "torchdata") == set()


def test_the_doctor_asks_libraries_elsewhere() -> None:
    program = "from dataguard.cli.main import main; assert main(['doctor']) in (0, 1)"
    assert loaded(program, *HEAVY, "cv2", "PIL") == set()
