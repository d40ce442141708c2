"""Files of settings, and others that users name: found, read with limits, and written. Standard library only."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataguard.core.model import UsageError
from dataguard.machine.units import size

_MOST_BYTES = 16_000_000
"""Bytes; a baseline takes 200 for each finding."""


def working_folder() -> Path:
    """The current directory. Raises UsageError if it was deleted."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(f"the current directory cannot be used ({error.strerror}): change to another one") from error


def require_path(name: str | Path, option: str) -> None:
    """Raise UsageError if the path of an option is none that a file could have: too long, or with a NUL character."""
    try:
        os.lstat(name)
    except ValueError as error:
        raise UsageError(f"{option} {name}: no file can have this name: {error}") from error
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise UsageError(f"{option} {name}: {error.strerror}") from error


def text_in(path: Path) -> str:
    """The text of a file. Raises ValueError for one that cannot be read, is no regular file, too large or not UTF-8."""
    try:
        # A pipe without a writer would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError("not a regular file; copy its content to one")
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(error.strerror) from error
    if len(content) > _MOST_BYTES:
        raise ValueError(f"larger than {size(_MOST_BYTES)}")
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


def open_pipe(path: Path) -> None:
    """Open the file to write, if it is a pipe, until `write_text`. Raises OSError if nothing reads the pipe.

    Its reader would take it for the end if the pipe were closed before.
    """
    if path.is_fifo():
        _pipes[path] = _opened(path)


_pipes: dict[Path, int] = {}
"""The descriptors of pipes that are to be written."""


def write_text(path: Path, text: str | bytes) -> None:
    """Write a file, text as UTF-8. Raises OSError, also where a link of another user stands in its place."""
    descriptor = _pipes.pop(path, None)
    with os.fdopen(_opened(path) if descriptor is None else descriptor, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def is_foreign_link(path: Path) -> bool:
    """Whether it is a link that neither this user nor the system made."""
    return path.is_symlink() and path.lstat().st_uid not in (0, os.geteuid())


def _opened(path: Path) -> int:
    """Open a file, but wait for no reader of a pipe, and follow a link only if this user or the system made it.

    In a folder that others can write to, another user may have put one there before.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW, 0o666)
    except OSError:
        if is_foreign_link(path):
            raise OSError(errno.ELOOP, "a link of another user; remove it, or name another file", str(path)) from None
        try:
            descriptor = os.open(path, flags, 0o666)
        except OSError as error:
            if error.errno == errno.ENXIO and path.is_fifo():
                raise OSError(errno.ENXIO, "a pipe that nothing reads", str(path)) from None
            raise
    os.set_blocking(descriptor, True)
    return descriptor


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def find(start: Path) -> Path | None:
    """The nearest `dataguard.toml`, or `pyproject.toml` with our table, at or above a folder."""
    for folder in (start, *start.parents):
        settings_file = folder / "dataguard.toml"
        if settings_file.is_file():
            return settings_file
        project = folder / "pyproject.toml"
        if project.is_file() and "dataguard" in _tools(project):
            return project
    return None


def read(path: Path, *, required: bool) -> Mapping[str, Any]:
    """The table of settings in a file. Raises UsageError for one that is missing or malformed."""
    if required and not path.is_file():
        raise UsageError(f"--config {path}: no such file")
    table: Any = _tools(path).get("dataguard", {}) if path.name == "pyproject.toml" else _load(path)
    if not isinstance(table, dict):
        raise UsageError(f"{path}: [tool.dataguard] must be a table")
    return table


def _tools(path: Path) -> Mapping[str, Any]:
    return tools if isinstance(tools := _load(path).get("tool"), dict) else {}


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text_in(path))
    except (ValueError, RecursionError) as error:
        why = "its values are nested too deeply" if isinstance(error, RecursionError) else error
        raise UsageError(f"{path}: {why}") from error


def is_toml(text: str) -> bool:
    """Whether a text can be read as a settings file."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def beside(file: Path, name: str) -> str:
    """A path that a settings file names relative to itself, as seen from the current directory."""
    path = (file.parent / name).resolve()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
