"""What masked language models restore: the token that masks others, and what it hides.

Batches hold the tokens as the model sees them, some replaced by one id, and labels that are the tokens as they were: of
all places, of masked places, or beside a mask for the loss. Nothing is learned where the labels are taken after tokens
were masked; and little where padding is masked, or tokens that begin or end every row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dataguard.lab.tokens.token_facts import FEWEST_DISTINCT, Spot, padding_of, padding_run, run_of, spot_in
from dataguard.lab.tokens.token_roles import FEWEST_COMPARED, MASKED_SHARE
from dataguard.lab.tokens.token_rows import IGNORED, TokenRow, Vocabulary, Word, excerpt, named

ENDS_SHARE = 0.9
"""The share of rows that a special token begins or ends, of which it says nothing then: cut rows lack their end."""
DIFFUSED_SHARE = 0.6
"""The share of masked tokens in a row that no masked language model hides, but diffusion does, ends and padding
included: recipes for the former mask 0.15 to 0.4."""
FEWEST_DIFFUSED = 0.1
"""The share of rows with so many masked tokens from which on they are no short rows by chance."""


@dataclass(frozen=True, slots=True)
class Masking:
    """Rows of which the `token` (called `name`) hides some tokens: `masked` places in all.

    `unrestored` counts masked places whose label is the mask itself. `ends` and `padding` count masked places of tokens
    that begin or end rows, and of padding that the model sees or learns. `fixed`: every row that was read twice was
    masked in the same places.
    """

    token: int
    name: str
    masked: int
    unrestored: int = 0
    ends: int = 0
    padding: int = 0
    fixed: bool = False
    shown: str | None = None
    spot: Spot | None = None


def masking(draws: Sequence[Sequence[TokenRow]], vocabulary: Vocabulary, word: Word) -> Masking | None:
    """How tokens are masked in several draws of the same rows; None if none are restored, or known to be masked."""
    rows = [row for row in draws[0] if row.labels is not None and row.labels.shape == row.tokens.shape]
    if not rows:
        return None
    token = _restored_from(rows)
    if token is None:
        return _unrestored(draws, rows, vocabulary, word)
    places = [row.tokens == token for row in rows]
    masked = sum(int(where.sum()) for where in places)
    shares = np.array([where[row.inside].mean() for row, where in zip(rows, places, strict=True) if row.inside.any()])
    if (shares >= DIFFUSED_SHARE).mean() >= FEWEST_DIFFUSED:
        return Masking(token, named(token, word), masked)
    restored = [_restored(row) for row in rows]
    ends = _ends(rows, restored, vocabulary)
    hidden = [np.flatnonzero(where & np.isin(whole, ends)) for where, whole in zip(places, restored, strict=True)]
    fills = list(_padding(rows, restored, vocabulary.pad))
    filled = [np.flatnonzero(where & fill) for where, fill in zip(places, fills, strict=True)]
    first = next(
        (pair for columns in (hidden, filled) for pair in zip(rows, columns, strict=True) if len(pair[1])), None
    )
    return Masking(
        token,
        named(token, word),
        masked,
        ends=sum(map(len, hidden)),
        padding=sum(map(len, filled)),
        fixed=_are_fixed(draws),
        shown=excerpt(first[0], first[1].tolist(), word) if first else None,
        spot=spot_in("tokens", *first) if first else None,
    )


def _labels(row: TokenRow) -> np.ndarray:
    assert row.labels is not None
    return row.labels


def _restored(row: TokenRow) -> np.ndarray:
    """The tokens of a row before some were masked, where labels say so."""
    labels = _labels(row)
    return np.where(labels != IGNORED, labels, row.tokens)


def _restored_from(rows: Sequence[TokenRow]) -> int | None:
    """The id that stands for most tokens that labels restore; None if labels are other than the tokens elsewhere."""
    changed = [(_labels(row) != IGNORED) & (_labels(row) != row.tokens) for row in rows]
    seen = np.concatenate([row.tokens[where] for row, where in zip(rows, changed, strict=True)])
    labels = np.concatenate([_labels(row)[where] for row, where in zip(rows, changed, strict=True)])
    if len(seen) < FEWEST_COMPARED or len(np.unique(labels)) < FEWEST_DISTINCT:
        return None
    token, count = Counter(seen.tolist()).most_common(1)[0]
    return token if count >= MASKED_SHARE * len(seen) and token not in labels else None


def _are_fixed(draws: Sequence[Sequence[TokenRow]]) -> bool:
    """Whether rows that are equal but for what is masked are masked in the same places in all draws."""
    drawn: dict[bytes, set[bytes]] = {}
    times: Counter[bytes] = Counter()
    for rows in draws:
        for row in rows:
            if row.labels is not None and row.labels.shape == row.tokens.shape:
                whole = _restored(row).tobytes()
                drawn.setdefault(whole, set()).add(row.tokens.tobytes())
                times[whole] += 1
    again = [seen for whole, seen in drawn.items() if times[whole] > 1]
    return 2 * len(again) > len(drawn) and all(len(seen) == 1 for seen in again)


def _ends(rows: Sequence[TokenRow], restored: Sequence[np.ndarray], vocabulary: Vocabulary) -> list[int]:
    """The special tokens that begin or end nearly all rows. Without a tokenizer these may be words, and are unknown."""
    special = {vocabulary.bos, vocabulary.eos, *vocabulary.special} - {None, vocabulary.pad}
    texts = [whole[row.inside & (whole != vocabulary.pad)] for row, whole in zip(rows, restored, strict=True)]
    edges = [[int(text[place]) for text in texts if len(text)] for place in (0, -1)]
    most = [Counter(edge).most_common(1)[0] for edge in edges if edge]
    return [token for token, count in most if count >= ENDS_SHARE * len(rows) and token in special]


def _padding(rows: Sequence[TokenRow], restored: Sequence[np.ndarray], pad: int | None) -> Iterator[np.ndarray]:
    """Where rows are padded, as far as the model sees it or learns its labels."""
    wholes = [
        TokenRow(row.batch, row.row, whole, row.inside, row.masked) for row, whole in zip(rows, restored, strict=True)
    ]
    run = padding_run(wholes, pad)
    for row, whole in zip(rows, wholes, strict=True):
        columns = run_of(whole.tokens, *run) if run else padding_of(whole)
        yield np.isin(np.arange(len(whole.tokens)), columns) & (row.inside | (_labels(row) != IGNORED))


def _unrestored(
    draws: Sequence[Sequence[TokenRow]], rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word
) -> Masking | None:
    """Rows whose labels were taken after tokens were masked, so that those of masked ones are the mask."""
    token = vocabulary.mask if vocabulary.mask is not None else _drawn(draws)
    if token is None:
        return None
    places = [np.flatnonzero((row.tokens == token) & (_labels(row) == token)) for row in rows]
    masked, same = sum(int((row.tokens == token).sum()) for row in rows), sum(map(len, places))
    counted = sum(int((_labels(row) != IGNORED).sum()) for row in rows)
    is_known = token == vocabulary.mask
    if same < max(FEWEST_COMPARED, MASKED_SHARE * masked) or not (is_known or same >= MASKED_SHARE * counted):
        return None
    row, columns = next((row, columns) for row, columns in zip(rows, places, strict=True) if len(columns))
    shown = excerpt(row, columns.tolist(), word)
    return Masking(token, named(token, word), masked, same, shown=shown, spot=spot_in("labels", row, columns))


def _drawn(draws: Sequence[Sequence[TokenRow]]) -> int | None:
    """The id that one of two draws of a row has in most places where they differ, in less than half of the row."""
    differing: list[np.ndarray] = []
    for first, second in zip(draws[0], draws[-1], strict=False):
        if first.tokens.shape == second.tokens.shape:
            where = first.tokens != second.tokens
            differing += [np.stack([first.tokens[where], second.tokens[where]])] if 2 * where.sum() < len(where) else []
    pairs = np.concatenate(differing, axis=1) if differing else np.zeros((2, 0), np.int64)
    if pairs.shape[1] < FEWEST_COMPARED:
        return None
    token, count = Counter(pairs.ravel().tolist()).most_common(1)[0]
    return token if count >= MASKED_SHARE * pairs.shape[1] and len(np.unique(pairs)) >= FEWEST_DISTINCT else None
