"""The line that a finding points at, with its neighbours, read from the user's file. Standard library only."""

from __future__ import annotations

import stat
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

from dataguard.core.incident import is_library
from dataguard.core.model import Finding, Result, SourceLines

_MOST_CHARACTERS = 200
"""The characters of a line that are kept."""
_MOST_BYTES = 10_000_000
"""The largest file that is read: source files are far smaller."""


def with_source(result: Result, loaded_at: float) -> Result:
    """The result with the source of each finding, from files that have not changed since the code was loaded."""
    return replace(result, findings=tuple(_quoted(finding, loaded_at) for finding in result.findings))


def _quoted(finding: Finding, loaded_at: float) -> Finding:
    at = finding.at
    source = source_lines(at.file, at.line, loaded_at) if at and at.file and at.line else None
    return replace(finding, source=source) if source else finding


@lru_cache(maxsize=256)
def source_lines(file: str, line: int, loaded_at: float) -> SourceLines | None:
    """A line with the one before and the one after.

    None where the file cannot be read as UTF-8, has no such line, belongs to a library, or was changed after
    `loaded_at`, a time as files have it: then another line may have run.
    """
    if line < 1 or is_library(file):
        return None
    try:
        status = Path(file).stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES or status.st_mtime > loaded_at:
            return None
        first = max(line - 1, 1)
        with Path(file).open(encoding="utf-8-sig") as text:
            lines = [read.rstrip() for read in islice(text, first - 1, line + 1)]
    except (OSError, ValueError):  # among these, a name with a null character, and a file that is not UTF-8
        return None
    if len(lines) <= line - first or not lines[line - first]:
        return None
    return SourceLines(first, tuple(map(_cut, lines)))


def _cut(line: str) -> str:
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"
