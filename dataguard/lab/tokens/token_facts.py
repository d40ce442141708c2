"""What rows of tokens hold: labels of padding and stop tokens, empty rows, starts, packs, images, and ids.

Each function judges nothing: it counts in all rows what one check asks for, and shows the first row of its kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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
class Spot:
    """The row of a batch that shows a defect: in the leaf of a role, at the places of some tokens, or all of them."""

    role: str
    batch: int
    row: int
    places: tuple[int, ...] | None = None


def spot_in(role: str, row: TokenRow, places: Iterable[int] | None = None) -> Spot:
    """The row, as plain data."""
    return Spot(role, row.batch, row.row, None if places is None else tuple(int(place) for place in places))


@dataclass(frozen=True, slots=True)
class PaddingLabels:
    """Rows that end in two padding tokens or more, and those of them in which all of that carries a label.

    `token` is the padding; `ignores`: some label is the ignored index; `apart`: labels have a width of their own, as
    those of a decoder; `masked`: a mask says where the padding is, and not the run of one id that ends rows.
    """

    rows: int
    labelled: int
    token: int | None
    ignores: bool
    apart: bool = False
    shown: str | None = None
    masked: bool = True
    spot: Spot | None = None


@dataclass(frozen=True, slots=True)
class Stops:
    """How often a token follows a labelled one inside rows, without a label (`hidden`) and with one (`learned`).

    `ended` counts rows that end before the widest one does, where no label of theirs is `token`; `alike`: they end in
    one and the same labelled token all, or in special ones. `holes` counts places inside rows where a mask that hides
    the padding hides a single token of its id; `cut_off`: even the widest row of each batch ends in one hidden token.
    """

    token: int
    name: str
    padding: bool
    hidden: int
    learned: int
    ended: int
    alike: bool
    shown: str | None = None
    spot: Spot | None = None
    holes: int = 0
    cut_off: bool = False
    shown_hole: str | None = None
    hole_spot: Spot | None = None


@dataclass(frozen=True, slots=True)
class EmptyRows:
    """Rows that were drawn more than once, and those that had no label in any draw.

    `random`: the labels of some row differ between draws. `cut` are those without a label that fill the `width` of the
    widest row, which most others do not.
    """

    rows: int
    empty: int
    random: bool
    place: tuple[int, int] | None = None
    shown: str | None = None
    cut: int = 0
    width: int = 0


def padding_labels(
    rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word, *, for_models: bool
) -> PaddingLabels | None:
    """Whether padding carries labels; None without any padded row, or if it has several ids.

    `for_models`: the batch has just arguments of models that ignore no other label. Only these are known to learn all
    labels of masked tokens: other losses may choose the masked places.
    """
    ignores = any(bool((row.labels == IGNORED).any()) for row in rows if row.labels is not None)
    restores = for_models and _restore(rows)
    masked = any(row.masked for row in rows)
    run = None if masked else padding_run(rows, vocabulary.pad)
    with_targets = [(row, row.labels if restores else row.targets) for row in rows if row.masked or run is not None]
    padded = [
        (row, targets, columns)
        for row, targets in with_targets
        if targets is not None and len(columns := padding_of(row) if run is None else run_of(row.tokens, *run)) > 1
    ]
    if padded:
        fills = {int(token) for row, _, columns in padded for token in np.unique(row.tokens[columns])}
        bad = [(row, columns) for row, targets, columns in padded if bool((targets[columns[1:]] != IGNORED).all())]
        if len(fills) > 1:
            return None
        shown = excerpt(bad[0][0], bad[0][1].tolist(), word) if bad else None
        spot = spot_in("labels", bad[0][0], bad[0][1][1:]) if bad else None
        return PaddingLabels(len(padded), len(bad), fills.pop(), ignores, shown=shown, masked=masked, spot=spot)
    fill = only(int(row.tokens[column]) for row in rows if row.masked for column in padding_of(row)[:1])
    pad = vocabulary.pad if vocabulary.pad is not None else fill
    apart = [(row, row.labels) for row in rows if row.labels is not None and row.labels.shape != row.tokens.shape]
    are_padded = pad is not None and _are_padded([labels for _, labels in apart], pad)
    ends = [(row, labels) for row, labels in apart if len(labels) > 1] if are_padded else []
    tails = [(row, labels) for row, labels in ends if set(labels[-2:].tolist()) <= {pad, IGNORED}]
    bad_tails = [(row, labels) for row, labels in tails if bool((labels[-2:] == pad).all())]
    if not tails:
        return None
    shown = labels_excerpt(bad_tails[0][1], word) if bad_tails else None
    spot = spot_in("labels", bad_tails[0][0], np.arange(len(bad_tails[0][1]))[-2:]) if bad_tails else None
    return PaddingLabels(len(tails), len(bad_tails), pad, ignores, apart=True, shown=shown, spot=spot)


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


FEWEST_RUNS = 8
"""Rows that a padding id must end: what holds by chance in half of all rows holds in eight with odds of 1 in 256."""


def padding_run(rows: Sequence[TokenRow], pad: int | None) -> tuple[int, bool] | None:
    """The id that pads rows without a mask, and whether it begins them instead of ending them; None without one.

    Unless it is known, it is the id that stands in a run of two or more, of several lengths, at that end of most rows,
    and nowhere else.
    """
    for at_start in (False, True):
        edges = Counter(int(row.tokens[0 if at_start else -1]) for row in rows if len(row.tokens))
        for token, _ in edges.most_common(1) if pad is None else [(pad, 0)]:
            counts = [len(run_of(row.tokens, token, at_start)) for row in rows]
            long = [count for count in counts if count > 1]
            everywhere = sum(int((row.tokens == token).sum()) for row in rows)
            alone = len(set(long)) > 1 and 2 * len(long) >= len(rows) and everywhere == sum(counts)
            if len(long) >= FEWEST_RUNS and (alone or pad is not None):
                return token, at_start
    return None


def run_of(tokens: np.ndarray, token: int, at_start: bool) -> np.ndarray:
    """The places of the run of a token that ends a row, or begins it; none if it is all of the row."""
    others = np.flatnonzero(tokens != token)
    if not len(others):
        return others
    return np.arange(others[0]) if at_start else np.arange(others[-1] + 1, len(tokens))


def stops(rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word) -> Stops | None:
    """How a language model learns to stop; None if it learns no tokens, or if no token is known to stop or to pad."""
    causal = [row for row in rows if row.targets is not None]
    fill = only(int(row.tokens[column]) for row in causal if row.masked for column in padding_of(row)[:1])
    pad = vocabulary.pad if vocabulary.pad is not None else fill
    token = vocabulary.eos if vocabulary.eos is not None else pad
    if token is None or not causal:
        return None
    hidden = learned = ended = 0
    first_hidden: tuple[TokenRow, int] | None = None
    first_ended: tuple[TokenRow, int] | None = None
    widest = max(_end(row, pad) for row in causal)
    widths: dict[int, set[int]] = {}
    for row in causal:
        widths.setdefault(row.batch, set()).add(len(row.tokens))
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
        first_hidden = first_hidden or ((row, int(silent[0])) if len(silent) else None)
        labelled = np.flatnonzero(targets != IGNORED)
        padded = end < len(row.tokens) or len(widths[row.batch]) > 1  # Nested rows have no padding.
        if end < widest and padded and len(labelled):
            ended += 1
            lasts.add(int(targets[labelled[-1]]))
            first_ended = first_ended or (row, int(labelled[-1]))
    alike = len(lasts) == 1 or lasts <= vocabulary.special
    first = first_hidden or first_ended
    shown = excerpt(first[0], [first[1]], word) if first else None
    spot = spot_in("labels", first_hidden[0], [first_hidden[1]]) if first_hidden else None
    spot = spot or (spot_in("tokens", first_ended[0]) if first_ended else None)
    holes = _holes(causal, token) if token == fill else []
    return Stops(
        token,
        named(token, word),
        token == pad,
        hidden,
        learned,
        ended,
        alike,
        shown,
        spot,
        sum(len(columns) for _, columns in holes),
        token == fill and _cuts_off(causal),
        excerpt(holes[0][0], holes[0][1][:1].tolist(), word) if holes else None,
        spot_in("mask", holes[0][0], holes[0][1]) if holes else None,
    )


FEWEST_BATCHES = 4
"""Batches whose widest row ends in one hidden token; widths without a common divisor are no multiples of any number."""


def _cuts_off(rows: Sequence[TokenRow]) -> bool:
    """Whether the shortest run that a mask hides at the end of rows is one token in each batch.

    Where padding fills rows up to the longest, that one has none. The widths of batches show that it does.
    """
    shortest: dict[int, int] = {}
    widths: dict[int, int] = {}
    for row in rows:
        seen = np.flatnonzero(row.inside)
        run = len(row.tokens) - 1 - int(seen[-1]) if len(seen) else len(row.tokens)
        shortest[row.batch] = min(run, shortest.get(row.batch, run))
        widths[row.batch] = len(row.tokens)
    divisor = int(np.gcd.reduce(list(widths.values())))
    return len(shortest) >= FEWEST_BATCHES and set(shortest.values()) == {1} and divisor == 1


def _holes(rows: Sequence[TokenRow], token: int) -> list[tuple[TokenRow, np.ndarray]]:
    """Where a mask hides single tokens of one id between visible ones; [] if it hides anything else there.

    Nor do they count if all follow one token, which is then what ends documents: this one only stands between them.
    """
    found = []
    for row in rows:
        seen = np.flatnonzero(row.inside)
        hidden = np.flatnonzero(~row.inside)
        hidden = hidden[(hidden > seen[0]) & (hidden < seen[-1])] if len(seen) else hidden[:0]
        if bool((row.tokens[hidden] != token).any() or (np.diff(hidden) == 1).any()):
            return []
        found += [(row, hidden)] if len(hidden) else []
    return found if len({int(row.tokens[place - 1]) for row, places in found for place in places}) > 1 else []


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
    row = min(empty, key=lambda row: (row.batch, row.row))
    lengths = [len(_trimmed(entries[0][0])) for entries in matched]
    width = max(lengths)
    others = [length for length, entries in zip(lengths, matched, strict=True) if any(labels for _, labels in entries)]
    truncates = 2 * sum(length < width for length in others) > len(others)
    cut = sum(len(_trimmed(row)) == width for row in empty) if truncates else 0
    return EmptyRows(len(matched), len(empty), random, (row.batch, row.row), excerpt(row, [], word), cut, width)


def _trimmed(row: TokenRow) -> np.ndarray:
    """The tokens of a row without padding: what the mask shows, or else all but a run of one id at its end."""
    if row.masked or len(row.tokens) < 2:
        return row.text
    run = run_of(row.tokens, int(row.tokens[-1]), at_start=False)
    return row.tokens[: len(row.tokens) - len(run)] if len(run) > 1 else row.tokens


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
    """How many rows begin with the token, and how many with two of it.

    `within` counts where else it stands, as in packed rows, and `doubled` where it does so twice.
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
    negative_spot: Spot | None = None


