"""What errors say of a wrong value: the value, and a suggestion for a misspelled name. Standard library only."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

_LETTERS_AS_DIGITS = str.maketrans("oil", "011")
"""Letters that are typed in place of the digits of a code."""


def shown(value: Any) -> str:
    """A value for the reader of an error: its repr, cut, as it may be long, or an integer of too many digits."""
    try:
        words = repr(value)
    except ValueError:
        return "an integer of thousands of digits"
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}... ({len(words)} characters)"


_LONGEST = 200


def suggest(word: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """The end of an error message: the known word closest to a misspelled one, ignoring case.

    If none is close, `otherwise`, or the list of all known words.
    """
    options = list(known)
    spelled = {option.lower(): option for option in reversed(options)}
    mistyped = word.lower().translate(_LETTERS_AS_DIGITS)
    close = [mistyped] if mistyped in spelled else difflib.get_close_matches(word.lower(), spelled, n=1)
    if close:
        return f"; did you mean {spelled[close[0]]!r}?"
    return f"; known: {', '.join(options)}" if otherwise is None else otherwise
