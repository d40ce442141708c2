"""What to offer for a word that is none of the known ones. Standard library only."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(word: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """The end of an error message: the known word closest to a misspelled one, in whatever case.

    Where none is close it is `otherwise`, or a list of all known words.
    """
    options = list(known)
    spelled = {option.lower(): option for option in reversed(options)}
    close = difflib.get_close_matches(word.lower(), spelled, n=1)
    if close:
        return f"; did you mean {spelled[close[0]]!r}?"
    return f"; known: {', '.join(options)}" if otherwise is None else otherwise
