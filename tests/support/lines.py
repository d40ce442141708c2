"""Stands in for what follows the user's code line by line, in tests of judges that run none."""

from __future__ import annotations

from typing import Any


class NoLines:
    """Finds no line, whatever is asked for."""

    def __getattr__(self, name: str) -> Any:
        del name
        return lambda *asked: None
