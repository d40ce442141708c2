"""Predictions of DG601 and plain runs of the same loader, on a /dev/shm of one's own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.namespace import SharedMemory

ROOT = Path(__file__).parents[2]
DRAWN = "tests.loaders.shm:drawn"
DEAD_AFTER = 3.0
"""Seconds without a batch after which a plain run counts as hanging; a batch takes milliseconds."""


def verdicts(shared: SharedMemory, target: str, **settings: Any) -> dict[str, Any]:
    """What a scan says, by code."""
    command = (sys.executable, "-m", "dataguard", "scan", target, "--format", "json", "--timeout", "10")
    outcome = subprocess.run(
        shared.command(ROOT, *command, "--select", "DG0,DG6" if target.startswith("sample") else "DG0,DG601"),
        env={**os.environ, "SHM_SETTINGS": json.dumps(settings)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert outcome.returncode in (0, 1), outcome.stderr
    return {result["code"]: result for result in json.loads(outcome.stdout)["results"]}


def really_fits(shared: SharedMemory, target: str, **settings: Any) -> bool:
    """Run the loader plainly, with a consumer slower than its workers: does it get through?"""
    assert shared.names() == set()
    process = subprocess.Popen(
        shared.command(ROOT, sys.executable, "-u", "-m", "tests.loaders.shm", target),
        env={**os.environ, "SHM_SETTINGS": json.dumps(settings)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    said, moved = b"", time.monotonic() + 30  # importing torch
    while process.poll() is None and time.monotonic() < moved + DEAD_AFTER:
        if words := process.stdout.read():
            said, moved = said + words, time.monotonic()
        time.sleep(0.02)
    said += process.stdout.read() or b""
    process.stdout.close()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.2)  # for the workers
    for name in shared.names():  # torch leaves the name of what it could not allocate
        (shared.path / name).unlink()
    return said.endswith(b"fits\n")
