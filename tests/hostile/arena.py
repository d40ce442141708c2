"""Scans on a terminal of their own, in namespaces of their own, and what each leaves behind.

A hostile loader may end any process and remove any file: it sees the processes of the arena only, and small file
systems of its own for shared memory and temporary files. `python -m tests.hostile.arena SOCKET` is the process that
scans. torch is imported once, in the process that its observing processes are forked from.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import shutil
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from dataguard.cli.main import main as dataguard
from dataguard.process.launcher import ADDRESS, shared_zygote
from dataguard.process.process_tree import adopt_orphans, descendants
from tests.hostile.declared import Hostile
from tests.support.namespace import MIB, NotPermittedError

ROOT = Path(__file__).parents[2]
SHM = Path("/dev/shm")
SHM_SIZE = 48 * MIB
DISK_SIZE = 64 * MIB
"""Bytes of the file system with the temporary files of a scan."""
_SCRIPT = (
    f"mount -t tmpfs -o size={SHM_SIZE} tmpfs /dev/shm && mount -t tmpfs -o size={DISK_SIZE} tmpfs $1 "
    '&& cd "$0" && shift && exec "$@"'
)
_CONTAINED = (
    "unshare",
    "-m" if os.geteuid() == 0 else "-rm",
    "-p",
    "-f",
    "--kill-child",
    "--mount-proc",
    "sh",
    "-c",
    _SCRIPT,
)
END = b"\x00end of scan\x00"
"""Written to the terminal after each scan."""
_PATIENCE = 5.0
"""Seconds: a process that is known to have ended has a few steps of exit to go."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a scan said, and what it left: processes, entries in folders, descriptors, settings of the terminal."""

    code: int
    screen: str
    report: dict[str, Any] | None
    seconds: float
    left: dict[str, list[str]]

    @property
    def results(self) -> list[dict[str, Any]]:
        """The results of the report; none if there is no report."""
        return self.report["results"] if self.report else []

    @property
    def failed(self) -> dict[str, str]:
        """The messages of the checks that failed, by code."""
        failed = [one for one in self.results if one["status"] == "failed"]
        return {one["code"]: "\n".join(finding["message"] for finding in one["findings"]) for one in failed}

    @property
    def statuses(self) -> set[str]:
        return {one["status"] for one in self.results}


class Arena:
    """A process that scans; its terminal is read here. Raises NotPermittedError where namespaces cannot be had."""

    def __init__(self, folder: Path) -> None:
        self._place, temporary, self._reports = (folder / name for name in ("place", "tmp", "reports"))
        for path in (self._place, temporary, self._reports):
            path.mkdir()
        self._master, slave = pty.openpty()
        here, there = socket.socketpair()
        self._screen: list[bytes] = []
        with there:
            self._process = subprocess.Popen(
                [
                    *_CONTAINED,
                    str(self._place),
                    str(temporary),
                    sys.executable,
                    "-m",
                    "tests.hostile.arena",
                    str(there.fileno()),
                ],
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "TMPDIR": str(temporary),
                    "DATAGUARD_ARENA": str(temporary),
                    "TERM": "xterm",
                    "PYTHONDONTWRITEBYTECODE": "1",  # what Python leaves behind is no concern here
                    ADDRESS: "",
                },
                stdin=slave,
                stdout=slave,
                stderr=slave,
                pass_fds=[there.fileno()],
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            )
        os.close(slave)
        self._pipe = Connection(here.detach())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            assert self._pipe.recv() == "ready"
        except EOFError as error:
            self.close()
            raise NotPermittedError(b"".join(self._screen).decode().strip()) from error

    def scan(self, target: str, *options: str, makes: str | None = None) -> Outcome:
        """Scan a target. Raises EOFError if the process that scans is lost."""
        report = self._reports / "report.json"
        report.unlink(missing_ok=True)
        self._screen.clear()
        self._pipe.send((["scan", target, *options, "--output", "-", "--output", str(report)], makes))
        code, seconds, left = self._pipe.recv()
        while END not in b"".join(self._screen[-2:]):
            time.sleep(0.001)
        said = b"".join(self._screen).replace(END, b"").decode(errors="replace")
        text = report.read_text(encoding="utf-8") if report.exists() else ""
        return Outcome(code, said, json.loads(text) if text else None, seconds, left)

    def scan_for(self, hostile: Hostile, *, everything: bool = False) -> Outcome:
        """Scan a hostile loader with the checks that it is declared with, or with `everything`."""
        expected = hostile.expected
        checks = ("--budget", "10") if everything else ("--select", expected.select)
        options = (*checks, "--timeout", str(expected.timeout), *expected.options)
        return self.scan(hostile.target, *options, makes=expected.makes)

    @contextlib.contextmanager
    def module(self, source: str) -> Iterator[str]:
        """A module with this source in the folder that is scanned from; a target in it."""
        file = self._place / "refused.py"
        file.write_text(f"{source}\n")
        try:
            yield f"{file.stem}:make"
        finally:
            file.unlink()

    def close(self) -> None:
        self._pipe.close()
        self._process.wait(20)
        self._reader.join(5)
        os.close(self._master)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the other side has closed
            while words := os.read(self._master, 1 << 16):
                self._screen.append(words)


@contextlib.contextmanager
def arena(folder: Path) -> Iterator[Arena]:
    made = Arena(folder)
    try:
        yield made
    finally:
        made.close()


class Traces:
    """What is there and should not be, if it was not before."""

    def __init__(self) -> None:
        self._before = self._now()

    def left(self) -> dict[str, list[str]]:
        """What a scan has left, as soon as that is nothing, or after a while."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            now = self._now()
            left = {kind: sorted(found - self._before[kind]) for kind, found in now.items()}
            if not any(left.values()) or time.monotonic() > deadline:
                return {kind: found for kind, found in left.items() if found}
            time.sleep(0.01)

    def _now(self) -> dict[str, set[str]]:
        return {
            "processes": set(map(_shown, descendants())),
            "shared memory": {path.name for path in SHM.iterdir()},
            "temporary files": {str(path) for path in Path(os.environ["TMPDIR"]).iterdir()},
            "files": {str(path) for path in Path.cwd().iterdir()},
            "descriptors": set(os.listdir("/proc/self/fd")),  # noqa: PTH208 - as a list, which leaves the folder closed
            "threads": {f"{one.name}" for one in threading.enumerate()},
            "terminal": {str(termios.tcgetattr(0)), str(os.tcgetpgrp(0))},
        }


def _shown(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} {' '.join(process.cmdline())}"
    return f"{process.pid}"


def main(descriptor: int) -> None:
    """Scan whatever is asked for."""
    adopt_orphans()
    with Connection(descriptor) as pipe, shared_zygote():
        dataguard(["scan", "sample_datasets.dg301_overlong_len:good", "--select", "DG001"])  # starts the zygote
        pipe.send("ready")
        while True:
            try:
                words, makes = pipe.recv()
            except EOFError:
                return
            traces, started = Traces(), time.monotonic()
            code = dataguard(words)
            seconds = time.monotonic() - started
            if makes:
                for path in Path(os.environ["TMPDIR"]).glob(makes):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            left = traces.left()
            sys.stdout.flush()
            os.write(1, END)
            pipe.send((code, seconds, left))


if __name__ == "__main__":
    main(int(sys.argv[1]))
