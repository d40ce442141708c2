"""Scans where /proc is missing: processes are neither found nor measured, and end nevertheless."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dataguard.process.launcher import ADDRESS

pytestmark = pytest.mark.scan

LOADERS = """
import time
from torch.utils.data import DataLoader

class Hanging(list):
    def __getitem__(self, index):
        time.sleep(1000 * (index == 5))
        return super().__getitem__(index)

def hanging():
    return DataLoader(Hanging(range(8)))

def healthy():
    return DataLoader(range(8), num_workers=2)
"""
HIDDEN = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c", 'mount -t tmpfs tmpfs /proc && exec "$@"', "sh"]


@pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.run([*HIDDEN, "true"], capture_output=True).returncode != 0,
    reason="no mount namespace is permitted",
)
def test_a_scan_runs_and_ends(tmp_path: Path) -> None:
    (tmp_path / "loaders_without_proc.py").write_text(LOADERS)
    targets = ["loaders_without_proc:hanging", "loaders_without_proc:healthy"]
    options = ["--select", "DG0,DG602", "--timeout", "1", "--role", "healthy=train"]
    outcome = subprocess.run(
        [*HIDDEN, sys.executable, "-m", "dataguard", "scan", *targets, *options, "-v"],
        cwd=tmp_path,
        env={**os.environ, ADDRESS: "", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (outcome.returncode, outcome.stderr) == (1, "")
    assert "  no progress for 1 s while reading a sample (index 5)" in outcome.stdout
    assert "the memory of a process cannot be read here, as /proc is missing" in outcome.stdout
    assert "1 failed · 3 passed" in outcome.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("dataguard-")] == []
