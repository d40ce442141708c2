"""The answer of a fork: a file in the folder of its observation.

Not a pipe: user code may close every descriptor, or leave a process behind that holds them.
"""

from __future__ import annotations

from pathlib import Path
from pickle import dumps, loads
from typing import Any

from dataguard.model import DataguardError
from dataguard.process.originals import os


class Broke(DataguardError):
    """dataguard's own code raised inside an observation; the message is the traceback."""


_ANSWER = "answer"
RETURNED, FAILED, BROKE, STAYS = "returned", "failed", "broke", "stays"
UNWRITTEN = 74
"""The exit code of a fork that could not write its answer: EX_IOERR."""
_DESCRIPTORS = 1 << 16


def has_answered(folder: Path) -> bool:
    """Whether the fork with this folder has answered."""
    return (folder / _ANSWER).exists()


def forget_answer(folder: Path) -> None:
    """Remove the answer of an earlier fork with this folder."""
    (folder / _ANSWER).unlink(missing_ok=True)


def kind_in(folder: Path) -> str:
    """The kind of the answer in a folder."""
    kind: str = loads((folder / _ANSWER).read_bytes())[0]
    return kind


def answer_in(folder: Path) -> Any:
    """What the function in a fork returned; raises what it raised."""
    kind, value = loads((folder / _ANSWER).read_bytes())
    if kind == RETURNED:
        return value
    if kind == FAILED:
        raise value
    raise Broke(value)


def write_answer(answer: tuple[str, Any], folder: Path) -> None:
    """Write the answer, whatever the user's code has done to this process; ends it if the answer cannot be written."""
    content = dumps(answer)
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
    os.rename(unfinished, folder / _ANSWER)
