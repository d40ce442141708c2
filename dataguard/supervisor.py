"""The reporting side of a scan: starts the process that observes, asks it, and ends it whatever happens.

No code of the user's runs here, and nothing heavy is imported: this is what stays alive when a loader takes its whole
process tree down.
"""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from dataguard.model import Check, DataguardError, Result, Status, UsageError
from dataguard.processes import end_descendants, how_it_ended
from dataguard.settings import Settings

IMPORT_PATIENCE = 120.0
"""Seconds that importing torch and the user's module may take."""


class HostLost(DataguardError):
    """The observing process ended or stopped answering."""


class Session:
    """A target under examination in a process of its own; a context manager.

    Cheap until the first question. The process is started again when it is lost, and `close` ends it with every
    process that it or the user's code started.
    """

    def __init__(self, spelling: str, settings: Settings) -> None:
        self.spelling = spelling
        self.settings = settings
        self.environment: Mapping[str, Any] = {}
        self.name = self.name_of(spelling)
        self._loaders: tuple[str, ...] | None = None
        self._host: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._folder: Path | None = None

    @staticmethod
    def name_of(spelling: str) -> str:
        """The name of a target: what stands before `=`, else the last part of its attribute."""
        return spelling.partition("=")[0] if "=" in spelling else spelling.rpartition(":")[2].rpartition(".")[2]

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def loaders(self) -> tuple[str, ...]:
        """The names of the target's loaders. Raises UsageError when the target is none."""
        if self._loaders is None:
            self._start()
        return self._loaders or ()

    def judge(self, check: Check, loader: str) -> Result:
        """Let a check judge one of the loaders; never raises for what the user's code does."""
        started = time.monotonic()
        try:
            if self._host is None:
                self._start()
            kind, answer = self._ask(("judge", check.code, loader), None)
        except HostLost as lost:
            self.close()
            reason = f"{lost}; it is started again for the next check"
            return self._without_verdict(check, loader, Status.INCONCLUSIVE, reason, started)
        if kind != "result":
            return self._without_verdict(check, loader, Status.BROKEN, str(answer), started)
        result: Result = answer
        return result

    def close(self) -> None:
        """End the observing process and everything below it; safe to call twice."""
        host, self._host = self._host, None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if host is not None:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(host.pid)
                process.suspend()  # so that it starts nothing new while its descendants are ended
                end_descendants(process)
            host.kill()
            host.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="dataguard-"))
        here, there = socket.socketpair()
        log = (self._folder / "host.log").open("wb")
        with log:
            self._host = subprocess.Popen(
                [sys.executable, "-m", "dataguard.host", str(there.fileno())],
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        there.close()
        self._pipe = Connection(here.detach())
        self._pipe.send((self.spelling, self.settings, self._folder, [str(Path.cwd()), *sys.path]))
        try:
            kind, answer = self._answer(IMPORT_PATIENCE + 4 * self.settings.timeout)
        except HostLost as lost:
            self.close()
            raise UsageError(f"{self.spelling}: {lost} while its module was imported") from lost
        if kind == "usage":
            self.close()
            raise UsageError(answer)
        if kind == "broken":
            self.close()
            raise DataguardError(answer)
        self._loaders, self.environment = answer

    def _ask(self, question: tuple[str, ...], patience: float | None) -> tuple[str, Any]:
        assert self._pipe is not None
        with contextlib.suppress(BrokenPipeError):  # the answer, or its absence, tells
            self._pipe.send(question)
        return self._answer(patience)

    def _answer(self, patience: float | None) -> tuple[str, Any]:
        """Wait for the host. Raises HostLost, with the last lines it printed, when none can come."""
        assert self._pipe is not None
        assert self._host is not None
        if not select.select([self._pipe], [], [], patience)[0]:
            raise HostLost(f"the observing process gave no answer for {patience:.0f} s")
        try:
            answer: tuple[str, Any] = self._pipe.recv()
            return answer
        except (EOFError, ConnectionResetError):
            status = self._host.wait()
            raise HostLost(f"the observing process {how_it_ended(status)}{self._last_words()}") from None

    def _last_words(self) -> str:
        assert self._folder is not None
        lines = (self._folder / "host.log").read_text(errors="replace").splitlines()
        return f" ({lines[-1].strip()})" if lines else ""

    def _without_verdict(self, check: Check, loader: str, status: Status, reason: str, started: float) -> Result:
        seconds = time.monotonic() - started
        return Result(check.code, check.name, check.severity, loader, status, reason=reason, seconds=seconds)
