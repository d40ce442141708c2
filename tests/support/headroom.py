"""Predictions of DG601 and plain runs of the same loader, on a /dev/shm of one's own.

`python -m tests.support.headroom` is the process that sees this /dev/shm: torch is imported once, and runs are forks.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dataguard.engine import scan
from dataguard.process.launcher import shared_zygote
from dataguard.settings.settings import Settings
from tests.loaders import shm
from tests.support.namespace import SharedMemory

ROOT = Path(__file__).parents[2]
SHM = Path("/dev/shm")
DRAWN = "tests.loaders.shm:drawn"
DEAD_AFTER = 3.0
"""Seconds without a batch after which a plain run counts as hanging; a batch takes milliseconds."""


class Verdict(NamedTuple):
    status: str
    messages: list[str]


class Run(NamedTuple):
    """A plain run: whether it got through, and the most bytes of /dev/shm that were allocated meanwhile."""

    fits: bool
    peak: int


class Room:
    """A process with this /dev/shm."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def verdicts(self, target: str, **settings: Any) -> dict[str, Verdict]:
        """What a scan says, by code."""
        return {code: Verdict(*verdict) for code, verdict in self._ask("verdicts", target, settings).items()}

    def run(self, target: str, **settings: Any) -> Run:
        """Run the loader plainly, with a consumer slower than its workers."""
        return Run(*self._ask("run", target, settings))

    def _ask(self, what: str, target: str, settings: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([what, target, settings]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def room(shared: SharedMemory) -> Iterator[Room]:
    command = shared.command(ROOT, sys.executable, "-m", "tests.support.headroom")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Room(process)


def _verdicts(target: str) -> dict[str, Verdict]:
    select = ("DG0", "DG6" if target.startswith("sample") else "DG601")
    report = scan(target, Settings(timeout=10, select=select))
    return {
        result.code: Verdict(result.status.value, [finding.message for finding in result.findings])
        for result in report.results
    }


def _run(target: str) -> Run:
    assert not any(SHM.iterdir())
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(writes, 1)
        try:
            shm.main(target)
        finally:
            os._exit(1)
    os.close(writes)
    os.set_blocking(reads, False)
    said, moved, peak = b"", time.monotonic() + 10, 0  # for importing the target
    while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < moved + DEAD_AFTER:
        with contextlib.suppress(BlockingIOError):
            said, moved = said + os.read(reads, 1000), time.monotonic()
        peak = max(peak, _used())
        time.sleep(0.001)
    with contextlib.suppress(BlockingIOError):
        said += os.read(reads, 1000)
    os.close(reads)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    time.sleep(0.2)  # for the workers
    for path in SHM.iterdir():  # torch leaves the name of what it could not allocate
        path.unlink()
    return Run(said.endswith(b"fits\n"), peak)


def _used() -> int:
    state = os.statvfs(SHM)
    return (state.f_blocks - state.f_bfree) * state.f_frsize


def main() -> None:
    """Answer each line of stdin with one of stdout."""
    torch.set_num_threads(1)  # a fork of a process that computes in several threads may hang
    with shared_zygote():
        for line in sys.stdin:
            what, target, settings = json.loads(line)
            os.environ["SHM_SETTINGS"] = json.dumps(settings)
            answer = _verdicts(target) if what == "verdicts" else _run(target)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
