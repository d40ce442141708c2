"""Stands between the process that reports and the one that observes, and ends everything once either has ended.

Run as `python -m dataguard.process.reaper FOLDER DESCRIPTOR`. No code of the user's runs here, so that it always gets
to clean up: when the reporting process is done, is interrupted or is killed without a chance to say a word (it notices
that its standard input closes), and when the observing one crashes. Its last words are the observing process' exit
code.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from dataguard.process import shm_cleanup
from dataguard.process.process_tree import adopt_orphans, end_cleanup_processes, end_descendants

LOG = "host.log"
"""What the observing process prints, in the session's folder."""
CREATIONS = "shared_memory"
"""The names that the user's code created in /dev/shm, in the session's folder."""
STACKS = "import.stacks"
"""The stacks of an import that crashed or did not come to its end, in the session's folder."""
_GLANCE = 0.1


class Process(Protocol):
    """What is asked of the observing process: its exit code, now or once it has ended."""

    def poll(self) -> int | None:
        """None while it runs."""

    def wait(self) -> int:
        """Waits for it."""


def watch(folder: Path, start: Callable[[], Process]) -> None:
    """Start the observing process, wait for an end, and leave nothing of either behind."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the reporting process decides what these mean
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which the user's code would inherit
    adopt_orphans()
    before = shm_cleanup.names()
    reporter = os.getppid()
    host = start()
    while host.poll() is None and not _dismissed(reporter):
        pass
    shm_cleanup.remove_tensors(end_descendants())
    end_cleanup_processes()
    shm_cleanup.remove_created(folder / CREATIONS, before)
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), str(host.wait()).encode())  # 0 when it was ended from here
    while not _dismissed(reporter):  # the reporting process may want to read the log
        pass
    shutil.rmtree(folder, ignore_errors=True)


def _dismissed(reporter: int) -> bool:
    """Whether the reporting process has closed our input or has died; takes a moment to find out."""
    return bool(select.select([sys.stdin], [], [], _GLANCE)[0]) or os.getppid() != reporter


def _start(folder: Path, descriptor: int) -> subprocess.Popen[bytes]:
    with (folder / LOG).open("ab") as log:
        host = subprocess.Popen(
            [sys.executable, "-m", "dataguard.observer.host", str(descriptor), str(os.getpid())],
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    os.close(descriptor)  # or the reporting process would never see it close
    return host


if __name__ == "__main__":
    own_folder, own_socket = Path(sys.argv[1]), int(sys.argv[2])
    watch(own_folder, lambda: _start(own_folder, own_socket))
