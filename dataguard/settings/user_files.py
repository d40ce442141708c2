"""Files that users name: read whole, with limits, and written. Standard library only."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

from dataguard.machine.units import size

_LARGEST = 16_000_000
"""Bytes; a baseline takes 200 for each finding."""


def text_in(path: Path) -> str:
    """The text of a file. Raises ValueError for one that cannot be read, is no regular file, too large or not UTF-8."""
    try:
        # A pipe without a writer would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError("not a regular file; copy its content to one")
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise ValueError(error.strerror) from error
    if len(content) > _LARGEST:
        raise ValueError(f"larger than {size(_LARGEST)}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8: save it as UTF-8") from error


def json_in(path: Path) -> Any:
    """The content of a JSON file. Raises ValueError for one that `text_in` refuses, and for invalid JSON."""
    text = text_in(path)
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"not valid JSON: {error}") from error


def write_text(path: Path, text: str | bytes) -> None:
    """Write a file, text as UTF-8. Raises OSError, also where a link of another user stands in its place."""
    with os.fdopen(_opened(path), "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def is_foreign_link(path: Path) -> bool:
    """Whether it is a link that neither this user nor the system made."""
    return path.is_symlink() and path.lstat().st_uid not in (0, os.geteuid())


def _opened(path: Path) -> int:
    """Open a file, but follow a link only if this user or the system made it.

    In a folder that others can write to, another user may have put one there before.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with contextlib.suppress(OSError):
        return os.open(path, flags | os.O_NOFOLLOW, 0o666)
    if is_foreign_link(path):
        raise OSError(errno.ELOOP, "a link of another user; remove it, or name another file", str(path))
    return os.open(path, flags, 0o666)
