"""Start reaper processes: each on its own, or all of a run forked from one zygote. Standard library only."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

_INHERITED = ("PYTHON", "TORCH", "PYTORCH", "CUDA", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "NUMEXPR_", "LD_", "DYLD_")
"""Prefixes of environment variables that are read at process start; a fork cannot apply them later."""
_PATIENCE = 120.0
"""Seconds that importing torch may take."""


class Reaper:
    """The reporting process's handle of a reaper: closing `stdin` stops it, and it closes `stdout` when it is done."""

    def __init__(self, pid: int, stdin: int, stdout: int, process: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self.stdin = os.fdopen(stdin, "wb", buffering=0)
        self.stdout = os.fdopen(stdout, "rb", buffering=0)
        self._process = process
        _alive.add(self)

    def dismiss(self, seconds: float) -> None:
        """Stop it together with all its descendants, and wait until they have ended."""
        self.stdin.close()
        while select.select([self.stdout], [], [], seconds)[0]:
            if not self.stdout.read(64):
                break
        else:  # a descendant cannot even be killed, for instance because of a dead network mount
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        with contextlib.suppress(ChildProcessError):  # one that was forked by the zygote is no child of this process
            os.waitpid(self.pid, 0)
        self.stdout.close()
        _alive.discard(self)


_alive: set[Reaper] = set()
"""The reapers of this process that were not dismissed."""


def start(folder: Path, descriptor: int, log: int, *, here: bool = False) -> Reaper:
    """Start a reaper with this session folder, the socket `descriptor` and the `log` for its output.

    With `here`, it is forked from this process, and so is the observing process, which then has what is in memory here.
    """
    stdin, own_in = os.pipe()
    own_out, stdout = os.pipe()
    try:
        if here:
            mine = [own_in, own_out, *(pipe.fileno() for reaper in _alive for pipe in (reaper.stdin, reaper.stdout))]
            return Reaper(_fork_here(folder, (stdin, stdout, log, descriptor), mine), own_in, own_out)
        for zygote in _open:
            with contextlib.suppress(OSError, EOFError):  # the zygote died: start the reaper on its own
                return Reaper(zygote.fork(folder, (stdin, stdout, log, descriptor)), own_in, own_out)
        command = [sys.executable, "-m", "dataguard.process.reaper", str(folder), str(descriptor)]
        process = subprocess.Popen(
            command, pass_fds=[descriptor], stdin=stdin, stdout=stdout, stderr=log, start_new_session=True
        )
        return Reaper(process.pid, own_in, own_out, process)
    finally:
        os.close(stdin)
        os.close(stdout)


def _fork_here(folder: Path, descriptors: tuple[int, ...], mine: list[int]) -> int:
    """Fork a reaper, without the descriptors that are only `mine`, and return its PID."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: this process has threads; so have notebooks
        pid = os.fork()
    if pid == 0:
        try:
            for descriptor in mine:
                os.close(descriptor)
            import_module("dataguard.observer.zygote").become_reaper_here(folder, *descriptors)
        finally:
            os._exit(1)
    return pid


class Zygote:
    """The reporting side of `dataguard.observer.zygote`; its process is started with the first reaper."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._variables: Mapping[str, str] = {}

    def fork(self, folder: Path, descriptors: tuple[int, ...]) -> int:
        """Fork a reaper and return its PID. Raises OSError or EOFError when the zygote does not answer.

        `descriptors` are the standard streams of the reaper, and the socket to the observing process.
        """
        with self._lock:
            variables = {name: value for name, value in os.environ.items() if name.startswith(_INHERITED)}
            alive = self._process is not None and self._process.poll() is None
            if not alive or variables != self._variables:
                self.close()
                self._start(variables)
            assert self._control is not None
            socket.send_fds(self._control, [b"."], descriptors)
            with Connection(os.dup(self._control.fileno())) as pipe:
                pipe.send((folder, dict(os.environ), str(Path.cwd())))
                if not pipe.poll(_PATIENCE):
                    raise EOFError("the zygote does not answer")
                pid: int = pipe.recv()
                return pid

    def close(self) -> None:
        """Stop the zygote; the reapers that it forked keep running."""
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

    def _start(self, variables: Mapping[str, str]) -> None:
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
        self._control, self._variables = here, variables


_open: list[Zygote] = []
"""The zygote in use, if any."""


@contextmanager
def shared_zygote() -> Iterator[None]:
    """Fork all reapers started inside the context from one process that imports torch once, if fork is available."""
    if _open or not hasattr(os, "fork"):
        yield
        return
    _open.append(Zygote())
    try:
        yield
    finally:
        _open.pop().close()
