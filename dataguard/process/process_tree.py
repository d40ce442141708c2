"""Stop processes without leaving any behind. Standard library and psutil only."""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import psutil

from dataguard.process.originals import os, signal, time

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
"""Options of prctl, from <linux/prctl.h>."""
_CLEANUP_PROCESSES = ("resource_tracker", "torch_shm_manager")
"""The helpers of multiprocessing and of torch that remove shared memory: they end by themselves, after all others."""
_CLEANUP_SECONDS = 3.0
"""Seconds in which processes must have ended: killed ones take milliseconds, unless one is in a system call that
does not return."""


def adopt_orphans(adopt: bool = True) -> None:
    """Make this process the parent of every orphaned descendant, so that none escapes, or no longer (Linux)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(adopt))


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies (Linux); exit at once if the parent is already dead."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


_users_choice: Any = signal.SIG_DFL


def wait_for_children() -> None:
    """Have the kernel keep the exit status of children for this process, whatever the user's code set for SIGCHLD.

    Where it is ignored, or a handler waits for any child, there is none left to wait for.
    """
    global _users_choice
    _users_choice = signal.getsignal(signal.SIGCHLD)
    if _users_choice is not None:  # of native code, which Python could not restore
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def handle_children_as_user() -> None:
    """Undo `wait_for_children`, in a process that runs the user's code."""
    if _users_choice is not None:
        signal.signal(signal.SIGCHLD, _users_choice)


def process_and_descendants(pid: int) -> list[psutil.Process]:
    """A process and all its descendants; empty if it no longer exists."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []


def descendants() -> list[psutil.Process]:
    """All running descendants of this process."""
    return [process for process in process_and_descendants(os.getpid())[1:] if _runs(process)]


def has_only(children_known: Collection[int]) -> bool:
    """Whether the kernel says that this process has no children but these (Linux).

    Looking for descendants among all processes takes milliseconds; this takes microseconds.
    """
    try:
        children = [file.read_text().split() for file in Path("/proc/self/task").glob("*/children")]
    except OSError:  # a thread has just ended
        return False
    return bool(children) and all(int(pid) in children_known for pids in children for pid in pids)


def work_done(pid: int) -> float:
    """CPU seconds plus megabytes read by the process and its descendants, a measure of progress.

    On Linux, the seconds in which a process was ready but all cores were busy count as well.
    """
    total = 0.0
    for process in process_and_descendants(pid):
        total += seconds_without_core(str(process.pid))
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
            if hasattr(process, "io_counters"):
                total += process.io_counters().read_chars / 1e6
    return total


def longest_wait(pid: int) -> float:
    """The most seconds for which one of the process and its descendants was ready but all cores were busy (Linux)."""
    return max((seconds_without_core(str(process.pid)) for process in process_and_descendants(pid)), default=0.0)


def seconds_without_core(task: str = "thread-self") -> float:
    """The seconds in which a thread was ready to run, but all cores were busy (Linux; 0.0 elsewhere).

    The thread is this one, or the main thread of the process with this number. The file is read without `open`, which
    observations replace.
    """
    try:
        descriptor = os.open(f"/proc/{task}/schedstat", os.O_RDONLY)
    except OSError:
        return 0.0
    try:
        return int(os.read(descriptor, 128).split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
    finally:
        os.close(descriptor)


def undisturbed_seconds() -> float:
    """The time of a clock that stands still while this thread waits for a core that other processes have (Linux).

    Limits that decide what is observed count these seconds: those of a busy machine must not change a verdict.
    """
    return time.monotonic() - seconds_without_core()


def end_descendants(
    spare: Collection[psutil.Process] = (),
    session: int | None = None,
    stopped: Callable[[Collection[int]], None] = lambda _: None,
) -> set[int]:
    """Kill every descendant of this process except `spare`, repeatedly, because they may fork in the meantime.

    With a `session`, only those that belong to it. Processes that clean up shared memory are not killed; they exit by
    themselves. `stopped` is called with PIDs of processes that are about to be killed, while they can be inspected.
    Returns the PIDs of the killed processes.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + _CLEANUP_SECONDS
    while time.monotonic() < deadline:
        members = [process for process in descendants() if session is None or _session_of(process) == session]
        doomed = [process for process in members if process not in spare and not is_cleanup_process(process)]
        if not doomed:
            break
        for process in doomed:
            _send(process, signal.SIGSTOP)  # a stopped process cannot fork while the others are being killed
        await_managers([process for process in members if process not in doomed])
        stopped({process.pid for process in doomed})
        for process in doomed:
            _send(process, signal.SIGKILL)
        _await_end(doomed, 0.5)
        ended |= {process.pid for process in doomed}
    return ended


def end_fork(pid: int) -> None:
    """Wait until a child of this process that leads a session has ended, and kill it with its group if it still runs.

    Without /proc, descendants are not found on Linux, and nothing else has ended it.
    """
    with contextlib.suppress(ChildProcessError):  # already waited for
        if not os.waitpid(pid, os.WNOHANG)[0]:
            for kill in (os.killpg, os.kill):  # it may have left its group, or not yet have made it
                with contextlib.suppress(OSError):
                    kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def reap_children() -> None:
    """Take the exit status of every child that has ended, orphans that were adopted too.

    They would be left to process 1, which in a container often waits for nobody: then they stay in its table.
    """
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def end_cleanup_processes() -> None:
    """Give the processes that clean up shared memory a moment to finish, then kill them. Call this last."""
    processes = descendants()
    _await_end(processes, _CLEANUP_SECONDS)
    folders = {folder for process in processes for folder in _folders_of_manager(process)}
    for process in processes:
        _send(process, signal.SIGKILL)
    _await_end(processes, 0.5)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def await_managers(processes: Collection[psutil.Process]) -> None:
    """Wait until each `torch_shm_manager` has its socket: else it dies with its parent, and leaves a folder."""
    deadline = time.monotonic() + 0.5
    starting = [process for process in processes if _is_manager(process)]
    while any(_runs(process) and not [*_folders_of_manager(process)] for process in starting):
        if time.monotonic() > deadline:
            break
        time.sleep(0.005)


def _is_manager(process: psutil.Process) -> bool:
    try:
        return bool(process.name() == "torch_shm_manager")
    except psutil.Error:
        return False


def _folders_of_manager(process: psutil.Process) -> Iterator[Path]:
    """The temporary folder with the socket of a `torch_shm_manager`, which removes it if it ends by itself.

    One whose first client was killed before it connected waits forever.
    """
    with contextlib.suppress(psutil.Error):
        for connection in process.net_connections(kind="unix"):
            folder = Path(str(connection.laddr)).parent
            if folder.name.startswith("torch-shm-dir-"):
                yield folder


def _session_of(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return None


def _send(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)


def _await_end(processes: Collection[psutil.Process], seconds: float) -> None:
    """Wait until these processes have ended, and reap those that are children of this process."""
    deadline = time.monotonic() + seconds
    while any(map(_runs, processes)) and time.monotonic() < deadline:
        time.sleep(0.005)
    for process in processes:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def is_cleanup_process(process: psutil.Process) -> bool:
    """Whether this process only removes the shared memory of processes that ended."""
    try:
        return any(name in word for word in process.cmdline() for name in _CLEANUP_PROCESSES)
    except psutil.Error:
        return False


def signal_name(number: int) -> str:
    """The name of a signal, such as `SIGSEGV` for 11; `signal N` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def how_it_ended(status: int) -> str:
    """The exit code of subprocess or multiprocessing (negative for a signal) in words."""
    return f"was killed by {signal_name(-status)}" if status < 0 else f"exited with status {status}"
