"""What running a factory leaves in a process that its forks would share or lose, so that it cannot be forked safely."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path

import torch

from dataguard.process.process_tree import descendants, is_cleanup_process

_PROC = Path("/proc/self")
_MODULES = (os, signal, time)
"""Modules on which observing depends: a factory that replaces a function of one changes what dataguard does."""
_MOMENT = 0.5
"""Seconds that threads may take to end."""
_TIDYING = ("jemalloc_bg_thd",)
"""The names of threads that return memory to the system: pyarrow's allocator starts one, and handles forks itself."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file that was open when the checkpoint was taken: its descriptor, how it was opened, and its offset."""

    descriptor: int
    flags: int
    offset: int

    def reopen(self) -> None:
        """Give this process an offset of its own, where the file stood at the checkpoint."""
        own = os.open(f"/proc/self/fd/{self.descriptor}", self.flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC))
        os.lseek(own, self.offset, os.SEEK_SET)
        os.dup2(own, self.descriptor, inheritable=False)
        os.close(own)


class Before:
    """The state of this process before the factory runs, to compare with what it leaves. Linux only."""

    def __init__(self) -> None:
        self._threads = _threads()
        self._descriptors = _descriptors()
        self._shared = _shared_memory()
        self._handlers = {number: _handler(number) for number in signal.valid_signals()}
        self._functions = _functions()

    def unsafe(self, folder: Path) -> str | None:
        """Why a fork of this process would not be as the process itself, if so. Mappings of `folder` do not count."""
        if not self._threads_end():
            return "it leaves threads running"
        if any(not is_cleanup_process(process) for process in descendants()):
            return "it leaves processes running"
        if torch.cuda.is_initialized():
            return "it initializes CUDA"
        known = {*self._shared, _lock_of_bars()}
        shared = [path for place, path in _shared_memory().items() if place not in known]
        if any(not path.startswith(str(folder)) for path in shared):
            return "it creates shared memory"
        if any(_handler(number) != handler for number, handler in self._handlers.items()):
            return "it installs a signal handler"
        if any(signal.getitimer(which)[0] for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)):
            return "it starts a timer"
        if _functions() != self._functions:
            return "it replaces functions of os, signal or time"
        now = _descriptors()
        if any(now.get(fd) != link for fd, link in self._descriptors.items()):
            return "it closes files that are not its own"
        opened = {fd: link for fd, link in now.items() if fd not in self._descriptors}
        opened.pop(getattr(resource_tracker._resource_tracker, "_fd", None) or -1, None)
        if any(not link.startswith("/") for link in opened.values()):
            return "it leaves sockets or pipes open"
        return None

    def _threads_end(self) -> bool:
        """Whether all threads that were started since end; those of queues that were just closed take a moment.

        Libraries that support forks, such as OpenBLAS, end their threads when a process forks.
        """
        if _threads() - self._threads:
            _fork_once()
        deadline = time.monotonic() + _MOMENT
        while _threads() - self._threads or len(_python_threads()) > 1:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def files(self) -> tuple[OpenFile, ...]:
        """The regular files that were opened since, with their offsets."""
        opened = _descriptors().keys() - self._descriptors.keys()
        return tuple(OpenFile(fd, _flags(fd), os.lseek(fd, 0, os.SEEK_CUR)) for fd in sorted(opened) if _is_regular(fd))


def can_be_known() -> bool:
    """Whether the state of a process can be read here."""
    return sys.platform == "linux" and _PROC.exists()


def _threads() -> set[str]:
    """The threads of this process, except those that only tidy up: a fork works as well without them."""
    bars = {str(thread.native_id) for thread in {*threading.enumerate()} - _python_threads()}
    return {path.name for path in (_PROC / "task").iterdir() if path.name not in bars and _comm(path) not in _TIDYING}


def _fork_once() -> None:
    """Fork a process that ends at once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of other threads, which this process never meets
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _python_threads() -> set[threading.Thread]:
    """The threads of Python, except the one that redraws progress bars."""
    return {one for one in threading.enumerate() if type(one).__module__.partition(".")[0] != "tqdm"}


def _comm(task: Path) -> str:
    try:
        return (task / "comm").read_text().strip()
    except OSError:  # it has just ended
        return ""


def _descriptors() -> dict[int, str]:
    found = {}
    for path in list((_PROC / "fd").iterdir()):  # as a list, which leaves the folder closed
        try:
            found[int(path.name)] = str(path.readlink())
        except OSError:  # the one that listed the folder, closed by now
            continue
    return found


def _handler(number: int) -> object:
    """What handles a signal; torch's handler, which only looks after the workers of its own process, is none."""
    handler = signal.getsignal(number)
    return signal.SIG_DFL if getattr(handler, "__module__", "").startswith("torch.") else handler


def _is_regular(descriptor: int) -> bool:
    try:
        return (os.fstat(descriptor).st_mode & 0o170000) == 0o100000
    except OSError:
        return False


def _flags(descriptor: int) -> int:
    lines = (_PROC / "fdinfo" / str(descriptor)).read_text().splitlines()
    return next(int(line.split()[1], 8) for line in lines if line.startswith("flags:"))


def _shared_memory() -> dict[str, str]:
    """The writable mappings that forks share, by address, with what is mapped."""
    lines = (f"{line} ".split(" ", 5) for line in (_PROC / "maps").read_text().splitlines())
    return {place: path.strip() for place, rights, _, _, _, path in lines if rights.startswith("rw") and "s" in rights}


def _lock_of_bars() -> str | None:
    """Where the semaphore of tqdm is mapped, which is held for moments only; None if there is none."""
    lock = getattr(getattr(sys.modules.get("tqdm.std"), "TqdmDefaultWriteLock", None), "mp_lock", None)
    address = getattr(getattr(lock, "_semlock", None), "handle", None)
    return next((place for place in _shared_memory() if address is not None and _spans(place, address)), None)


def _spans(place: str, address: int) -> bool:
    """Whether an address is in a mapping, as /proc/self/maps writes it."""
    start, _, end = place.partition("-")
    return int(start, 16) <= address < int(end, 16)


def _functions() -> Mapping[tuple[str, str], int]:
    named = ((module.__name__, name, value) for module in _MODULES for name, value in vars(module).items())
    return {(module, name): id(value) for module, name, value in named if callable(value)}
