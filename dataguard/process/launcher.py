"""How the reporting process starts wardens: each by itself, or all of a run from one nursery. Standard library only."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

_INHERITED = ("PYTHON", "TORCH", "PYTORCH", "CUDA", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "NUMEXPR_", "LD_", "DYLD_")
"""Variables that a process reads as it starts, by their beginnings: what they say cannot be told to a fork later on."""
_PATIENCE = 120.0
"""Seconds that importing torch may take."""


class Reaper:
    """A reaper as the reporting process holds it: closing `stdin` ends it, and it closes `stdout` when it has ended."""

    def __init__(self, pid: int, stdin: int, stdout: int, process: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self.stdin = os.fdopen(stdin, "wb", buffering=0)
        self.stdout = os.fdopen(stdout, "rb", buffering=0)
        self._process = process

    def dismiss(self, seconds: float) -> None:
        """Ask it to end, with all below it, and wait until it has."""
        self.stdin.close()
        while select.select([self.stdout], [], [], seconds)[0]:
            if not self.stdout.read(64):
                break
        else:  # something below it cannot even be killed, as in a dead network mount
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        self.stdout.close()


def start(folder: Path, descriptor: int, log: int) -> Reaper:
    """Start a reaper that observes in this folder, and hand it the socket and the log for what it prints."""
    stdin, own_in = os.pipe()
    own_out, stdout = os.pipe()
    try:
        for nursery in _open:
            with contextlib.suppress(OSError, EOFError):  # it has died: then this one is started by itself
                return Reaper(nursery.fork(folder, (stdin, stdout, log, descriptor)), own_in, own_out)
        command = [sys.executable, "-m", "dataguard.process.reaper", str(folder), str(descriptor)]
        process = subprocess.Popen(
            command, pass_fds=[descriptor], stdin=stdin, stdout=stdout, stderr=log, start_new_session=True
        )
        return Reaper(process.pid, own_in, own_out, process)
    finally:
        os.close(stdin)
        os.close(stdout)


class Zygote:
    """The reporting side of `dataguard.observer.zygote`, whose process is started with the first reaper."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._said: Mapping[str, str] = {}

    def fork(self, folder: Path, descriptors: tuple[int, ...]) -> int:
        """The number of a new reaper's process. Raises OSError or EOFError when there is no answer.

        `descriptors` are its standard streams, and the socket to the observing process.
        """
        with self._lock:
            said = {name: value for name, value in os.environ.items() if name.startswith(_INHERITED)}
            alive = self._process is not None and self._process.poll() is None
            if not alive or said != self._said:
                self.close()
                self._start(said)
            assert self._control is not None
            socket.send_fds(self._control, [b"."], descriptors)
            with Connection(os.dup(self._control.fileno())) as pipe:
                pipe.send((folder, dict(os.environ), str(Path.cwd())))
                if not pipe.poll(_PATIENCE):
                    raise EOFError("the nursery gives no answer")
                pid: int = pipe.recv()
                return pid

    def close(self) -> None:
        """End it; the wardens that it forked go on."""
        control, self._control = self._control, None
        process, self._process = self._process, None
        if control is not None:
            control.close()
        if process is not None:
            try:
                process.wait(1)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, said: Mapping[str, str]) -> None:
        here, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dataguard.observer.zygote", str(there.fileno())],
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._control, self._said = here, said


_open: list[Zygote] = []
"""The nursery in use, if any."""


@contextmanager
def shared_zygote() -> Iterator[None]:
    """Fork all wardens that are started inside from one process, so that torch is imported once, where fork exists."""
    if _open or not hasattr(os, "fork"):
        yield
        return
    _open.append(Zygote())
    try:
        yield
    finally:
        _open.pop().close()
