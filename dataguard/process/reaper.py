"""The process between the reporting and the observing process; it stops and cleans up everything once either has ended.

No user code runs here, so it can always clean up: when
the reporting process is done, interrupted or killed (then the reaper's standard input closes), and when the observing
process crashes. The last thing it writes to stdout is the exit code of the observing process, and on lines of their own
the names of shared tensors that may be its, and were left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Protocol

from dataguard.process import shm_cleanup
from dataguard.process.launcher import command
from dataguard.process.process_tree import (
    adopt_orphans,
    end_cleanup_processes,
    end_descendants,
    reap_children,
    wait_for_children,
)
from dataguard.process.shm_cleanup import SharedTensors

LOG = "host.log"
"""File in the session folder: the output of the observing process."""
CREATIONS = "shared_memory"
"""File in the session folder: the names that the user's code created in /dev/shm."""
STACKS = "import.stacks"
"""File in the session folder: the stacks of an import that crashed or did not finish."""
GRACE = 3.0
"""Seconds in which the observing process may exit, with what the user's code registered for that: longer delays the end
of each scan whose loader hangs."""
_GLANCE = 0.1
"""Seconds between two looks at both processes: how late the end of one is noticed."""


class Process(Protocol):
    """The part of the `subprocess.Popen` interface that `watch` uses."""

    pid: int

    def poll(self) -> int | None:
        """The exit code, or None while the process runs."""

    def wait(self) -> int:
        """Wait for the process and return its exit code."""

    def kill(self) -> None:
        """Kill the process."""


def main(folder: str, descriptor: str) -> None:
    """Watch a new observing process that serves the socket `descriptor`."""
    watch(Path(folder), lambda: _start(int(descriptor)))


def _start(descriptor: int) -> subprocess.Popen[bytes]:
    host = subprocess.Popen(
        command("dataguard.observer.entry", descriptor, os.getpid()),
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
        stdout=2,
        start_new_session=True,
    )
    os.close(descriptor)  # otherwise the reporting process would never see it close
    return host


def watch(folder: Path, start: Callable[[], Process]) -> None:
    """Start the observing process, wait until it or the reporting process ends, and clean up after both."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the reporting process handles these
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which the user's code would inherit
    wait_for_children()
    adopt_orphans()
    tensors = SharedTensors()
    reporter = os.getppid()
    try:
        if _await_folder(folder, reporter):
            _observe(folder, start, tensors, reporter)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _await_folder(folder: Path, reporter: int) -> bool:
    """Whether the reporting process makes the folder; it does once this process is there, which removes it."""
    while not folder.exists():
        if _dismissed(reporter, 0.001):
            return False
    log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)  # the number, as a notebook has put an object in place of sys.stderr
    os.close(log)
    return True


def _observe(folder: Path, start: Callable[[], Process], tensors: SharedTensors, reporter: int) -> None:
    host = start()
    while host.poll() is None and not _dismissed(reporter, _GLANCE):
        pass
    _let_exit(host)
    tensors.remove(end_descendants(stopped=tensors.note_held), folder, folder)
    if host.poll() is None:  # without /proc, it was not found
        host.kill()
    end_cleanup_processes()
    shm_cleanup.remove_created(folder / CREATIONS, tensors.before)
    with contextlib.suppress(OSError):
        status = str(host.wait())  # 0 when it was stopped from here
        reap_children()
        os.write(sys.stdout.fileno(), "".join(f"{line}\n" for line in (status, *shm_cleanup.left_in(folder))).encode())
    while not _dismissed(reporter, _GLANCE):  # the reporting process may want to read the log
        pass


def _let_exit(host: Process) -> None:
    """Interrupt the observing process, if it still runs, and wait until it has exited, or the grace is over."""
    deadline = time.monotonic() + GRACE
    if host.poll() is None:
        os.kill(host.pid, signal.SIGINT)
    while host.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)


def _dismissed(reporter: int, seconds: float) -> bool:
    """Whether the reporting process has closed our input or died; waits for that so many seconds."""
    return bool(wait([sys.stdin.fileno()], seconds)) or os.getppid() != reporter
