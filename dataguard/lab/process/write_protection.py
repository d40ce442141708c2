"""Keeps the user's files as they are while the user's code computes with changed data.

A factory may store what it made of the data: a cache of decoded images, a scaler, an index; and `__getitem__` may, at
each read. With charts in place of images, or with changed rows, they would store those. So a process that changes data
cannot write a file from then on: the user's code gets `PermissionError`. What it opened before cannot be written
either: descriptors become read-only, and mapped files private copies. Shared memory, sockets and temporary files work,
and what Python appends to a file, such as a line of a log, goes into another one, so that data sets which count or log
their reads can be observed.

Linux denies it with Landlock, which holds for libraries in C as well. Elsewhere an audit hook does, which sees what
Python opens, renames and removes.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import errno
import fcntl
import io
import multiprocessing.process
import stat
import struct
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataguard.process.originals import os

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""The numbers of these calls, which are the same on every machine of 64 bits."""
_VERSION_FLAG, _PATH_BENEATH, _NO_NEW_PRIVILEGES = 1, 1, 38
"""Their flags, and the option of `prctl` that has to be set before: linux/landlock.h and linux/prctl.h."""
_WRITES = sum(1 << right for right in (1, *range(4, 13)))
"""The rights to write, remove and make files, in the first version of Landlock: linux/landlock.h."""
_LATER_WRITES = {2: 1 << 13, 3: 1 << 14}
"""Those of later versions: to move a file to another folder, and to truncate one."""
_CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate"}
"""Events of audit hooks that change files and folders, whose paths are among the arguments."""


class WriteRefused(BaseException):
    """The user's code failed because it could not write a file.

    No `Exception`: what tries to read samples must not take it for a failure of a read.
    """

    @property
    def in_words(self) -> str:
        """Why nothing was decided."""
        return f"not decided: while data are changed no file is written, and so it fails: {self}"


@dataclass(slots=True)
class _Scratch:
    """The folder in which this process writes, if it is a disposable one, and whether it writes nowhere else."""

    folder: Path | None = None
    only: bool = False


_scratch = _Scratch()


def allow_writes(folder: Path) -> None:
    """Say that this is a disposable process, and in which folder it writes even when others are forbidden."""
    _scratch.folder, _scratch.only = folder, False


def forbid_writes() -> None:
    """From now on, this process and those that it starts write files in its own folder and in `/dev` only.

    There is no way back: nothing is done in a process that is not disposable. Call it before data are changed, and if
    possible after a read as usual, which opens what the user's code keeps open. Temporary files go into the folder.
    """
    folder = _scratch.folder
    if folder is None or _scratch.only:
        return
    _scratch.only = True
    _redirect_temporary_files(folder)
    _redirect_appends(folder)
    multiprocessing.process.current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined] # of sockets
    _withdraw_descriptors(folder)
    _withdraw_mappings(folder)
    if not _restricted([folder, Path("/dev")]):
        sys.addaudithook(_Refusal(folder))


def refused_write(error: BaseException) -> str | None:
    """What a failure of the user's code says of the write that was refused; None if it has another cause."""
    seen: set[int] = set()
    cause: BaseException | None = error if _scratch.only else None
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        words = str(cause)
        if (isinstance(cause, OSError) and cause.errno in _REFUSALS) or _DENIED in words:
            return words.partition("\n")[0] or type(cause).__name__
        cause = cause.__cause__ or cause.__context__
    return None


_REFUSALS = (errno.EACCES, errno.EPERM, errno.EBADF, errno.EROFS)
"""What the kernel answers where a path may not be written, and where a descriptor can only be read."""
_DENIED = os.strerror(errno.EACCES)
"""As libraries in C word it."""


def _redirect_temporary_files(folder: Path) -> None:
    """Make temporary files in this folder. `tempfile.gettempdir` stays: the user's code may keep its data there."""
    tempfile.gettempdir()  # from now on it no longer depends on the environment, which is for processes to come
    os.environ["TMPDIR"] = str(folder)
    usual = tempfile._sanitize_params  # type: ignore[attr-defined]

    def parameters(prefix: Any, suffix: Any, dir: Any) -> tuple[Any, ...]:
        prefix, suffix, chosen, kind = usual(prefix, suffix, dir)
        inside = str(folder) if kind is str else os.fsencode(folder)
        return prefix, suffix, inside if dir is None else chosen, kind

    tempfile._sanitize_params = parameters  # type: ignore[attr-defined]


