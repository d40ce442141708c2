"""What the tokens of rows are: how rows begin, runs of placeholders of images, ids, and packed documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dataguard.lab.tokens.excerpts import Word, excerpt, named
from dataguard.lab.tokens.token_rows import IGNORED, TokenRow
from dataguard.lab.tokens.tokenizers import Vocabulary

RUN = 8
"""The shortest run of one token that stands for an image."""


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
    place = int(np.flatnonzero(first.inside)[0]) if first else 0
    shown = excerpt(first, [place, place + 1], word) if first else None
    return Starts(token, named(token, word), len(once), len(twice), len(long), shown)


def packs(rows: Sequence[TokenRow], stop: int | None, word: Word) -> Packs | None:
    """Packed documents, split at `stop` where nothing else splits them; None without any."""
    split = [(row, row.starts) for row in rows if len(row.starts)]
    by_stop = not split and stop is not None
    if by_stop:
        every = [(row, np.flatnonzero((row.tokens[:-1] == stop) & row.inside[1:]) + 1) for row in rows]
        split = [(row, places) for row, places in every if len(places)]
    if not split:
        return None
    opened = [(row, places) for row, places in split if not row.blocks and (row.opens or by_stop)]
    labelled = [
        (row, place)
        for row, places in split
        if row.targets is not None
        for place in places.tolist()
        if row.targets[place] != IGNORED
    ]
    shown = excerpt(opened[0][0], opened[0][1][:1].tolist(), word) if opened else None
    shown_label = excerpt(labelled[0][0], [labelled[0][1]], word) if labelled else None
    return Packs(
        len(split),
        sum(len(places) for _, places in split),
        sum(len(places) for _, places in opened),
        len(labelled),
        len({int(row.tokens[place]) for row, place in labelled}) < 2,
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
    """The tokens that stand `RUN` times in a row, the longest run first."""
    edges = np.flatnonzero(np.diff(tokens)) + 1
    lengths: Counter[int] = Counter()
    for part in np.split(tokens, edges):
        if len(part) >= RUN:
            lengths[int(part[0])] = max(lengths[int(part[0])], len(part))
    return [token for token, _ in lengths.most_common()]


def ids(rows: Sequence[TokenRow], size: int | None, word: Word) -> Ids:
    """The range of the ids that the model sees, and of labels."""
    beyond = [(row, np.flatnonzero((row.tokens >= size) & row.inside)) for row in rows] if size else []
    bad = [(row, places) for row, places in beyond if len(places)]
    distinct = {int(token) for row, places in bad for token in np.unique(row.tokens[places])}
    stored = [row.stored for row in rows if row.stored is not None]
    negative: Counter[int] = Counter()
    for labels in stored:
        for value, count in zip(*np.unique(labels[labels < 0], return_counts=True), strict=True):
            negative[int(value)] += int(count)
    first = bad[0] if bad else None
    return Ids(
        max((int(row.text.max()) for row in rows if len(row.text)), default=0),
        sum(len(places) for _, places in bad),
        len(distinct),
        tuple(sorted(negative.items())),
        IGNORED in negative,
        (first[0].batch, first[0].row) if first else None,
        excerpt(first[0], first[1][:3].tolist(), word) if first else None,
    )
