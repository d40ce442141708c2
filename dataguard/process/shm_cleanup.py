"""Remove what stopped processes leave in /dev/shm, and nothing else. Standard library only.

Shared memory outlives its creator when that dies at the wrong moment, or when the user's code opts out of Python's
resource tracker. torch puts the PID into the name; an audit hook records what Python code creates. Everything else is
left alone: it may belong to a training job on the same machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

SHARED_MEMORY = Path("/dev/shm")


def names() -> frozenset[str]:
    """The names of all entries in /dev/shm; empty if it does not exist."""
    with contextlib.suppress(OSError):
        return frozenset(path.name for path in SHARED_MEMORY.iterdir())
    return frozenset()


def remove_tensors(processes: Collection[int]) -> None:
    """Remove the shared tensors of ended processes, given by PID."""
    if processes:
        _remove(name for name in names() if name.startswith(tuple(f"torch_{number}_" for number in processes)))


def remove_created(log: Path, before: Collection[str]) -> None:
    """Remove the entries listed in the log of `log_creations` that did not exist `before`."""
    with contextlib.suppress(FileNotFoundError):
        created = frozenset(log.read_text(encoding="utf-8", errors="replace").splitlines())
        _remove(names() & created - frozenset(before))


def _remove(doomed: Any) -> None:
    for name in doomed:
        path = SHARED_MEMORY / name
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def log_creations(log: Path) -> None:
    """Log the names that Python code of this process and its forks creates in /dev/shm to the file `log`."""
    own = str(log)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.mkdir" or (event == "open" and arguments[2] & os.O_CREAT and arguments[0] != own):
            path = arguments[0]
        elif event == "os.truncate" and isinstance(arguments[0], int):  # SharedMemory(create=True) after shm_open
            path = _opened(arguments[0])
        else:
            return
        if name := _shared_name(path):
            _append(own, name)

    sys.addaudithook(hook)


def _opened(descriptor: int) -> str:
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    return ""


def _shared_name(path: Any) -> str:
    """The entry of /dev/shm that a path belongs to; empty for other paths."""
    start = f"{SHARED_MEMORY}/"
    try:
        text = os.fsdecode(path)
    except TypeError:  # a descriptor
        return ""
    return text[len(start) :].partition("/")[0] if text.startswith(start) else ""


def _append(log: str, name: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, os.fsencode(f"{name}\n"))
        os.close(descriptor)
