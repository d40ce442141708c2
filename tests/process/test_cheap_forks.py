"""Before a fork, memory moves into huge pages unchanged."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dataguard.process.cheap_forks import prepare_to_fork

USER = """
import re
from pathlib import Path
from dataguard.process.cheap_forks import prepare_to_fork
numbers = [str(number) for number in range(1_000_000)]
prepare_to_fork()
assert numbers == [str(number) for number in range(1_000_000)]
print(re.search(r"AnonHugePages: +(\\d+) kB", Path("/proc/self/smaps_rollup").read_text())[1])
"""


def supported() -> bool:
    """Whether the kernel is Linux 6.1 or newer."""
    release = re.match(r"(\d+)\.(\d+)", Path("/proc/sys/kernel/osrelease").read_text())
    return release is not None and (int(release[1]), int(release[2])) >= (6, 1)


@pytest.mark.skipif(sys.platform != "linux" or not supported(), reason="MADV_COLLAPSE needs Linux 6.1")
def test_memory_moves_unchanged() -> None:
    run = subprocess.run([sys.executable, "-c", USER], capture_output=True, text=True, check=True, timeout=60)
    assert int(run.stdout) > 30_000


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("dataguard.process.cheap_forks._anonymous", lambda: pytest.fail("reads the memory map"))
    prepare_to_fork()
    gc.unfreeze()
