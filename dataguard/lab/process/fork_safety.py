"""Whether a process can be forked safely once the factory has run in it, and which modules it then has.

`ProcessSnapshot` compares the threads, files, locks, shared memory and signal handlers of the process before and after
the factory: what forks would share or lose.

`own_files` and `references` read the imported modules: which are the user's, and which refer to a function by a name.
Reading a name writes a reference count: in a fork, reading all modules copies 20 to 90 MB (torch 2.15). So each module
of a library is read once, and before the forks if `remember` is called there.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import stat
import sys
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from pathlib import Path
from types import ModuleType
from typing import Any

from dataguard.core.incident import is_library
from dataguard.lab.process.accelerators import initialized, shown_kind
from dataguard.process.process_tree import descendants, is_cleanup_process


def can_be_known() -> bool:
    """Whether the state of a process can be read here."""
    return sys.platform == "linux" and _PROC.exists()


class ProcessSnapshot:
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
        if kind := initialized():
            return f"it initializes {shown_kind(kind)}"
        expected = {*self._shared, _lock_of_bars()}
        shared = [path for addresses, path in _shared_memory().items() if addresses not in expected]
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
        if any(not link.startswith("/") or _kind(fd) in (stat.S_IFIFO, stat.S_IFSOCK) for fd, link in opened.items()):
            return "it leaves sockets or pipes open"
        if any(_locks(fd) - _LOCKS.keys() for fd in opened):
            return "it holds a lock that its process alone has"
        if any(_has_offset(fd) and not _can_be_opened_again(fd) for fd in opened):
            return "it holds a file open that cannot be opened again"
        return None

    def shares_files(self, folder: Path) -> bool:
        """Whether two processes that call the factory, or two forks of this one, would disturb each other.

        That is: it holds a lock, or a file that it reads and writes. Files in `folder` do not count.
        """
        opened = _descriptors().items() - self._descriptors.items()
        if any(_locks(fd) for fd, _ in opened):
            return True
        links = {link for fd, link in opened if _has_offset(fd) and _flags(fd) & os.O_ACCMODE == os.O_RDWR}
        links |= {path for addresses, path in _shared_memory().items() if addresses not in self._shared}
        return any(link.startswith("/") and not link.startswith((str(folder), *_UNNAMED)) for link in links)

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

    def files(self, folder: Path) -> tuple[OpenFile, ...]:
        """The files and folders outside of `folder` that are open, with their offsets.

        Those that were open before belong to the user's module, or, for a loader in hand, to the user's process, whose
        locks stay as they are.
        """
        files: list[OpenFile] = []
        for fd, link in sorted(_descriptors().items()):
            locks = _locks(fd)
            if fd < 3 or link.startswith(str(folder)) or not _has_offset(fd):
                continue
            if locks - _LOCKS.keys() or (locks and fd in self._descriptors):
                continue
            sharing = next((number for number, file in enumerate(files) if _is_shared(file.descriptors[0], fd)), None)
            if sharing is not None:
                files[sharing] = replace(files[sharing], descriptors=(*files[sharing].descriptors, fd))
            elif locks or _can_be_opened_again(fd):
                lock = _LOCKS[locks.pop()] if locks else 0
                files.append(OpenFile((fd,), link, _flags(fd), os.lseek(fd, 0, os.SEEK_CUR), lock))
        return tuple(files)


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file or folder that was open when the checkpoint was taken, with its offset and how it was opened.

    `descriptors` refer to one file description, and share its offset. `lock` is that of `flock`, 0 for none.
    """

    descriptors: tuple[int, ...]
    path: str
    flags: int
    offset: int
    lock: int = 0

    def unlock(self) -> None:
        """Take the lock from the process of the checkpoint, which would keep its forks from taking it."""
        if self.lock:
            fcntl.flock(self.descriptors[0], fcntl.LOCK_UN)

    def reopen(self) -> None:
        """Give this process a description of its own, with the offset and the lock of that at the checkpoint."""
        if any(_link(descriptor) != self.path for descriptor in self.descriptors):
            return  # of the process that became the checkpoint, which has closed it since
        reopened = _opened_again(self.descriptors[0], self.flags)
        os.lseek(reopened, self.offset, os.SEEK_SET)
        if self.lock:
            fcntl.flock(reopened, self.lock | fcntl.LOCK_NB)
        for descriptor in self.descriptors:
            os.dup2(reopened, descriptor, inheritable=os.get_inheritable(descriptor))
        os.close(reopened)


