"""Forks a reaper with an observing process for each target of a run, so that torch is imported only once.

Importing torch takes longer than many scans. No user code is imported here, so a fork is equivalent to a new process:
it gets the environment, working directory and streams that the reporting process has at that moment.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import multiprocessing.process
import shutil
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NoReturn

import hypothesis  # noqa: F401 - slow to import, and each loader needs it
import numpy

from dataguard.lab.process import fork_safety
from dataguard.lab.process.isolation import InheritedHandlers, run_exit_handlers
from dataguard.observer import host
from dataguard.process import reaper
from dataguard.process.cheap_forks import prepare_to_fork
from dataguard.process.launcher import ADDRESS
from dataguard.process.originals import os, signal

_LOG = 2
"""The descriptor of the log of the observing process, which is the standard error of its reaper."""
_SOCKET = 3
"""The descriptor of the socket to the reporting process: the first one after the standard streams."""


def main(descriptor: str, own_folder: str) -> None:
    """Fork whenever a reporting process asks, until the one that started this closes its end of stdin or dies.

    `descriptor` is the socket to listen at, which is in the folder `own_folder`.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a reaper: it closes its output when it is done
    listener = socket.socket(fileno=int(descriptor))
    stdin = sys.stdin.fileno()
    while stdin not in (ready := wait([stdin, listener])):
        if listener in ready:
            with contextlib.suppress(OSError, EOFError, TypeError, ValueError):  # who asked has died, or is another
                control, _ = listener.accept()
                with control:
                    _answer(control)
    shutil.rmtree(own_folder, ignore_errors=True)


def _answer(control: socket.socket) -> None:
    """Fork one reaper, and tell its PID."""
    _, descriptors, _, _ = socket.recv_fds(control, 1, 3)
    try:
        with Connection(os.dup(control.fileno())) as pipe:
            folder, environment, working_folder = json.loads(pipe.recv_bytes())
            become = partial(_become_reaper, Path(folder), environment, working_folder, *descriptors)
            host.import_torchvision_if_used()
            fork_safety.remember()
            prepare_to_fork()
            pid = os.fork()
            if pid == 0:
                _end_with(become)
            pipe.send_bytes(str(pid).encode())
    finally:
        for inherited in descriptors:
            os.close(inherited)


def _become_reaper(
    folder: Path, environment: Mapping[str, str], working_folder: str, stdin: int, stdout: int, descriptor: int
) -> None:
    """Watch a fork of this process, which observes, as `dataguard.process.reaper` does."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _keep(stdin, stdout, os.open(os.devnull, os.O_WRONLY), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.environ.pop(ADDRESS, None)
    os.chdir(working_folder)
    # Spawned workers look for the script in it, as those of a process that is started there do.
    multiprocessing.process.ORIGINAL_DIR = working_folder  # type: ignore[attr-defined]
    importlib.invalidate_caches()
    reaper.watch(folder, _fork_host)


def become_reaper_here(folder: Path, stdin: int, stdout: int, descriptor: int) -> None:
    """In a fork of the reporting process itself: watch a fork of this one, which observes what is in memory.

    Unlike a fork of the zygote, that has the open files of the user, and must not run the user's exit handlers.
    """
    os.setsid()
    signal.set_wakeup_fd(-1)
    sys.stdin = os.fdopen(stdin, closefd=False)
    status = 1
    try:
        reaper.watch(folder, partial(_fork_host_here, stdin, stdout, descriptor))
        status = 0
    finally:
        os._exit(status)


def _fork_host_here(stdin: int, stdout: int, descriptor: int) -> Forked:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        _keep(stdin, stdout, _LOG)
        sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
        return Forked(pid)
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, source in enumerate((nothing, _LOG, _LOG)):
            os.dup2(source, number)
        for opened in (nothing, stdin, stdout):
            os.close(opened)
        # A notebook or a test runner has put objects in their place that pass on what is written.
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        InheritedHandlers().drop()
        try:
            _start_observing(descriptor, parent)
        finally:
            run_exit_handlers()
    finally:
        os._exit(0)


def _start_observing(descriptor: int, parent: int) -> None:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    host.main(descriptor, parent, forked=True)


def _fork_host() -> Forked:  # noqa: RET503 - the fork never returns
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(_SOCKET)  # otherwise the reporting process would never see it close
        return Forked(pid)
    _keep(os.open(os.devnull, os.O_RDONLY), _LOG, _LOG, _SOCKET)
    numpy.random.seed()  # as in a new process; python and torch reseed after a fork themselves
    _end_with(partial(_start_observing, _SOCKET, parent))


def _keep(*descriptors: int) -> None:
    """Make these the standard streams and the socket of this process, and close all other descriptors."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(len(descriptors), os.sysconf("SC_OPEN_MAX"))


def _end_with(work: Callable[[], None]) -> NoReturn:
    """Run `work` and exit like the interpreter does, including the registered exit handlers."""
    status = 1
    try:
        work()
        status = 0
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # noqa: BLE001 - nobody is above to catch it
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(status)


class Forked:
    """A forked process with the interface of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def poll(self) -> int | None:
        """The exit code, or None while the process runs."""
        return self._ask(os.WNOHANG)

    def wait(self) -> int:
        """Wait for the process and return its exit code."""
        return self._ask(0) or 0

    def kill(self) -> None:
        """Kill the process, which nobody has waited for."""
        os.kill(self.pid, signal.SIGKILL)

    def _ask(self, flags: int) -> int | None:
        if self._status is None:
            try:
                pid, status = os.waitpid(self.pid, flags)
            except ChildProcessError:  # whoever killed it already reaped it
                self._status = 0
            else:
                self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status
