"""A few tokens of a row as readers see them: in columns, with mask, label and position below."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from dataguard.lab.tokens.token_rows import TokenRow

COLUMNS = 7
"""How many tokens are shown."""
_WIDTH = 10
"""The most characters of a token that are shown."""

Word = Callable[[int], str] | None


def excerpt(row: TokenRow, marked: Collection[int], word: Word) -> str:
    """The tokens around the first marked ones, as lines of columns; those that are marked are underlined."""
    first = min(marked, default=0)
    start = max(0, min(first - COLUMNS // 2, len(row.tokens) - COLUMNS))
    places = range(start, min(start + COLUMNS, len(row.tokens)))
    lines: list[tuple[str, list[str]]] = [("column", [str(place) for place in places])]
    lines.append(("token", [_shown(int(row.tokens[place]), word) for place in places]))
    if word is not None:
        lines.append(("id", [str(int(row.tokens[place])) for place in places]))
    if row.masked:
        lines.append(("mask", [str(int(row.inside[place])) for place in places]))
    if row.positions is not None:
        lines.append(("position", [str(int(row.positions[place])) for place in places]))
    if row.stored is not None and row.stored.shape == row.tokens.shape:
        kept = row.labels if row.labels is not None else row.stored
        lines.append(("label", [_label(int(row.stored[place]), int(kept[place]), word) for place in places]))
    cells = [cells for _, cells in lines]
    widths = [max(len(column[number]) for column in cells) for number in range(len(places))]
    lines.append(("here", ["^" * width * (place in marked) for place, width in zip(places, widths, strict=True)]))
    return "\n".join(
        f"{name:<8}  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(values, widths, strict=True)).rstrip()
        for name, values in lines
    )


def labels_excerpt(labels: np.ndarray, word: Word) -> str:
    """The end of a row of labels that has other places than the tokens."""
    start = max(0, len(labels) - COLUMNS)
    return "label  " + "  ".join(_shown(int(label), word) for label in labels[start:])


def named(token: int, word: Word) -> str:
    """A token in a sentence: its text, if that is known, and its id."""
    return str(token) if word is None else f"{_shown(token, word)} ({token})"


def _label(stored: int, kept: int, word: Word) -> str:
    return str(stored) if stored < 0 else f"({_shown(stored, word)})" if kept < 0 else _shown(stored, word)


def _shown(number: int, word: Word) -> str:
    text = str(number) if word is None or number < 0 else word(number)
    text = text.replace("\n", "\\n").replace("\t", "\\t").replace(" ", "·")
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
