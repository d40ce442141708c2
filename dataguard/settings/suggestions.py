"""Suggestions for misspelled names. Standard library only."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LETTERS_AS_DIGITS = str.maketrans("oil", "011")
"""Letters that are typed in place of the digits of a code."""


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
