"""What rows of tokens hold: labels of padding and stop tokens, empty rows, starts, packs, images, and ids.

Each function judges nothing: it counts in all rows what one check asks for, and shows the first row of its kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dataguard.lab.tokens.token_rows import IGNORED, TokenRow, Vocabulary, Word, excerpt, labels_excerpt, named, only

FEWEST_DISTINCT = 8
"""Labels of fewer values may be classes, among which the padding id is one of them: text of any length has more."""
RESTORED_SHARE = 0.5
"""The least share of tokens that a masked language model sees as they are; labels of all tokens agree with so many.

BERT masks 0.15 of all tokens, and other recipes up to 0.4.
"""


@dataclass(frozen=True, slots=True)
class PaddingLabels:
    """Rows that end in two padding tokens or more, and those of them in which all of that carries a label.

    `token` is the padding; `ignores`: some label is the ignored index; `apart`: labels have a width of their own, as
    those of a decoder.
    """

    rows: int
    labelled: int
    token: int | None
    ignores: bool
    apart: bool = False
    shown: str | None = None


@dataclass(frozen=True, slots=True)
class Stops:
    """How often a token follows a labelled one inside rows, without a label (`hidden`) and with one (`learned`).

    `ended` counts rows that end before the widest one does, where no label of theirs is `token`; `alike`: they end in
    one and the same labelled token all, or in special ones.
    """

    token: int
    name: str
    padding: bool
    hidden: int
    learned: int
    ended: int
    alike: bool
    shown: str | None = None


@dataclass(frozen=True, slots=True)
class EmptyRows:
    """Rows that were drawn more than once, and those that had no label in any draw.

    `random`: the labels of some row differ between draws.
    """

    rows: int
    empty: int
    random: bool
    place: tuple[int, int] | None = None
    shown: str | None = None


def padding_labels(
    rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word, *, for_models: bool
) -> PaddingLabels | None:
    """Whether padding carries labels; None without any padded row, or if it has several ids.

    `for_models`: the batch has just arguments of models that ignore no other label. Only these are known to learn all
    labels of masked tokens: other losses may choose the masked places.
    """
    ignores = any(bool((row.labels == IGNORED).any()) for row in rows if row.labels is not None)
    restores = for_models and _restore(rows)
    known = [(row, row.labels if restores else row.targets) for row in rows if row.masked]
    padded = [
        (row, targets, columns) for row, targets in known if targets is not None and len(columns := padding_of(row)) > 1
    ]
    if padded:
        fills = {int(token) for row, _, columns in padded for token in np.unique(row.tokens[columns])}
        bad = [(row, columns) for row, targets, columns in padded if bool((targets[columns[1:]] != IGNORED).all())]
        if len(fills) > 1:
            return None
        shown = excerpt(bad[0][0], bad[0][1].tolist(), word) if bad else None
        return PaddingLabels(len(padded), len(bad), fills.pop(), ignores, shown=shown)
    fill = only(int(row.tokens[column]) for row in rows if row.masked for column in padding_of(row)[:1])
    pad = vocabulary.pad if vocabulary.pad is not None else fill
    apart = [row.labels for row in rows if row.labels is not None and row.labels.shape != row.tokens.shape]
    ends = [] if pad is None or not _are_padded(apart, pad) else [labels for labels in apart if len(labels) > 1]
    tails = [labels for labels in ends if set(labels[-2:].tolist()) <= {pad, IGNORED}]
    bad_tails = [labels for labels in tails if bool((labels[-2:] == pad).all())]
    if not tails:
        return None
    return PaddingLabels(
        len(tails), len(bad_tails), pad, ignores, True, labels_excerpt(bad_tails[0], word) if bad_tails else None
    )


def _restore(rows: Sequence[TokenRow]) -> bool:
    """Whether labels are all tokens of their rows as they were before some were masked."""
    pairs = [(row, row.labels) for row in rows if row.labels is not None and row.labels.shape == row.tokens.shape]
    if len(pairs) < len(rows) or not pairs or any(row.targets is not None for row in rows):
        return False
    labels = np.concatenate([labels[row.inside] for row, labels in pairs])
    tokens = np.concatenate([row.text for row in rows])
    learned = np.unique(labels)
    return bool(
        IGNORED not in learned and len(learned) >= FEWEST_DISTINCT and (labels == tokens).mean() >= RESTORED_SHARE
    )


def _are_padded(rows: Sequence[np.ndarray], pad: int) -> bool:
    """Whether rows hold several different labels, and the padding only at their ends."""
    if len({int(label) for labels in rows for label in np.unique(labels)}) < FEWEST_DISTINCT:
        return False
    return all(bool((np.diff((labels == pad).astype(int)) >= 0).all()) for labels in rows)


def padding_of(row: TokenRow) -> np.ndarray:
    """The places of the padding that the mask hides: a run of one token at either end."""
    hidden = np.flatnonzero(~row.inside)
    if not len(hidden) or len(hidden) == len(row.tokens):
        return hidden[:0]
    within = np.flatnonzero(row.inside)
    at_end, at_start = np.split(hidden, [int(np.searchsorted(hidden, within[-1]))])[::-1]
    return at_end if len(at_end) else at_start[at_start < within[0]]


def stops(rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word) -> Stops | None:
    """How a language model learns to stop; None if it learns no tokens, or if no token is known to stop or to pad."""
    causal = [row for row in rows if row.targets is not None]
    fill = only(int(row.tokens[column]) for row in causal if row.masked for column in padding_of(row)[:1])
    pad = vocabulary.pad if vocabulary.pad is not None else fill
    token = vocabulary.eos if vocabulary.eos is not None else pad
    if token is None or not causal:
        return None
    hidden = learned = ended = 0
    first: tuple[TokenRow, int] | None = None
    widest = max(_end(row, pad) for row in causal)
    lasts: set[int] = set()
    for row in causal:
        targets, end = row.targets, _end(row, pad)
        assert targets is not None
        stop_there = end + 1 if token == pad and not row.masked else end
        columns = np.flatnonzero((row.tokens == token) & row.inside)
        columns = columns[(columns > 0) & (columns < stop_there)]
        after_label = columns[targets[columns - 1] != IGNORED]
        silent = after_label[targets[after_label] == IGNORED]
        hidden += len(silent)
        learned += int((targets == token).sum()) if row.labels is None else int(np.sum(row.labels == token))
        first = first or ((row, int(silent[0])) if len(silent) else None)
        labelled = np.flatnonzero(targets != IGNORED)
        if end < min(widest, len(row.tokens)) and len(labelled):
            ended += 1
            lasts.add(int(targets[labelled[-1]]))
            first = first or (row, int(labelled[-1]))
    alike = len(lasts) == 1 or lasts <= vocabulary.special
    shown = excerpt(first[0], [first[1]], word) if first else None
    name = named(token, word)
    return Stops(token, name, token == pad, hidden, learned, ended, alike, shown)


def _end(row: TokenRow, pad: int | None) -> int:
    """Where the content of a row ends: before the padding that the mask hides, or before a run of padding."""
    if row.masked:
        within = np.flatnonzero(row.inside)
        return int(within[-1]) + 1 if len(within) else 0
    others = np.flatnonzero(row.tokens != pad)
    return int(others[-1]) + 1 if len(others) and pad is not None else len(row.tokens)


def empty_rows(draws: Sequence[Sequence[TokenRow]], word: Word) -> EmptyRows | None:
    """The rows without a label in any draw; None if there are no labels.

    A row is recognized by its tokens, where those that are masked at random are those of the labels.
    """
    seen: dict[bytes, list[tuple[TokenRow, bytes]]] = {}
    for number, rows in enumerate(draws):
        for row in rows:
            used = _used(row)
            if used is None or not row.inside.any():
                continue
            whole = row.tokens[row.inside]
            if row.labels is not None and row.targets is None and row.labels.shape == row.tokens.shape:
                whole = np.where(row.labels != IGNORED, row.labels, row.tokens)[row.inside]
            before = seen.setdefault(whole.tobytes(), [])
            if len(before) == number or not number:
                before.append((row, used[used != IGNORED].tobytes() + np.flatnonzero(used != IGNORED).tobytes()))
    matched = [entries for entries in seen.values() if len(entries) > 1]
    if not matched:
        return None
    empty = [entries[0][0] for entries in matched if not any(labels for _, labels in entries)]
    random = any(len({labels for _, labels in entries}) > 1 for entries in matched)
    if not empty:
        return EmptyRows(len(matched), 0, random)
    row = min(empty, key=lambda one: (one.batch, one.row))
    return EmptyRows(len(matched), len(empty), random, (row.batch, row.row), excerpt(row, [], word))


def _used(row: TokenRow) -> np.ndarray | None:
    """The labels that a model learns: it has nothing to predict the first token from."""
    if row.targets is not None:
        return row.targets[1:]
    return row.labels


IMAGE_RUN = 8
"""The shortest run of one token that stands for an image: images take dozens of tokens, and text repeats one a few
times."""


@dataclass(frozen=True, slots=True)
class Starts:
    """How many rows begin with the token, and how many with two of it."""

    token: int
    name: str
    once: int
    twice: int
    rows: int
    shown: str | None = None


@dataclass(frozen=True, slots=True)
class Packs:
    """Rows of several documents: how many of their starts the batch lets see what is before (`open`), or labels.

    `restarts` counts later documents, by positions or offsets, or by the stop token if `by_stop`. `same`: all of them
    begin with one token, from which nothing of another document can be learned. `alone`: batches are one row without
    padding, whose documents some kinds of attention keep apart whatever the mask says.
    """

    rows: int
    restarts: int
    open: int
    labelled: int
    same: bool
    by_stop: bool
    alone: bool = False
    shown: str | None = None
    shown_label: str | None = None


@dataclass(frozen=True, slots=True)
class ImageTokens:
    """The placeholder of an image: `count` of it in each of `rows` rows, and fewer in `cut` rows of full width."""

    token: int
    name: str
    count: int
    rows: int
    cut: int
    fewest: int
    place: tuple[int, int] | None = None
    shown: str | None = None


@dataclass(frozen=True, slots=True)
class Ids:
    """The largest id, and the ids that the vocabulary does not have: how many, how many different ones, and the first.

    `negative` counts negative labels by value.
    """

    largest: int
    beyond: int
    distinct: int
    negative: tuple[tuple[int, int], ...]
    ignores: bool
    place: tuple[int, int] | None = None
    shown: str | None = None


def starts(rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word) -> Starts | None:
    """How rows begin; None if no token is known to start them, or if it may be padding."""
    token = vocabulary.bos
    if token is None or any(token == vocabulary.pad and not row.masked for row in rows):
        return None
    long = [row for row in rows if len(row.text) > 1]
    once = [row for row in long if row.text[0] == token]
    twice = [row for row in once if row.text[1] == token]
    first = twice[0] if twice else None
    column = int(np.flatnonzero(first.inside)[0]) if first else 0
    shown = excerpt(first, [column, column + 1], word) if first else None
    return Starts(token, named(token, word), len(once), len(twice), len(long), shown)


def packs(rows: Sequence[TokenRow], stop: int | None, word: Word) -> Packs | None:
    """Packed documents, split at `stop` where nothing else splits them; None without any."""
    split = [(row, row.starts) for row in rows if len(row.starts)]
    by_stop = not split and stop is not None
    if by_stop:
        every = [(row, np.flatnonzero((row.tokens[:-1] == stop) & row.inside[1:]) + 1) for row in rows]
        split = [(row, columns) for row, columns in every if len(columns)]
    if not split:
        return None
    opened = [(row, columns) for row, columns in split if not row.blocks and (row.opens or by_stop)]
    labelled = [
        (row, column)
        for row, columns in split
        if row.targets is not None
        for column in columns.tolist()
        if row.targets[column] != IGNORED
    ]
    shown = excerpt(opened[0][0], opened[0][1][:1].tolist(), word) if opened else None
    shown_label = excerpt(labelled[0][0], [labelled[0][1]], word) if labelled else None
    return Packs(
        len(split),
        sum(len(columns) for _, columns in split),
        sum(len(columns) for _, columns in opened),
        len(labelled),
        len({int(row.tokens[column]) for row, column in labelled}) < 2,
        by_stop,
        all(row.row == 0 and bool(row.inside.all()) for row in rows),
        shown,
        shown_label,
    )


def image_tokens(rows: Sequence[TokenRow], word: Word) -> ImageTokens | None:
    """The placeholder whose count is the same in all rows that end before the full width; None without one."""
    with_image = [row for row in rows if row.image]
    width = max((len(row.tokens) for row in with_image), default=0)
    full = [row for row in with_image if int(row.inside.sum()) == width]
    whole = [row for row in with_image if int(row.inside.sum()) < width]
    for token in _runs(whole[0].text) if whole else ():
        counts = {int((row.text == token).sum()) for row in whole}
        if len(counts) != 1:
            continue
        count = counts.pop()
        cut = [row for row in full if 0 < int((row.text == token).sum()) < count]
        fewest = min((int((row.text == token).sum()) for row in cut), default=count)
        first = min(cut, key=lambda row: int((row.text == token).sum()), default=None)
        marked = np.flatnonzero(first.tokens == token)[-3:].tolist() if first else []
        place = (first.batch, first.row) if first else None
        shown = excerpt(first, marked, word) if first else None
        name = named(token, word)
        return ImageTokens(token, name, count, len(whole), len(cut), fewest, place, shown)
    return None


def _runs(tokens: np.ndarray) -> list[int]:
    """The tokens that stand `IMAGE_RUN` times in a row, the longest run first."""
    edges = np.flatnonzero(np.diff(tokens)) + 1
    lengths: Counter[int] = Counter()
    for part in np.split(tokens, edges):
        if len(part) >= IMAGE_RUN:
            lengths[int(part[0])] = max(lengths[int(part[0])], len(part))
    return [token for token, _ in lengths.most_common()]


def ids(rows: Sequence[TokenRow], size: int | None, word: Word) -> Ids:
    """The range of the ids that the model sees, and of labels."""
    beyond = [(row, np.flatnonzero((row.tokens >= size) & row.inside)) for row in rows] if size else []
    bad = [(row, columns) for row, columns in beyond if len(columns)]
    distinct = {int(token) for row, columns in bad for token in np.unique(row.tokens[columns])}
    stored = [row.stored for row in rows if row.stored is not None]
    negative: Counter[int] = Counter()
    for labels in stored:
        for value, count in zip(*np.unique(labels[labels < 0], return_counts=True), strict=True):
            negative[int(value)] += int(count)
    first = bad[0] if bad else None
    return Ids(
        max((int(row.text.max()) for row in rows if len(row.text)), default=0),
        sum(len(columns) for _, columns in bad),
        len(distinct),
        tuple(sorted(negative.items())),
        IGNORED in negative,
        (first[0].batch, first[0].row) if first else None,
        excerpt(first[0], first[1][:3].tolist(), word) if first else None,
    )