_PROC = Path("/proc/self")
_MODULES = (os, signal, time)
"""Modules on which observing depends: a factory that replaces a function of one changes what dataguard does."""
_MOMENT = 0.5
"""Seconds that threads may take to end: those of a queue or a pool that was just closed need milliseconds."""
_REOPENED = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_DIRECT | os.O_SYNC | os.O_DSYNC
"""What is kept of how a file was opened: how it is read and written, not how it was found or made."""
_LOCKS = {("FLOCK", "READ"): fcntl.LOCK_SH, ("FLOCK", "WRITE"): fcntl.LOCK_EX}
"""Locks of `flock`, and how each is taken: they belong to a file description, others to one process."""
_UNNAMED = ("/dev/", "/memfd:", "/SYSV", "/[aio]")
"""Where the paths of memory begin that no other call of the factory shares."""
_TIDYING = ("jemalloc_bg_thd",)
"""The names of threads that return memory to the system: pyarrow's allocator starts one, and handles forks itself."""


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
    return {thread for thread in threading.enumerate() if type(thread).__module__.partition(".")[0] != "tqdm"}


def _comm(task: Path) -> str:
    try:
        return (task / "comm").read_text().strip()
    except OSError:  # it has just ended
        return ""


def _descriptors() -> dict[int, str]:
    numbers = [int(path.name) for path in (_PROC / "fd").iterdir()]  # which leaves the folder closed
    return {number: link for number in numbers if (link := _link(number)) is not None}


def _link(descriptor: int) -> str | None:
    """What is open; None if it was closed, as the folder that was listed."""
    try:
        return str((_PROC / "fd" / str(descriptor)).readlink())
    except OSError:
        return None


def _handler(number: int) -> object:
    """What handles a signal; torch's handler, which only looks after the workers of its own process, is none."""
    handler = signal.getsignal(number)
    return signal.SIG_DFL if getattr(handler, "__module__", "").startswith("torch.") else handler


def _kind(descriptor: int) -> int:
    """The type of what is open, as in `stat`; 0 if it was closed."""
    try:
        return stat.S_IFMT(os.fstat(descriptor).st_mode)
    except OSError:
        return 0


def _has_offset(descriptor: int) -> bool:
    """Whether this is a file or a folder that is read from where it was read last; O_PATH only names one."""
    return _kind(descriptor) in (stat.S_IFREG, stat.S_IFDIR) and not _flags(descriptor) & os.O_PATH


def _opened_again(descriptor: int, flags: int) -> int:
    return os.open(f"/proc/self/fd/{descriptor}", flags & _REOPENED)


def _can_be_opened_again(descriptor: int) -> bool:
    """Whether it can: its rights may have been taken away since. To close it drops its locks of `fcntl`."""
    try:
        os.close(_opened_again(descriptor, _flags(descriptor)))
    except OSError:
        return False
    return True


def _is_shared(descriptor: int, other: int) -> bool:
    """Whether two descriptors share an offset: `os.dup` makes such."""
    if _kind(descriptor) != stat.S_IFREG or not os.path.sameopenfile(descriptor, other):
        return False
    offset = os.lseek(descriptor, 0, os.SEEK_CUR)
    if os.lseek(other, 0, os.SEEK_CUR) != offset:
        return False
    moved = os.lseek(descriptor, 0 if offset else 1, os.SEEK_SET)
    shared = os.lseek(other, 0, os.SEEK_CUR) == moved
    os.lseek(descriptor, offset, os.SEEK_SET)
    return shared


def _locks(descriptor: int) -> set[tuple[str, str]]:
    """The locks that this process holds through a descriptor: kind, and READ or WRITE."""
    try:
        lines = (_PROC / "fdinfo" / str(descriptor)).read_text().splitlines()
    except OSError:  # closed meanwhile
        return set()
    return {(words[2], words[4]) for words in map(str.split, lines) if words[0] == "lock:"}


