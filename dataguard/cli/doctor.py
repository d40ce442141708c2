"""`dataguard doctor`: examines this machine and its libraries."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from dataguard import __version__
from dataguard.cli.library_versions import MARK
from dataguard.machine.checkup import Checkup
from dataguard.machine.machine import Machine
from dataguard.process.launcher import command

IMPORT_SECONDS = 120
"""Seconds that importing the libraries may take, for instance from a slow network drive."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def check_up() -> Checkup:
    """Examine this machine; a separate process imports the libraries."""
    code, printed = 1, ""
    try:
        reading = command("dataguard.cli.library_versions")
        outcome = subprocess.run(reading, capture_output=True, text=True, timeout=IMPORT_SECONDS)
        code, printed = outcome.returncode, outcome.stdout
    except subprocess.TimeoutExpired:
        pass
    line = next((line for line in reversed(printed.splitlines()) if line.startswith(MARK)), None)
    lost = {
        "torch": {"error": f"importing the libraries exited with status {code}, or took more than {IMPORT_SECONDS} s"}
    }
    facts = json.loads(line.removeprefix(MARK)) if line else {"libraries": lost}
    return Checkup(
        __version__,
        Machine.read(),
        facts["libraries"],
        tuple(facts.get("distributions", ())),
        {name: os.environ[name] for name in _THREADS if name in os.environ},
        driver=shutil.which("nvidia-smi") is not None or Path("/dev/nvidia0").exists(),
    )
