"""`dataguard doctor`, and what control groups say, in trees of files like those that a kernel shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dataguard.cli import doctor
from dataguard.cli.main import dataguard as command_line
from dataguard.machine.cgroups import Allowance, read_allowance
from dataguard.machine.checkup import Checkup
from dataguard.machine.machine import Machine
from dataguard.machine.units import size, span
from dataguard.render.json import CHECKUP_SCHEMA, render_checkup
from dataguard.render.machine import render as text
from tests.test_imports import HEAVY, loaded

GB, MB = 10**9, 10**6
NONE_AT_ALL = "9223372036854771712\n"
MACHINE = Machine(
    cores=8,
    start_method="fork",
    platform="Linux-6.1",
    python="3.12.1",
    shm_total=16 * GB,
    shm_free=16 * GB,
    cores_total=8,
    memory_total=64 * GB,
    open_files=65536,
)
LIBRARIES: Mapping[str, Mapping[str, Any]] = {"torch": {"version": "2.9.0", "numpy_works": True, "devices": []}}


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


TREES: Mapping[str, tuple[Mapping[str, str], Allowance]] = {
    "a container of version 2": (
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
            "sys/fs/cgroup/memory.max": "4000000000\n",
            "sys/fs/cgroup/memory.current": "3000000000\n",
            "sys/fs/cgroup/memory.stat": "anon 900000000\ninactive_file 2000000000\n",
            "sys/fs/cgroup/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/pids.max": "512\n",
        },
        Allowance(4 * GB, GB, 1.5, 512, 2),
    ),
    "a group whose parent allows less": (
        {
            "proc/self/cgroup": "0::/slurm/job_7/step_0\n",
            "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
            "sys/fs/cgroup/slurm/job_7/memory.max": "2000000000\n",
            "sys/fs/cgroup/slurm/job_7/memory.current": "500000000\n",
            "sys/fs/cgroup/slurm/job_7/step_0/memory.max": "max\n",
            "sys/fs/cgroup/slurm/job_7/step_0/cpu.max": "max 100000\n",
        },
        Allowance(2 * GB, 500 * MB, None, None, 2),
    ),
    "version 1, called as it is outside": (
        {
            "proc/self/cgroup": "9:memory:/docker/0123\n3:cpu,cpuacct:/docker/0123\n0::/system.slice\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000000000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "700000000\n",
            "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 100000000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        Allowance(GB, 600 * MB, 2.0, None, 1),
    ),
    "version 1 without limits": (
        {
            "proc/self/cgroup": "4:memory:/\n1:cpu:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": NONE_AT_ALL,
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        Allowance(version=1),
    ),
    "no groups at all": ({}, Allowance()),
    "nonsense": (
        {"proc/self/cgroup": "nonsense\n", "sys/fs/cgroup/cgroup.controllers": "", "sys/fs/cgroup/memory.max": "?"},
        Allowance(version=2),
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_limits_are_read_from_control_groups(tmp_path: Path, name: str) -> None:
    files, expected = TREES[name]
    assert read_allowance(tree(tmp_path, files)) == expected


def test_a_machine_has_what_its_groups_allow(tmp_path: Path) -> None:
    files, _ = TREES["a container of version 2"]
    machine = Machine.read(tree(tmp_path, files))
    assert (machine.memory, machine.memory_free, machine.cpu_quota) == (4 * GB, 3 * GB, 1.5)
    assert machine.usable_cores == min(machine.cores, 2)
    assert replace(MACHINE, cpu_quota=0.5).usable_cores == 1


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


def test_the_doctor_asks_libraries_elsewhere() -> None:
    program = "from dataguard.cli.main import main; assert main(['doctor']) in (0, 1)"
    assert loaded(program, *HEAVY, "cv2", "PIL") == set()


def test_sizes_and_spans_in_words() -> None:
    assert [size(count) for count in (0, 999, 4_100_000, 67108864, 2_500_000_000)] == [
        "0 B",
        "999 B",
        "4.1 MB",
        "67.1 MB",
        "2.5 GB",
    ]
    assert [span(seconds) for seconds in (5, 600, 18_000, 864_000, 1e9)] == [
        "5 seconds",
        "10 minutes",
        "5 hours",
        "10 days",
        "years",
    ]
