"""What stands in rows of tokens: starts of documents, packs, placeholders of images, and ids.

Each function judges nothing: it counts in all rows what one check asks for, and shows the first row of its kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dataguard.lab.tokens.token_facts import Spot, spot_in
from dataguard.lab.tokens.token_rows import IGNORED, TokenRow, Vocabulary, Word, excerpt, named

IMAGE_RUN = 8
"""The shortest run of one token that stands for an image: images take dozens of tokens, and text repeats one a few
times."""


@dataclass(frozen=True, slots=True)
class Starts:
    """How many rows begin with the token, and how many with two of it.

    `within` counts where else it stands, as in packed rows, and `doubled` where it does so twice. `guessed`: nothing
    says that it is a start token, but it begins all rows, and only two of it follow each other wherever it is.
    """

    token: int
    name: str
    once: int
    twice: int
    rows: int
    shown: str | None = None
    spot: Spot | None = None
    within: int = 0
    doubled: int = 0
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Packs:
    """Rows of several documents: how many of their starts the batch lets see what is before (`open`), or labels.

    `restarts` counts later documents, by positions or offsets, or by the tokens that start or end them if `by_stop`.
    `same`: all of them begin with one token, from which nothing of another document can be learned. `alone`: batches
    are one row without padding, whose documents some kinds of attention keep apart whatever the mask says.
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
    spot: Spot | None = None
    label_spot: Spot | None = None


@dataclass(frozen=True, slots=True)
class ImageTokens:
    """The placeholder of an image: `count` of it in each of `rows` rows, and fewer in `cut` rows of full width.

    `by_grid`: images have several sizes, and grids say how many there are; `count` is that of the first cut image.
    """

    token: int
    name: str
    count: int
    rows: int
    cut: int
    fewest: int
    place: tuple[int, int] | None = None
    shown: str | None = None
    by_grid: bool = False


@dataclass(frozen=True, slots=True)
class Ids:
    """The largest id, and the ids that the vocabulary does not have: how many, how many different ones, and the first.

    `negative` counts negative labels by value. `wrapped` is a special token that ends rows, or occurs often, as if it
    were stored in 16 bits, with the id that it has there. `negatives` is the largest id of the items that a loss
    contrasts with the next ones. `padding` is an item that pads rows, too.
    """

    largest: int
    beyond: int
    distinct: int
    negative: tuple[tuple[int, int], ...]
    ignores: bool
    place: tuple[int, int] | None = None
    shown: str | None = None
    negative_spot: Spot | None = None
    wrapped: Wrapped | None = None
    negatives: int | None = None
    padding: PaddingItem | None = None


