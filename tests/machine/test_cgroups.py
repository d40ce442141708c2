"""What control groups allow, in trees of files like those that a kernel shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dataguard.machine.machine import Allowance, Machine, oom_kills, read_allowance
from tests.support.machines import GB, MACHINE, MB

NONE_AT_ALL = "9223372036854771712\n"


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


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("a container of version 2", "sys/fs/cgroup/memory.events"),
        ("a group whose parent allows less", "sys/fs/cgroup/slurm/job_7/step_0/memory.events"),
        ("version 1, called as it is outside", "sys/fs/cgroup/memory/memory.oom_control"),
    ],
)
def test_processes_that_the_kernel_killed_are_counted(tmp_path: Path, name: str, file: str) -> None:
    files, _ = TREES[name]
    assert oom_kills(tree(tmp_path, files)) == 0
    assert oom_kills(tree(tmp_path, {**files, file: "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"})) == 3


def test_a_machine_has_what_its_groups_allow(tmp_path: Path) -> None:
    files, _ = TREES["a container of version 2"]
    machine = Machine.read(tree(tmp_path, files))
    assert (machine.memory, machine.memory_free, machine.cpu_quota) == (4 * GB, 3 * GB, 1.5)
    assert machine.usable_cores == min(machine.cores, 2)
    assert replace(MACHINE, cpu_quota=0.5).usable_cores == 1
