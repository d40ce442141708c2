"""Ending processes without leaving any behind. Standard library and psutil only."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
import time

import psutil

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_JANITORS = ("resource_tracker", "torch_shm_manager")
_GRACE = 3.0


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent dies, so that none escapes (Linux)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies (Linux)."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def family(pid: int) -> list[psutil.Process]:
    """A process and all its descendants; empty when it is gone."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []


def end_descendants(process: psutil.Process) -> None:
    """Kill every descendant, again and again until none is left, for they may fork meanwhile.

    The processes that clean shared memory up after others come last, and get a moment to do so.
    """
    deadline = time.monotonic() + _GRACE
    while time.monotonic() < deadline:
        workers = [child for child in _descendants(process) if not is_janitor(child)]
        if not workers:
            break
        _kill(workers)
    _, stubborn = psutil.wait_procs(_descendants(process), timeout=_GRACE)
    _kill(stubborn)


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return [child for child in process.children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
    return []


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, timeout=0.5)


def is_janitor(process: psutil.Process) -> bool:
    """Whether this process only removes what others left in shared memory, as soon as those are gone."""
    try:
        return any(name in word for word in process.cmdline() for name in _JANITORS)
    except psutil.Error:
        return False


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11; the number itself for one that has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def how_it_ended(status: int) -> str:
    """In words, from an exit code as subprocess and multiprocessing give it (negative for a signal)."""
    return f"was killed by {signal_name(-status)}" if status < 0 else f"exited with status {status}"