def starts(rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word) -> Starts | None:
    """How rows and packed documents begin; None if no token is known to start them, or if it may be padding."""
    token = vocabulary.bos
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
    )


def _starts_within(row: TokenRow, token: int) -> np.ndarray:
    """Where a start token follows another one in a row, and is not its last."""
    seen = (row.tokens == token) & row.inside
    return np.flatnonzero(seen[1:-1] & ~seen[:-2] & row.inside[2:]) + 1


def packs(rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word) -> Packs | None:
    """Packed documents, split at the tokens that start or end them where nothing else splits them; None without any."""
    split = [(row, row.starts) for row in rows if len(row.starts)]
    by_stop = not split
    if by_stop:
        split = _split_by_tokens(rows, vocabulary)
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

    An end token may end each turn of a conversation, whose questions have no labels: then it says nothing.
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
    asked = any(
        bool((row.targets[row.inside][1:] == IGNORED).any())
        for row in rows
        if row.targets is not None and row.inside.any()
    )
    if stop is None or asked or vocabulary.chat is not None:
        return []
    padding = (stop, stop if vocabulary.pad is None else vocabulary.pad)
    every = [
        (row, np.flatnonzero((row.tokens[:-1] == stop) & ~np.isin(row.tokens[1:], padding) & row.inside[1:]) + 1)
        for row in rows
    ]
    return [(row, columns) for row, columns in every if len(columns)]


def _places_of(row: TokenRow, head: Sequence[int]) -> np.ndarray:
    """Where a sequence of tokens begins in a row, the first of several in succession."""
    if not head or len(row.tokens) < len(head):
        return np.zeros(0, np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(np.where(row.inside, row.tokens, -1), len(head))
    found = np.flatnonzero((windows == np.asarray(head)).all(1))
    return found[np.diff(found, prepend=-2) > 1]


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
        position = (first.batch, first.row) if first else None
        shown = excerpt(first, marked, word) if first else None
        name = named(token, word)
        return ImageTokens(token, name, count, len(whole), len(cut), fewest, position, shown)
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
    )
