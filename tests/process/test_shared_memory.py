"""What others keep in a /dev/shm that containers share stays there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.scan

SCRIPT = """
mount -t tmpfs -o size=64m tmpfs /dev/shm &&
for pid in $(seq 1 400); do echo > /dev/shm/torch_${pid}_7_0; done &&
"$@"; ls /dev/shm | wc -l
"""


def test_tensors_of_another_pid_namespace_are_left(tmp_path: Path) -> None:
    """Processes of the scan have small PIDs, as in a container, and so have others in containers of their own."""
    contained = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "-p", "-f", "--kill-child", "--mount-proc"]
    scan = [sys.executable, "-m", "dataguard", "scan", "sample_datasets.dg101_cloned_worker_rng:bad"]
    command = [*contained, "sh", "-c", SCRIPT, "sh", *scan, "--select", "DG101", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if "Operation not permitted" in done.stderr:
        pytest.skip(f"the kernel grants no namespaces: {done.stderr.strip()}")
    assert '"status": "failed"' in done.stdout, done.stderr
    assert done.stdout.split()[-1] == "400"
