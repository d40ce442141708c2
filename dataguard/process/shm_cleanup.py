"""Remove what stopped processes leave in /dev/shm, and nothing else. Standard library only.

Shared memory outlives its creator when that dies at the wrong moment, or when the user's code opts out of Python's
resource tracker. torch puts the PID into the name, but that proves nothing: containers that share /dev/shm number their
processes independently. So a tensor is removed only if its name did not exist before, and one of our processes had it
open or mapped when it was stopped, or reported that it had made it. An audit hook records what Python code creates.
Everything else is left alone: it may belong to a training job on the same machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

SHARED_MEMORY = Path("/dev/shm")
LEFT = "left_shared_memory"
"""File in the session folder: the names of tensors that may be ours, one a line."""
_MOST_SEARCHED = 1 << 26
"""Bytes of a file of an observation that are searched for names; what its processes print is kept shorter."""


def names() -> frozenset[str]:
    """The names of all entries in /dev/shm; empty if it does not exist."""
    with contextlib.suppress(OSError):
        return frozenset(path.name for path in SHARED_MEMORY.iterdir())
    return frozenset()


class SharedTensors:
    """The shared tensors of processes that start from now on."""

    def __init__(self) -> None:
        self.before = names()
        """What existed when these processes were started."""
        self._held: set[str] = set()

    def note_held(self, stopped: Collection[int]) -> None:
        """Note which shared tensors these stopped processes have open or mapped, before they are killed."""
        if self._new(stopped):  # reading the maps of a process takes milliseconds
            for process in stopped:
                self._held |= set(_held_by(process))

    def remove(self, ended: Collection[int], records: Path, session: Path) -> None:
        """Remove the tensors of ended processes, given by PID, whose `records` are files in a folder.

        Tensors that may be theirs or another container's are listed in the session folder, see `LEFT`.
        """
        created = self._new(ended)
        proven = created & self._held
        if created - proven:  # torch names the file that it could not make large enough, and leaves it
            proven |= _mentioned(created - proven, records)
        _remove(proven)
        for name in created - proven:
            _append(str(session / LEFT), name)

    def _new(self, processes: Collection[int]) -> frozenset[str]:
        """What has come up since, with one of these PIDs in its name."""
        prefixes = tuple(f"torch_{process}_" for process in processes)
        return frozenset(name for name in names() - self.before if name.startswith(prefixes))


def left_in(folder: Path) -> list[str]:
    """The names listed in `LEFT` that still exist."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(names() & set((folder / LEFT).read_text(encoding="utf-8").splitlines()))
    return []


def remove_created(log: Path, before: Collection[str]) -> None:
    """Remove the entries listed in the log of `log_creations` that did not exist `before`."""
    with contextlib.suppress(FileNotFoundError):
        created = frozenset(log.read_text(encoding="utf-8", errors="replace").splitlines())
        _remove(names() & created - frozenset(before))


def log_creations(log: Path) -> None:
    """Log the names that Python code of this process and its forks creates in /dev/shm to the file `log`."""
    log_path = str(log)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        path = arguments[0] if arguments else None
        if event == "os.mkdir" or (event == "open" and arguments[2] & os.O_CREAT and path != log_path):
            name = _shared_name(path)
            created = bool(name) and not (SHARED_MEMORY / name).exists()
        elif event == "os.truncate" and isinstance(path, int):  # SharedMemory(create=True) after shm_open
            name = _shared_name(_opened(path))
            created = bool(name) and not os.fstat(path).st_size
        else:
            return
        if created:
            _append(log_path, name)

    sys.addaudithook(hook)


def _held_by(process: int) -> Iterator[str]:
    """The entries of /dev/shm that a process has open or mapped (Linux)."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/maps").read_bytes().splitlines():
            yield _shared_name(line.split(b" ", 5)[-1].strip())
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            yield _shared_name(_link(descriptor))


def _mentioned(wanted: Iterable[str], records: Path) -> frozenset[str]:
    """The names that occur in the files of a folder."""
    texts = []
    for file in records.iterdir():
        with contextlib.suppress(OSError), file.open("rb") as opened:
            texts.append(opened.read(_MOST_SEARCHED))
    return frozenset(name for name in wanted if any(name.encode() in text for text in texts))


def _remove(doomed: Iterable[str]) -> None:
    for name in doomed:
        path = SHARED_MEMORY / name
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def _opened(descriptor: int) -> str:
    return _link(Path(f"/proc/self/fd/{descriptor}"))


def _link(path: Path) -> str:
    with contextlib.suppress(OSError):
        return str(path.readlink())
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
