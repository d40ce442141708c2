"""Pairs of answers, of which one is preferred: whether they differ, and whether they answer the same prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataguard.lab.tokens.token_facts import Spot, run_of, spot_in
from dataguard.lab.tokens.token_roles import PREFERENCE, Leaves, has_rows, other_side
from dataguard.lab.tokens.token_rows import IGNORED, TokenRow, Word, excerpt, rows_of

SHARED_TOKENS = 3
"""So many tokens beyond those that all rows begin with make a common prompt: answers share fewer by chance."""
FEWEST_PAIRS = 8
"""Pairs that show whether two documents have a prompt in common."""
BOUNDARY = 2
"""The end of a prompt may be tokenized with the answer: so many of its tokens may differ."""
SIDES = "sides"
"""The pairs that names or the shape of a leaf show."""
MOST_PAIRS = 0.75
"""The least share of rows that must begin alike to be pairs without names, and of those that must not end alike: views
of one text do both."""
Pair = tuple[TokenRow, TokenRow]


@dataclass(frozen=True, slots=True)
class AnswerPairs:
    """How many pairs were compared, and how many of them are wrong.

    They are `equal`, have prompts that differ (`apart`), or are the `reverse` of another pair. The place is that of the
    first one.
    """

    pairs: int
    equal: int
    apart: int
    reverse: int
    place: tuple[int, int] | None = None
    shown: tuple[str, str] | None = None
    spot: Spot | None = None


def pairs_in(
    leaves: Leaves,
    number: int,
    contract: Mapping[str, Any],
    roles: Mapping[str, str],
    rows: Sequence[TokenRow],
    samples: int | None,
) -> dict[str, list[Pair]]:
    """The pairs of a batch of so many samples, by what shows that they are some.

    `SIDES` are those of a leaf that has two rows for each sample, or of two leaves whose names are sides. Else all ways
    are tried in which rows may belong together: the halves of a leaf with twice as many rows as samples, every two rows
    of it, or another leaf of integers.
    """
    tokens = leaves.get(roles["tokens"])
    if tokens is not None and tokens.ndim == 3:
        return {SIDES: list(zip(rows[::2], rows[1::2], strict=True))} if tokens.shape[1] == 2 else {}
    second = other_side(list(leaves), roles)
    others = rows_of(leaves, number, contract, second) if second else []
    if len(others) == len(rows):
        return {SIDES: list(zip(rows, others, strict=True))}
    if samples is not None and len(rows) == 2 * samples > 2:
        half = len(rows) // 2
        return {
            "halves": list(zip(rows[:half], rows[half:], strict=True)),
            "every two rows": list(zip(rows[::2], rows[1::2], strict=True)),
        }
    return {
        path: list(zip(rows, others, strict=True))
        for path, array in leaves.items()
        if path not in roles.values() and has_rows(array)
        if len(others := rows_of(leaves, number, contract, {"tokens": path})) == len(rows) > 1
    }


def chosen_pairs(candidates: Mapping[str, Sequence[Pair]], pad: int | None) -> tuple[Sequence[Pair], bool]:
    """The pairs whose names are sides, or else those that begin alike and end differently; and whether names say so."""
    if SIDES in candidates:
        return candidates[SIDES], True
    for pairs in candidates.values():
        texts = [(_content(first, pad), _content(second, pad)) for first, second in pairs]
        texts = [pair for pair in texts if all(map(len, pair))]
        # A prompt beside the whole document is the beginning of it, and differs in no place.
        unlike = [pair for pair in texts if _common(*pair) < min(map(len, pair))]
        nested = len(texts) - len(unlike) - sum(np.array_equal(*pair) for pair in texts)
        reverse = [(first[::-1], second[::-1]) for first, second in unlike]
        are_pairs = 2 * len(unlike) > len(texts) and nested <= (1 - MOST_PAIRS) * len(texts)
        if are_pairs and _share_alike(unlike) >= MOST_PAIRS and _share_alike(reverse) <= 1 - MOST_PAIRS:
            return pairs, False
    return (), False


def answer_pairs(
    candidates: Mapping[str, Sequence[Pair]], tokens: str, lag: int | None, pad: int | None, word: Word
) -> AnswerPairs | None:
    """Compare both answers of each pair; None without pairs.

    Two documents of a sample with other names, as a question and a document or two views of one text, are pairs of
    answers only if most begin alike and then differ. `tokens` is the path of the first side.
    """
    pairs, are_sides = chosen_pairs(candidates, pad)
    if not pairs:
        return None
    texts = [(_content(first, pad), _content(second, pad)) for first, second in pairs]
    kept = [number for number, (first, second) in enumerate(texts) if len(first) and len(second)]
    equal = [number for number in kept if np.array_equal(*texts[number])]
    unlike = [number for number in kept if number not in equal]
    if are_sides and not PREFERENCE.search(tokens) and not _begin_alike([texts[number] for number in unlike]):
        return None
    apart = _apart([pairs[number] for number in unlike], [texts[number] for number in unlike], lag)
    seen = {(texts[number][0].tobytes(), texts[number][1].tobytes()) for number in unlike}
    reverse = [number for number in unlike if (texts[number][1].tobytes(), texts[number][0].tobytes()) in seen]
    bad = [*equal, *(unlike[number] for number in apart), *reverse]
    if not bad:
        return AnswerPairs(len(kept), 0, 0, 0)
    first, second = pairs[bad[0]]
    column = _common(*texts[bad[0]]) if not equal else 0
    spot = spot_in("tokens", first)
    return AnswerPairs(
        len(kept),
        len(equal),
        len(apart),
        len(reverse),
        (first.batch, bad[0]),
        (excerpt(first, [column], word), excerpt(second, [column], word)),
        spot,
    )


def _content(row: TokenRow, pad: int | None) -> np.ndarray:
    """The tokens of a row without its padding: what the mask shows, or else all but a run of the padding id."""
    if row.masked or not len(row.tokens):
        return row.text
    padding = np.zeros(len(row.tokens), bool)
    for at_start in (False, True):
        token = int(row.tokens[0 if at_start else -1]) if pad is None else pad
        run = run_of(row.tokens, token, at_start)
        padding[run] = len(run) > 1 or pad is not None
    return np.asarray(row.tokens[~padding])


def _apart(pairs: Sequence[Pair], texts: Sequence[tuple[np.ndarray, np.ndarray]], lag: int | None) -> list[int]:
    """The pairs whose prompts differ: what has no label before the first label, or else what both begin with."""
    prompts = [(_unlearned(first, lag), _unlearned(second, lag)) for first, second in pairs] if lag in (0, 1) else []
    if prompts and all(first is not None and second is not None for first, second in prompts):
        return [
            number
            for number, (first, second) in enumerate(prompts)
            if first is not None and second is not None and not _same_prompt(first, second)
        ]
    return [number for number, count in enumerate(_shared(texts)) if count <= 0] if _begin_alike(texts) else []


def _shared(texts: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[int]:
    """How many tokens both documents of each pair begin with, beyond those that all documents begin with."""
    head = min(_common(texts[0][0], text) for pair in texts for text in pair)
    return [_common(*pair) - head for pair in texts]


def _begin_alike(texts: Sequence[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Whether most pairs have a prompt in common."""
    return 2 * _share_alike(texts) > 1


def _share_alike(texts: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """The share of pairs that have a prompt in common; 0 of too few pairs."""
    return float(np.mean([count >= SHARED_TOKENS for count in _shared(texts)])) if len(texts) >= FEWEST_PAIRS else 0.0


def _unlearned(row: TokenRow, lag: int) -> np.ndarray | None:
    """The tokens before the first that is learned; None if there are none, or no labels."""
    if row.labels is None or row.labels.shape != row.tokens.shape or bool((row.labels == IGNORED).all()):
        return None
    labelled = np.flatnonzero(row.labels != IGNORED)
    end = labelled[0] + lag
    before = row.tokens[:end][row.inside[:end]]
    return before if len(before) > 1 else None


def _same_prompt(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two prompts are equal up to their last tokens, or one is the end of the other."""
    shorter = min(len(first), len(second)) - BOUNDARY
    return _common(first, second) >= shorter or _common(first[::-1], second[::-1]) >= shorter


def _common(first: np.ndarray, second: np.ndarray) -> int:
    """How many tokens two rows begin with in common."""
    shorter = min(len(first), len(second))
    unlike = np.flatnonzero(first[:shorter] != second[:shorter])
    return int(unlike[0]) if len(unlike) else shorter