def _flags(descriptor: int) -> int:
    lines = (_PROC / "fdinfo" / str(descriptor)).read_text().splitlines()
    return next(int(line.split()[1], 8) for line in lines if line.startswith("flags:"))


def _shared_memory() -> dict[str, str]:
    """The writable mappings that forks share, by address, with what is mapped."""
    lines = (f"{line} ".split(" ", 5) for line in (_PROC / "maps").read_text().splitlines())
    return {
        addresses: path.strip()
        for addresses, rights, _, _, _, path in lines
        if rights.startswith("rw") and "s" in rights
    }


def _lock_of_bars() -> str | None:
    """Where the semaphore of tqdm is mapped, which is held for moments only; None if there is none."""
    lock = getattr(getattr(sys.modules.get("tqdm.std"), "TqdmDefaultWriteLock", None), "mp_lock", None)
    address = getattr(getattr(lock, "_semlock", None), "handle", None)
    return next(
        (addresses for addresses in _shared_memory() if address is not None and _spans(addresses, address)), None
    )


def _spans(addresses: str, address: int) -> bool:
    """Whether an address is in a mapping, as /proc/self/maps writes it."""
    start, _, end = addresses.partition("-")
    return int(start, 16) <= address < int(end, 16)


def _functions() -> Mapping[tuple[str, str], int]:
    named = ((module.__name__, name, value) for module in _MODULES for name, value in vars(module).items())
    return {(module, name): id(value) for module, name, value in named if callable(value)}


_UNRELATED = {
    *("numpy", "scipy", "sympy", "mpmath", "torch", "torchgen", "triton", "cuda"),
    *("dataguard", "dill", "hypothesis", "psutil", "tqdm", "typing_extensions"),
}
"""Packages that refer to no function of another package that is replaced, wherever they are installed. With the
standard library, they define most names in a process."""
_SKIPPED = _UNRELATED | sys.stdlib_module_names
_MODELS = ("torchvision.models", "torchvision.ops")
"""Modules that no dataset calls, with names by the thousand."""
_read = False
_own: dict[str, str] = {}
"""The source files of the user's modules that were read, by module name."""
_places: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
"""The modules and names that refer to each callable, by its `id`, in the libraries that were read."""


def remember() -> None:
    """Read the modules that were imported since the last call."""
    global _read
    for name in _unread():
        space = namespace(name)
        file = space.get("__file__")
        if isinstance(file, str) and not is_library(file):
            _own[name] = file
        elif _is_related(name):
            for key, value in list(space.items()):
                if callable(value):
                    _places[id(value)].append((name, key))
    sys.modules[__name__] = sys.modules.pop(__name__)  # what is imported from now on comes after it
    _read = True


def own_files() -> dict[str, str]:
    """The source file of each module of the user's, by module name."""
    remember()
    return {name: file for name, file in _own.items() if namespace(name).get("__file__") == file}


def references(wanted: Mapping[int, object]) -> Iterator[tuple[dict[str, Any], str]]:
    """The namespaces and names that refer to an object with one of these ids, except those of unrelated packages."""
    remember()
    for identity in wanted:
        for module, name in _places.get(identity, ()):
            space = namespace(module)
            if id(space.get(name)) == identity:
                yield space, name
    for module in _own:
        if _package(module) in _UNRELATED:
            continue
        space = namespace(module)
        for name, value in list(space.items()):
            if id(value) in wanted:
                yield space, name


def namespace(name: str) -> dict[str, Any]:
    """The namespace of an imported module, empty if it is none: reading an attribute would import a lazy one."""
    module = sys.modules.get(name)
    return module.__dict__ if isinstance(module, ModuleType) else {}


def _unread() -> list[str]:
    """The modules that were imported, or imported again, since the last call of `remember`."""
    if not _read:
        return list(sys.modules)
    return list(itertools.takewhile(lambda name: name != __name__, reversed(sys.modules)))


def _is_related(name: str) -> bool:
    return _package(name) not in _SKIPPED and not name.startswith(_MODELS)


def _package(name: str) -> str:
    return name.partition(".")[0]
