"""The files that hold settings: where they are, and what is in them. Standard library only."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataguard.model import UsageError
from dataguard.settings.user_files import text_in

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def find(start: Path) -> Path | None:
    """The nearest `dataguard.toml`, or `pyproject.toml` with our table, at or above a folder."""
    for folder in (start, *start.parents):
        own = folder / "dataguard.toml"
        if own.is_file():
            return own
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