def _redirect_appends(folder: Path) -> None:
    """Open a file of this folder where Python opens another one to append to it, and to read nothing of it."""
    import os as users  # the user's code calls its functions, and dataguard those of a copy

    opened, opened_low = io.open, users.open
    own = _Refusal(folder)

    def elsewhere(path: Any) -> Any:
        if not isinstance(path, str | bytes | os.PathLike) or own.is_writable(os.fsdecode(path)):
            return path
        return folder / f"appended-{Path(os.fsdecode(path)).name}"

    def open_file(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        appends = "a" in mode and "+" not in mode
        return opened(elsewhere(file) if appends else file, mode, *args, **options)

    def open_low(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & users.O_APPEND and flags & users.O_WRONLY and options.get("dir_fd") is None:
            path, flags = elsewhere(path), flags | users.O_CREAT
        return opened_low(path, flags, *args, **options)

    builtins.open = io.open = open_file
    users.open = open_low


def _withdraw_descriptors(folder: Path) -> None:
    """Let files that are open for writing be read only; those below the folder of the scan stay."""
    listing = Path("/proc/self/fd")
    for entry in os.listdir(listing) if listing.exists() else ():
        number = int(entry)
        with contextlib.suppress(OSError):  # that of the listing itself is closed
            status, path = os.fstat(number), os.readlink(listing / entry)
            writes = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
            if writes and stat.S_ISREG(status.st_mode) and _is_users(path, folder):
                _reopen(number, listing / entry)


def _reopen(number: int, path: Path) -> None:
    """Let a descriptor read the same file at the same place, or nothing if that may not be read."""
    position, inheritable = os.lseek(number, 0, os.SEEK_CUR), os.get_inheritable(number)
    try:
        other = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        other = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.lseek(other, position, os.SEEK_SET)
    os.dup2(other, number, inheritable)
    os.close(other)


def _withdraw_mappings(folder: Path) -> None:
    """Replace memory through which files are written by private copies of it, page by page as they change."""
    listing = Path("/proc/self/maps")
    for line in listing.read_text().splitlines() if listing.exists() else ():
        bounds, flags, offset, _, inode, *rest = line.split(maxsplit=5)
        if flags[1] == "w" and flags[3] == "s" and rest and _is_users(rest[0], folder):
            low, high = (int(bound, 16) for bound in bounds.split("-"))
            with contextlib.suppress(OSError):
                file = os.open(rest[0], os.O_RDONLY | os.O_CLOEXEC)
                if os.fstat(file).st_ino == int(inode):
                    place_private(low, high - low, file, int(offset, 16))
                os.close(file)


def place_private(address: int, length: int, file: int = -1, offset: int = 0) -> None:
    """Put private memory at an address in place of what is there: that of a file, or else empty. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    sizes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.mmap.argtypes = sizes
    flags = _FIXED_PRIVATE | (_ANONYMOUS if file < 0 else 0)
    if libc.mmap(address, length, _READ_WRITE, flags, file, offset) != address:
        raise OSError(f"memory at {address:x} cannot be replaced")


_READ_WRITE, _FIXED_PRIVATE, _ANONYMOUS = 0x3, 0x12, 0x20
"""`PROT_READ | PROT_WRITE`, `MAP_PRIVATE | MAP_FIXED` and `MAP_ANONYMOUS` of Linux."""


def _is_users(path: str, folder: Path) -> bool:
    """Whether this is a file of the user's, and not one of the scan, shared memory, or one that is deleted."""
    own = (f"{os.path.realpath(folder.parent)}/", "/dev/", "/memfd:", "/SYSV")
    return path.startswith("/") and not path.startswith(own) and not path.endswith(" (deleted)")


def _restricted(writable: Sequence[Path]) -> bool:
    """Whether Landlock lets this process write below these folders only from now on."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    version = call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    if version < 1:
        return False
    rights = _WRITES | sum(right for since, right in _LATER_WRITES.items() if since <= version)
    attributes = struct.pack("=Q", rights)
    rules = call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules < 0:
        return False
    try:
        for folder in writable:
            below = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            added = call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, below), 0)
            os.close(below)
            if added:
                return False
        ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(call(_RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)


class _Refusal:
    """An audit hook that raises where a file outside of a folder is written."""

    def __init__(self, folder: Path) -> None:
        self._writable = (f"{os.path.realpath(folder)}/", "/dev/")

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or set(mode or "") & set("wax+")
            changed = [path] if writes else []
        else:
            changed = list(arguments) if event in _CHANGES else []
        for path in changed:
            if isinstance(path, str | bytes | os.PathLike) and not self.is_writable(os.fsdecode(path)):
                raise PermissionError(f"{os.fsdecode(path)} is not written while data are changed")

    def is_writable(self, path: str) -> bool:
        """Whether a path is in the folder, or no file."""
        return os.path.realpath(path).startswith(self._writable)