@dataclass(frozen=True, slots=True)
class PaddingItem:
    """The id that pads rows, and in how many of them it stands among other items."""

    item: int
    rows: int
    spot: Spot
    shown: str


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A special token, the id in rows that it leaves in so many bits, and how often that occurs."""

    token: int
    stored: int
    bits: int
    count: int
    shown: str
    place: tuple[int, int]


def starts(rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word) -> Starts | None:
    """How rows and packed documents begin; None if no token starts them, or if it may be padding."""
    token = _in_twos(rows) if vocabulary.bos is None else vocabulary.bos
    if token is None or any(token == vocabulary.pad and not row.masked for row in rows):
        return None
    long = [row for row in rows if len(row.text) > 1]
    once = [row for row in long if row.text[0] == token]
    twice = [row for row in once if row.text[1] == token]
    within = [(row, column) for row in long for column in _starts_within(row, token).tolist()]
    doubled = [(row, column) for row, column in within if row.tokens[column + 1] == token]
    first = (twice[0], int(np.flatnonzero(twice[0].inside)[0])) if twice else next(iter(doubled), None)
    columns = (first[1], first[1] + 1) if first else ()
    return Starts(
        token,
        named(token, word),
        len(once),
        len(twice),
        len(long),
        excerpt(first[0], columns, word) if first else None,
        spot_in("tokens", first[0], columns) if first else None,
        # An end that is the start token, too, precedes it.
        within=len(within) if token != vocabulary.eos else 0,
        doubled=len(doubled),
        guessed=vocabulary.bos is None,
    )


def _in_twos(rows: Sequence[TokenRow]) -> int | None:
    """The token that begins all rows, and of which two, and not more, follow each other wherever it stands."""
    texts = [row.text for row in rows]
    if not texts or not all(map(len, texts)):
        return None
    token = int(texts[0][0])
    places = [np.flatnonzero(text == token) for text in texts]
    in_twos = (
        at[:1].tolist() == [0] and len(at) % 2 == 0 and (np.diff(at)[::2] == 1).all() and (np.diff(at)[1::2] > 1).all()
        for at in places
    )
    return token if all(in_twos) else None


def _starts_within(row: TokenRow, token: int) -> np.ndarray:
    """Where a start token follows another one in a row, and is not its last."""
    seen = (row.tokens == token) & row.inside
    return np.flatnonzero(seen[1:-1] & ~seen[:-2] & row.inside[2:]) + 1


def packs(rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word) -> Packs | None:
    """Packed documents, split at the tokens that start or end them where nothing else splits them; None without any."""
    split = [(row, row.starts) for row in rows if len(row.starts)]
    by_stop = not split
    if by_stop:
        split = _split_by_tokens([row for row in rows if not row.divided], vocabulary)
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
        spot_in("tokens" if by_stop else "mask", opened[0][0]) if opened else None,
        spot_in("labels", labelled[0][0], [labelled[0][1]]) if labelled else None,
    )


def _split_by_tokens(rows: Sequence[TokenRow], vocabulary: Vocabulary) -> list[tuple[TokenRow, np.ndarray]]:
    """Where later documents of rows begin, by their start token; by the end token if documents have no start.

    An end token may end each turn of a conversation, whose questions have no labels, or which begins as no other turn
    does: then it says nothing. The first token of a document may have none.
    """
    bos: tuple[int, ...] = () if vocabulary.bos is None else (vocabulary.bos,)
    heads = (vocabulary.chat.heads if vocabulary.chat else ()) or (bos,)
    begun = [
        (row, columns)
        for row in rows
        if len(columns := np.unique(np.concatenate([_places_of(row, head) for head in heads])))
    ]
    if begun:
        within = [(row, columns[columns > np.flatnonzero(row.inside)[0]]) for row, columns in begun]
        return [(row, columns) for row, columns in within if len(columns)]
    stop = vocabulary.eos
    asked = any(bool((_unlearned(row)[1:] & (row.tokens[:-1] != stop)).any()) for row in rows)
    if stop is None or asked or vocabulary.chat is not None or not rows:
        return []
    padding = (stop, stop if vocabulary.pad is None else vocabulary.pad)
    every = [
        (row, np.flatnonzero((row.tokens[:-1] == stop) & ~np.isin(row.tokens[1:], padding) & row.inside[1:]) + 1)
        for row in rows
    ]
    first = {int(row.text[0]) for row in rows if len(row.text)}
    followers = np.concatenate([row.tokens[columns] for row, columns in every])
    if (
        len(followers)
        and len(rows) >= FEWEST_FIRST
        and len(first) == 1
        and (followers != first.pop()).mean() > ODD_FOLLOWERS
    ):
        return []
    return [(row, columns) for row, columns in every if len(columns)]


def _unlearned(row: TokenRow) -> np.ndarray:
    """Where a row has labels, and a token that the model sees has none."""
    return np.zeros(len(row.tokens), bool) if row.targets is None else (row.targets == IGNORED) & row.inside


FEWEST_FIRST, ODD_FOLLOWERS = 8, 0.05
"""Rows that all begin with one token show how documents begin; the largest share of ends that another token may follow,
as in documents that are cut. If more do, the end token ends each turn of a conversation, and not only documents."""


def _places_of(row: TokenRow, head: Sequence[int]) -> np.ndarray:
    """Where a sequence of tokens begins in a row, the first of several in succession."""
    if not head or len(row.tokens) < len(head):
        return np.zeros(0, np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(np.where(row.inside, row.tokens, -1), len(head))
    found = np.flatnonzero((windows == np.asarray(head)).all(1))
    return found[np.diff(found, prepend=-2) > 1]


def image_tokens(rows: Sequence[TokenRow], word: Word) -> ImageTokens | None:
    """The placeholder of images, and rows of the full width whose last image has fewer; None without one.

    All rows that end before the full width have the same number of it, or runs of it of one length: one for each image.
    Else grids beside the images say how long their runs are.
    """
    with_image = [row for row in rows if row.image]
    width = max((len(row.tokens) for row in with_image), default=0)
    full = [row for row in with_image if int(row.inside.sum()) == width]
    whole = [row for row in with_image if int(row.inside.sum()) < width]
    for token in _runs(whole[0].text) if whole else ():
        counts = {int((row.text == token).sum()) for row in whole}
        if len(counts) == 1:
            count = counts.pop()
            rest = [(row, int((row.text == token).sum())) for row in full]
        else:
            lengths = {length for row in whole for length in _lengths(row.text, token)}
            count = min(lengths)
            if any(length % count for length in lengths) or count < IMAGE_RUN:
                continue
            rest = [(row, _lengths(row.text, token)[-1] % count) for row in full if row.text[-1] == token]
        cut = [(row, fewer) for row, fewer in rest if 0 < fewer < count]
        return _images(token, count, len(whole), cut, word)
    return _by_grids(with_image, {id(row) for row in full}, word)


def _images(
    token: int, count: int, rows: int, cut: Sequence[tuple[TokenRow, int]], word: Word, *, by_grid: bool = False
) -> ImageTokens:
    first, fewest = min(cut, key=lambda one: one[1], default=(None, count))
    marked = np.flatnonzero(first.tokens == token)[-3:].tolist() if first else []
    position = (first.batch, first.row) if first else None
    shown = excerpt(first, marked, word) if first else None
    return ImageTokens(token, named(token, word), count, rows, len(cut), fewest, position, shown, by_grid)


def _by_grids(rows: Sequence[TokenRow], full: Collection[int], word: Word) -> ImageTokens | None:
    """The placeholder whose runs are as long as grids of patches say, by one factor, but for those that end full rows.

    Batches of which whole images are cut off do not say which grid is whose.
    """
    batches: dict[int, list[TokenRow]] = {}
    for row in rows:
        batches.setdefault(row.batch, []).append(row)
    for token in _runs(rows[0].text) if rows and rows[0].patches else ():
        runs = [
            (row, length, patches)
            for batch in batches.values()
            if len(every := [(row, length) for row in batch for length in _lengths(row.text, token)])
            == len(batch[0].patches)
            for (row, length), patches in zip(every, batch[0].patches, strict=True)
        ]
        factors = Counter(patches / length for _, length, patches in runs)
        factor, count = factors.most_common(1)[0] if factors else (0.0, 0)
        unlike = [(row, length, round(patches / factor)) for row, length, patches in runs if patches != factor * length]
        cut = [
            (row, length, whole)
            for row, length, whole in unlike
            if id(row) in full and row.text[-1] == token and length == _lengths(row.text, token)[-1] < whole
        ]
        if count >= FEWEST_IMAGES and len(cut) == len(unlike) < count:
            wholes = {id(row): whole for row, _, whole in cut}
            shorter = [(row, length) for row, length, _ in cut]
            first = min(shorter, key=lambda one: one[1], default=None)
            expected = wholes[id(first[0])] if first else max(length for _, length, _ in runs)
            return _images(token, expected, count, shorter, word, by_grid=True)
    return None


FEWEST_IMAGES = 8
"""Images whose placeholders are as many as their grids say: what holds by chance for half of them holds for eight with
odds of 1 in 256."""


def _lengths(tokens: np.ndarray, token: int) -> list[int]:
    """The lengths of the runs of a token."""
    edges = np.flatnonzero(np.diff((tokens == token).astype(int), prepend=0, append=0))
    lengths: list[int] = np.diff(edges)[::2].tolist()
    return lengths


def _runs(tokens: np.ndarray) -> list[int]:
    """The tokens that stand `IMAGE_RUN` times in a row, the longest run first."""
    edges = np.flatnonzero(np.diff(tokens)) + 1
    lengths: Counter[int] = Counter()
    for part in np.split(tokens, edges):
        if len(part) >= IMAGE_RUN:
            lengths[int(part[0])] = max(lengths[int(part[0])], len(part))
    return [token for token, _ in lengths.most_common()]


WRAPPED_BITS = 16
"""Ids are stored in 16 bits to save space; in more, none of a vocabulary is wrapped."""
FEWEST_WRAPPED = 8
"""How often a wrapped special token must be seen."""


def _wrapped(rows: Sequence[TokenRow], special: Iterable[int], word: Word) -> Wrapped | None:
    """A special token of which rows have only the last 16 bits: as often as it would divide or end documents.

    None if any id has more bits. Ids with the last bits of a special token are rare words, as all so late in a
    vocabulary are.
    """
    limit = 1 << WRAPPED_BITS
    texts = [row.text for row in rows if len(row.text)]
    if not texts or max(int(text.max()) for text in texts) >= limit:
        return None
    seen, counts = np.unique(np.concatenate(texts), return_counts=True)
    frequencies = dict(zip(seen.tolist(), counts.tolist(), strict=True))
    for token in sorted(token for token in special if token >= limit):
        stored = token % limit
        count = frequencies.get(stored, 0)
        ends = sum(stored in (text[0], text[-1]) for text in texts)
        divides = count >= DIVIDING * counts.mean() and 2 * count >= len(texts)
        if count >= FEWEST_WRAPPED and stored not in special and (2 * ends > len(texts) or divides):
            row = next(row for row in rows if (row.tokens == stored).any())
            shown = excerpt(row, np.flatnonzero(row.tokens == stored)[:1].tolist(), word)
            return Wrapped(token, stored, WRAPPED_BITS, count, shown, (row.batch, row.row))
    return None


DIVIDING = 4
"""How much more often than ids are on average a token occurs that divides documents: it is shared by all of them."""


def ids(rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word) -> Ids:
    """The range of the ids that the model sees, and of labels."""
    size = vocabulary.size
    beyond = [(row, np.flatnonzero((row.tokens >= size) & row.inside)) for row in rows] if size else []
    bad = [(row, columns) for row, columns in beyond if len(columns)]
    distinct = {int(token) for row, columns in bad for token in np.unique(row.tokens[columns])}
    stored = [(row, row.stored) for row in rows if row.stored is not None]
    negative: Counter[int] = Counter()
    unusual = [
        spot_in("labels", row, places)
        for row, labels in stored
        if len(places := np.flatnonzero((labels < 0) & (labels != IGNORED)))
    ]
    for _, labels in stored:
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
        unusual[0] if unusual else None,
        _wrapped(rows, vocabulary.known.special if vocabulary.known else (), word),
        max((int(row.negatives.max(initial=0)) for row in rows if row.negatives is not None), default=None),
        _padding_item(rows, vocabulary, word),
    )


FEWEST_PADDED, FEWEST_AMID, FEWEST_ITEMS, LARGEST_SHARE = 8, 4, 64, 4
"""Rows that one id pads, and others within which it stands; items of a catalogue, which letters are not; and how much
more often than others an item may occur: separators, missing values and masks are more frequent."""


def _padding_item(rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word) -> PaddingItem | None:
    """An item that pads rows, too; None where a tokenizer or the contract knows ends, which may pad as well."""
    if vocabulary.where is not None or vocabulary.eos is not None:
        return None
    edges = [
        (int(row.tokens[place]), place) for row in rows for place in (0, -1) if len(_run_at(row.tokens, place)) > 1
    ]
    (pad, place), padded = Counter(edges).most_common(1)[0] if edges else ((0, 0), 0)
    if padded < FEWEST_PADDED or 2 * padded < len(rows) or (pad, -1 - place) in edges:
        return None
    places = [(row, _amid(row.tokens, pad)) for row in rows]
    within = [(row, columns) for row, columns in places if len(columns)]
    times = sum(len(columns) for _, columns in within)
    every = np.concatenate([row.tokens[row.tokens != pad] for row in rows])
    distinct, counts = np.unique(every, return_counts=True)
    rare = times <= LARGEST_SHARE * counts.mean() and not any((np.diff(columns) == 1).any() for _, columns in within)
    if len(distinct) < FEWEST_ITEMS or times < FEWEST_AMID or not rare:
        return None
    row, columns = within[0]
    return PaddingItem(pad, len(within), spot_in("tokens", row, columns), excerpt(row, columns.tolist(), word))


def _run_at(tokens: np.ndarray, place: int) -> np.ndarray:
    """The run of one id that begins a row (0) or ends it (-1)."""
    ordered = tokens if place == 0 else tokens[::-1]
    changes = np.flatnonzero(ordered != ordered[0])
    return ordered[: changes[0]] if len(changes) else ordered[:0]


def _amid(tokens: np.ndarray, token: int) -> np.ndarray:
    """Where a token stands between others of a row."""
    others = np.flatnonzero(tokens != token)
    places = np.flatnonzero(tokens == token)
    return places[(places > others[0]) & (places < others[-1])] if len(others) else places[:0]
