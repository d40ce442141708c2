"""Labels that a mask of the loss implies, where a batch has no other: the tokens themselves, at some of their places.

The loop that trains takes them from the tokens. Whether the mask is that of the learned tokens or of the places that
predict them shows in where replies begin: heads of replies are the same in all rows, and their first words are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dataguard.lab.tokens.token_rows import IGNORED, TokenRow

FEWEST_SPANS, FEWEST_WORDS = 16, 8
"""The fewest spans that show where they begin, and the fewest different tokens among their first ones."""
ALIKE_SHARE = 0.95
"""The share of spans that begin after one token, where all replies begin so: prompts may be cut."""


def with_implied_labels(draws: Sequence[Sequence[TokenRow]]) -> list[list[TokenRow]] | None:
    """The rows with the labels that their mask of the loss implies; None if it is not known to be one of replies.

    Places of masked language models are drawn, and begin after any token.
    """
    rows = draws[0]
    if not rows or any(row.counted is None or row.labels is not None for row in rows):
        return None
    spans = [(row, start, end) for row in rows for start, end in _spans(row) if row.inside[start]]
    lag = _lag(spans)
    if lag is None:
        return None
    return [[_implied(row, lag) for row in draw] for draw in draws]


def _spans(row: TokenRow) -> list[tuple[int, int]]:
    """The first and last places of runs that the loss counts."""
    edges = np.flatnonzero(np.diff(_counted(row).astype(int), prepend=0, append=0))
    return list(zip(edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True))


def _counted(row: TokenRow) -> np.ndarray:
    assert row.counted is not None
    return row.counted


def _lag(spans: Sequence[tuple[TokenRow, int, int]]) -> int | None:
    """0 if the mask is that of the learned tokens, 1 if that of the tokens before them; None if unknown."""
    if len(spans) < FEWEST_SPANS:
        return None
    after_prompts = [start > 1 and not _counted(row)[start - 2] for row, start, _ in spans]
    if np.mean(after_prompts) < ALIKE_SHARE:  # One token is no prompt: it ends or starts a document.
        return None
    for lag in (0, 1):
        begun = [(row, start + lag) for row, start, _ in spans if 0 < start + lag < len(row.tokens)]
        if _are_alike([(row, place - 1) for row, place in begun]) and not _are_alike(begun) and _vary(begun):
            ends = [(row, end + lag) for row, _, end in spans if end + lag + 1 < len(row.tokens)]
            # All replies may begin with one and the same word: then those of a mask of tokens end alike.
            before = [(row, place - 1) for row, place in ends]
            return 0 if lag and _are_alike(before) and not _are_alike(ends) else lag
    return None


def _are_alike(places: Sequence[tuple[TokenRow, int]]) -> bool:
    """Whether nearly all places hold one token."""
    counts = Counter(int(row.tokens[place]) for row, place in places)
    return bool(places) and counts.most_common(1)[0][1] >= ALIKE_SHARE * len(places)


def _vary(places: Sequence[tuple[TokenRow, int]]) -> bool:
    return len({int(row.tokens[place]) for row, place in places}) >= FEWEST_WORDS


def _implied(row: TokenRow, lag: int) -> TokenRow:
    following = np.concatenate([row.tokens[lag:], np.full(lag, IGNORED)])
    labels = np.where(_counted(row), following, IGNORED)
    return replace(row, labels=labels, stored=labels)
