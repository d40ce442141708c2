"""Threads that libraries start in native code, in a process that forks workers; Linux only.

A fork has only the thread that forked. A lock that another one held stays held there, and a pool has no threads left:
a worker that uses the library waits forever. Python knows nothing of these threads, so each is named after the library
whose code is on its stack.
"""

from __future__ import annotations

import json
import platform
import re
import threading
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import torch

from dataguard.process.originals import os

FILE = "native_threads"
"""What the file is called that names the threads of a process, in the folder of its observation."""
_INNERMOST = 1 << 13
"""Bytes of a stack that are searched, from its innermost frame: more holds addresses of earlier calls."""
_PACKAGE = re.compile(r"/(?:site|dist)-packages/([^/]+?)(?:\.[^/]*)?(?:/|$)")
"""The folder or module of an installed package that holds a library."""
_LONGEST = 7
"""Bytes of the longest call."""
_OWN = _PACKAGE.search(torch.__file__)
"""torch's own pools start again in forks, or are not used there: its workers compute with one thread."""

_noting: list[tuple[int, Path]] = []
_noted: list[frozenset[int]] = [frozenset()]


def note_threads(folder: Path) -> None:
    """Write into the folder which libraries have threads in this process, whenever it has forked.

    Those that libraries end before a fork, as OpenBLAS does, are gone by then.
    """
    if not _noting:
        os.register_at_fork(after_in_parent=_note)
    _noting[:] = [(os.getpid(), folder)]


def _note() -> None:
    pid, folder = _noting[0]
    if os.getpid() != pid:
        return
    with suppress(OSError, ValueError):
        threads = frozenset(map(int, os.listdir("/proc/self/task")))
        threads -= {pid, *(thread.native_id or 0 for thread in threading.enumerate())}  # a fork has its parent's number
        if threads == _noted[0]:
            return
        _noted[0] = threads
        found = Counter(name for thread in threads for name in _libraries(pid, thread)[:1])
        (folder / FILE).write_text(json.dumps(found), encoding="utf-8")


def threads_of_stuck(worker: int, main: int, folder: Path) -> str:
    """The libraries that a worker waits in, and that had threads where it was forked; empty if none had, or it is none.

    What is forked has the command line of the main process.
    """
    try:
        if Path(f"/proc/{worker}/cmdline").read_bytes() != Path(f"/proc/{main}/cmdline").read_bytes():
            return ""
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        waits_in = {*_libraries(worker, worker)}
    except (OSError, ValueError):
        return ""
    return ", ".join(f"{count} of {name}" for name, count in sorted(found.items()) if name in waits_in)


def _libraries(pid: int, thread: int) -> list[str]:
    """The installed packages whose native code is on the stack of a waiting thread, the innermost first."""
    waits = Path(f"/proc/{pid}/task/{thread}/syscall").read_text(encoding="utf-8").split()
    if len(waits) < 3:  # it runs
        return []
    mapped = list(_mapped(pid))
    starts = [start for start, _, _ in mapped]
    names = []
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        words = array("Q", os.pread(memory, _INNERMOST, int(waits[-2], 16)))
        for address in words:
            start, end, file = mapped[max(bisect_right(starts, address) - 1, 0)]
            package = _PACKAGE.search(file)
            if start + _LONGEST <= address < end and package and package[1] != (_OWN and _OWN[1]):
                names += [package[1].lstrip("_")] * _is_call(os.pread(memory, _LONGEST, address - _LONGEST))
    finally:
        os.close(memory)
    return list(dict.fromkeys(names))


def _is_call(code: bytes) -> bool:
    """Whether code ends with a call, after which a return address points: others are of functions, in variables."""
    if platform.machine() == "aarch64":
        word = int.from_bytes(code[-4:], "little")
        return word >> 26 == 0x25 or word & 0xFFFFFC1F == 0xD63F0000  # BL, BLR
    indirect = any(code[-length] == 0xFF and code[-length + 1] >> 3 & 7 == 2 for length in (2, 3, 4, 6, 7))
    return platform.machine() == "x86_64" and (code[-5] == 0xE8 or indirect)  # CALL


def _mapped(pid: int) -> Iterator[tuple[int, int, str]]:
    """The code in the memory of a process: its first address, the one after the last, and the file."""
    for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        addresses, permissions, *_, file = line.split(maxsplit=5)
        if "x" in permissions:
            start, end = (int(address, 16) for address in addresses.split("-"))
            yield start, end, file
