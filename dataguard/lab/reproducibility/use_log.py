"""Which functions the user's code uses first where, in all processes of an observation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from dataguard.lab.core.source_location import Place, caller

_FILE = "used"


class UseLog:
    """A file to which every process appends the first use of each function."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._seen: set[str] = set()

    def note(self, name: str) -> bool:
        """Log a call of a function; returns whether the user's code made it."""
        place = caller()
        if place and name not in self._seen:
            self._seen.add(name)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([name, place]) + "\n")
        return place is not None


def used_in(folder: Path) -> Mapping[str, Place]:
    """Where each function was used first, by its name."""
    path = folder / _FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    found: dict[str, Place] = {}
    for name, (file, line, function) in map(json.loads, lines):
        found.setdefault(name, (file, line, function))
    return found
