"""The answer of a fork: in memory that it shares with its parent, or, if long, a file in the folder of its observation.

Not a pipe: user code may close every descriptor, or leave a process behind that holds them. And no file if it can be
helped: user code may fill the disk, or take from its process the right or the path to write there. What it took
is found out, so that an answer that cannot be written has a reason.
"""

from __future__ import annotations

import mmap
import resource
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from xxhash import xxh3_64_intdigest

from dataguard.core.model import DataguardError, Undecided, prevented
from dataguard.process.originals import os, pickle

RETURNED, FAILED, BUG, STAYS = "returned", "failed", "bug", "stays"
UNWRITTEN = 74
"""The exit code of a fork that could not write its answer: EX_IOERR."""


class ObservationBug(DataguardError):
    """dataguard's own code raised inside an observation; the message is the traceback."""


def expect_answer(folder: Path) -> Slot | None:
    """Forget the answer of an earlier fork with this folder, and make room for the next; None if there is no memory."""
    (folder / _ANSWER).unlink(missing_ok=True)
    try:
        return Slot(folder)
    except OSError:  # the user's code may limit it
        return None


def write_answer(answer: tuple[str, Any], folder: Path) -> None:
    """Write the answer, whatever the user's code has done to this process; ends it if the answer cannot be written."""
    content, slot = pickle.dumps(answer), _slots.get(folder)
    if slot and slot.write(content):
        return
    try:
        _write(content, folder)
    except OSError:
        os.closerange(3, _DESCRIPTORS)  # it may hold all that there are
        try:
            _write(content, folder)
        except OSError:  # it has filled the disk, or removed the folder
            os._exit(UNWRITTEN)


def _write(content: bytes, folder: Path) -> None:
    unfinished = folder / f"{_ANSWER}.part"
    unfinished.write_bytes(content)
    # The user's code may replace the function that pathlib calls.
    os.rename(unfinished, folder / _ANSWER)


def has_answered(folder: Path) -> bool:
    """Whether the fork with this folder has answered."""
    return _content(folder) is not None


def kind_in(folder: Path) -> str:
    """The kind of the answer in a folder."""
    kind: str = pickle.loads(_content(folder) or b"")[0]
    return kind


def answer_in(folder: Path) -> Any:
    """What the function in a fork returned; raises what it raised."""
    kind, value = pickle.loads(_content(folder) or b"")
    if kind == RETURNED:
        return value
    if kind == FAILED:
        raise value
    raise ObservationBug(value)


def _content(folder: Path) -> bytes | None:
    slot = _slots.get(folder)
    content = slot.read() if slot else None
    if content is not None:
        return content
    file = folder / _ANSWER
    return file.read_bytes() if file.exists() else None


class Slot:
    """Memory for the answer of a fork with this folder, as long as the object is kept in this process and the fork."""

    def __init__(self, folder: Path) -> None:
        self._memory = mmap.mmap(-1, _LONGEST)
        _slots[folder] = self

    def write(self, content: bytes) -> bool:
        """Write the answer; False if it is too long."""
        end = _HEAD.size + len(content)
        if end > _LONGEST:
            return False
        self._memory[_HEAD.size : end] = content
        self._memory[: _HEAD.size] = _HEAD.pack(len(content), xxh3_64_intdigest(content))
        return True

    def read(self) -> bytes | None:
        """The answer, if there is one."""
        length, checksum = _HEAD.unpack_from(self._memory)
        content = self._memory[_HEAD.size : _HEAD.size + length] if length else b""
        return content if content and xxh3_64_intdigest(content) == checksum else None


_slots: WeakValueDictionary[Path, Slot] = WeakValueDictionary()
_ANSWER = "answer"
_HEAD = struct.Struct("<QQ")
"""The length of an answer and its checksum: until that is right, it is being written."""
_LONGEST = 1 << 22
"""Bytes of memory for an answer, 4 MiB: longer ones take the way by a file. Only pages that are written are taken."""
_DESCRIPTORS = 1 << 16
"""Descriptors below this are closed to make room; the usual hard limits of a process are lower, or as high."""


def note_surroundings() -> None:
    """Note what they are, before the user's code is called."""
    _before.update(_now())


def changed_surroundings() -> str | None:
    """What the user's code has changed since, if anything."""
    changes: Iterator[str] = (name for name, value in _now().items() if _before.get(name, value) != value)
    return ", ".join(changes) or None


def why_unwritten(what: str, error: BaseException) -> Undecided:
    """What is raised where observing failed at a file, with the reason."""
    why = str(getattr(error, "strerror", None) or type(error).__name__)
    change = changed_surroundings()
    return prevented(f"{what}: " + (f"the user's code changes {change} ({why})" if change else why))


_before: dict[str, object] = {}


def _now() -> dict[str, object]:
    root, masked = os.stat("/"), os.umask(0o77)  # for a moment, as nothing else tells it
    os.umask(masked)
    return {
        "the root folder, with os.chroot": (root.st_dev, root.st_ino),
        "the user, with os.setuid or os.seteuid": os.geteuid(),
        "the rights of new files, with os.umask": os.geteuid() != 0 and masked & 0o700,
        "the limit of file sizes, RLIMIT_FSIZE": resource.getrlimit(resource.RLIMIT_FSIZE),
    }
