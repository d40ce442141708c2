"""The reporting side of a scan: starts the process that observes, asks it, and ends it whatever happens.

No code of the user's runs here, and nothing heavy is imported: this is what stays alive when a loader takes its whole
process tree down. Between the two stands the warden, which ends the tree even when this process is killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from dataguard.model import Check, DataguardError, Result, Status, UsageError
from dataguard.process.launcher import Warden, start
from dataguard.process.process_tree import how_it_ended
from dataguard.process.progress import NEWS, Tell
from dataguard.process.reaper import LOG, STACKS
from dataguard.settings.settings import Settings
from dataguard.timings import LoaderTimes, Wanted

START_PATIENCE = 120.0
"""Seconds that importing torch may take."""
_PARTING = 20.0
"""Seconds that the warden gets to end everything."""


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
        self.notes: tuple[str, ...] = ()
        """What a reader should know of how the loaders were built."""
        self.name = self.name_of(spelling)
        self.hear: Tell | None = None
        """Is called with what the observing process tells before it answers."""
        self.state: Path | None = None
        """Where what was read is kept until the scan is finished, if anywhere."""
        self._loaders: tuple[str, ...] | None = None
        self._warden: Warden | None = None
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
            if self._warden is None:
                self._start()
            kind, answer = self._ask(("judge", (check.code, check.severity), loader), self._patience)
        except (HostLost, UsageError) as lost:
            self.close()
            reason = f"{lost}; it is started again for the next check"
            return self._without_verdict(check, loader, Status.INCONCLUSIVE, reason, started)
        if kind != "result":
            self.close()
            return self._without_verdict(check, loader, Status.BROKEN, str(answer), started)
        result: Result = answer
        return result

    def bench(self, loader: str, wanted: Wanted) -> LoaderTimes:
        """Measure one of the loaders. Raises UsageError, with the reason, when it does not run."""
        try:
            if self._warden is None:
                self._start()
            kind, answer = self._ask(("bench", wanted, loader), self._patience)
        except HostLost as lost:
            kind, answer = "failed", str(lost)
        if kind == "timed":
            times: LoaderTimes = answer
            return times
        self.close()
        if kind == "broken":
            raise DataguardError(answer)
        scan = f"`dataguard scan {self.spelling}` tells more"
        raise UsageError(f"{self.spelling} [{loader}] cannot be measured: {answer}; {scan}")

    def close(self) -> None:
        """End the observing process and everything below it; safe to call twice."""
        warden, self._warden = self._warden, None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if warden is not None:
            warden.dismiss(_PARTING)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def _patience(self) -> float | None:
        """Seconds for one judgement: far beyond the deadlines of its observations, for what those cannot see.

        None where every sample is read, which takes as long as there are some.
        """
        if self.settings.all:
            return None
        return START_PATIENCE + 2 * self.settings.budget + 20 * self.settings.timeout

    def _start(self) -> None:
        """Start the observing process, and learn from it which loaders there are and where it runs."""
        self._folder = Path(tempfile.mkdtemp(prefix="dataguard-"))
        here, there = socket.socketpair()
        with (self._folder / LOG).open("ab") as log, there:
            self._warden = start(self._folder, there.fileno(), log.fileno())
        self._pipe = Connection(here.detach())
        again = self.settings.all and self._loaders is not None
        settings = replace(self.settings, resume=True) if again else self.settings
        question = (self.spelling, settings, self._folder, [str(Path.cwd()), *sys.path], self.state)
        try:
            kind, answer = self._ask(question, START_PATIENCE)
            if kind == "importing":
                kind, answer = self._answer_to_import()
            if kind == "usage":
                raise UsageError(answer)
            if kind == "broken":
                raise DataguardError(answer)
        except BaseException:  # Ctrl-C too
            self.close()
            raise
        self._loaders, self.environment, self.notes = answer

    def _ask(self, question: tuple[Any, ...], patience: float | None) -> tuple[str, Any]:
        assert self._pipe is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the answer, or its absence, tells
            self._pipe.send(question)
        return self._answer(patience)

    def _answer_to_import(self) -> tuple[str, Any]:
        """Wait until the user's module is there. Raises UsageError when importing it takes the process down."""
        try:
            return self._answer(self._patience)
        except HostLost as lost:
            stacks = self._read(STACKS).strip()
            what = (
                "importing its module takes too long" if stacks.startswith("Timeout") else f"{lost} during its import"
            )
            raise UsageError("\n".join(filter(None, (f"{self.spelling}: {what}", stacks)))) from lost

    def _answer(self, patience: float | None) -> tuple[str, Any]:
        """Wait for the host. Raises HostLost, with the last line it printed, when no answer can come."""
        assert self._pipe is not None
        assert self._warden is not None
        while True:
            ready = select.select([self._pipe.fileno(), self._warden.stdout.fileno()], [], [], patience)[0]
            if not ready:
                raise HostLost(f"the observing process gave no answer for {patience:.0f} s")
            answer = self._received() if self._pipe.fileno() in ready else None
            if answer is None:
                break
            if answer[0] != NEWS:
                return answer
            if self.hear is not None:
                self.hear(answer[1])
        raise HostLost(f"the observing process {self._end()}{self._last_words()}")

    def _received(self) -> tuple[str, Any] | None:
        """What the host sent, None where it has gone."""
        assert self._pipe is not None
        with contextlib.suppress(EOFError, ConnectionResetError):
            answer: tuple[str, Any] = self._pipe.recv()
            return answer
        return None

    def _end(self) -> str:
        """How the observing process ended, as the warden tells it."""
        assert self._warden is not None
        if not select.select([self._warden.stdout], [], [], _PARTING)[0]:
            return "ended"
        status = os.read(self._warden.stdout.fileno(), 16)
        return how_it_ended(int(status)) if status else "ended"

    def _last_words(self) -> str:
        lines = self._read(LOG).splitlines()
        return f" ({lines[-1].strip()[:200]})" if lines else ""

    def _read(self, name: str) -> str:
        assert self._folder is not None
        path = self._folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def _without_verdict(self, check: Check, loader: str, status: Status, reason: str, started: float) -> Result:
        seconds = time.monotonic() - started
        return Result(check.code, check.name, check.severity, loader, status, reason=reason, seconds=seconds)
