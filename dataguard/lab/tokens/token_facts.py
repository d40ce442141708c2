"""What is learned of rows of tokens: labels of padding and stop tokens, and rows without labels.

Each function judges nothing: it counts in all rows what one check asks for, and shows the first row of its kind. What
rows hold besides labels is counted in `token_contents`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

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
    those of a decoder; `masked`: a mask says where the padding is, and not the run of one id that ends rows. `drawn`:
    places to restore are drawn, so that only some of the padding carries labels; `rows` are the rows where it does, or
    all padded ones. `names`: the paths of the leaves by role, if these are rows of the other answers of pairs.
    """

    rows: int
    labelled: int
    token: int | None
    ignores: bool
    apart: bool = False
    drawn: bool = False
    shown: str | None = None
    masked: bool = True
    spot: Spot | None = None
    names: Mapping[str, str] | None = None


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
    if drawn := _drawn_padding(rows):
        padding, places = drawn
        found = [(row, columns) for row, columns in places if len(columns)]
        shown = excerpt(found[0][0], found[0][1].tolist(), word) if found else None
        spot = spot_in("labels", *found[0]) if found else None
        count = len(found) or len(places)
        return PaddingLabels(count, len(found), padding, ignores, drawn=True, shown=shown, spot=spot)
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


def _drawn_padding(rows: Sequence[TokenRow]) -> tuple[int, list[tuple[TokenRow, np.ndarray]]] | None:
    """The padding id, and by padded row the places of padding that a model is to restore; None if it restores nothing.

    That places to restore are drawn shows in the token that replaces most of them, and stands nowhere else.
    """
    pairs = [(row, row.labels) for row in rows if row.labels is not None and row.labels.shape == row.tokens.shape]
    if len(pairs) < len(rows) or not pairs or any(row.targets is not None for row in rows):
        return None
    seen = [(row.tokens[row.inside], labels[row.inside] != IGNORED) for row, labels in pairs]
    replaced = Counter(token for tokens, restored in seen for token in tokens[restored].tolist())
    mask, count = replaced.most_common(1)[0] if replaced else (IGNORED, 0)
    elsewhere = sum(int((tokens[~restored] == mask).sum()) for tokens, restored in seen)
    if 2 * count < replaced.total() or not count or elsewhere:
        return None
    padded = [(row, labels, columns) for row, labels in pairs if len(columns := padding_of(row))]
    tokens = Counter(token for row, _, columns in padded for token in row.tokens[columns].tolist())
    fill = tokens.most_common(1)[0][0] if tokens else IGNORED
    restored = {int(label) for _, labels, columns in padded for label in labels[columns]} - {IGNORED}
    learned = any(bool((labels[row.inside] == fill).any()) for row, labels in pairs)
    if not padded or learned or not restored <= {fill}:
        return None
    return fill, [(row, columns[labels[columns] != IGNORED]) for row, labels, columns in padded]


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

    It is the `pad` of the vocabulary. If that pads no rows or is unknown, it is the id that stands in a run of two or
    more, of several lengths, at that end of most rows, and nowhere else.
    """
    return next((run for known in dict.fromkeys((pad, None)) if (run := _padding_run(rows, known))), None)


def _padding_run(rows: Sequence[TokenRow], pad: int | None) -> tuple[int, bool] | None:
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


def without_padding(rows: Sequence[TokenRow], pad: int | None) -> Sequence[TokenRow]:
    """The rows without what pads them, where no mask says what that is."""
    run = None if any(row.masked for row in rows) else padding_run(rows, pad)
    if run is None:
        return rows
    places = [np.isin(np.arange(len(row.tokens)), run_of(row.tokens, *run)) for row in rows]
    return [replace(row, inside=row.inside & ~padding) for row, padding in zip(rows, places, strict=True)]


def run_of(tokens: np.ndarray, token: int, at_start: bool) -> np.ndarray:
    """The places of the run of a token that ends a row, or begins it; none if it is all of the row."""
    others = np.flatnonzero(tokens != token)
    if not len(others):
        return others
    return np.arange(others[0]) if at_start else np.arange(others[-1] + 1, len(tokens))


def stops(rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word) -> Stops | None:
    """How a language model learns to stop; None if it learns no tokens, or if no token is known to stop or to pad."""
    causal = [row for row in rows if row.targets is not None]
    if causal and vocabulary.eos is None and vocabulary.pad is None and not any(row.masked for row in causal):
        # A run of one id at the ends of rows is padding, or the end token and padding of the same id.
        causal = [replace(row, masked=not row.inside.all()) for row in without_padding(causal, None)]
        if not _cuts_off(causal):
            return None
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


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """The token that follows all spans of labels, and is the last of rows, but has no label itself.

    `spans` counts those after which something else follows it, or padding; their last labels vary.
    """

    token: int
    name: str
    spans: int
    shown: str
    spot: Spot


FEWEST_ENDS, FEWEST_LENGTHS = 8, 3
"""Rows that must end in a token for it to end replies, and different lengths of spans: choices among answers have
one."""


def reply_end(rows: Sequence[TokenRow], vocabulary: Vocabulary, word: Word) -> ReplyEnd | None:
    """The end of replies, if it has no label; None if replies end in several tokens, or in one that is learned.

    Images that interrupt documents follow spans of labels, too, but end neither rows nor documents.
    """
    causal = [row for row in without_padding(rows, vocabulary.pad) if row.targets is not None]
    spans = [(row, start, after) for row in causal for start, after in _label_spans(row)]
    closed = [(row, start, after) for row, start, after in spans if after < len(row.tokens)]
    if not closed or not all(row.inside[after] for row, _, after in closed):
        return None
    followers = {int(row.tokens[after]) for row, _, after in closed}
    varied = len({int(row.tokens[after - 1]) for row, _, after in closed}) >= FEWEST_DISTINCT
    if len(followers) > 1 or not varied or len({after - start for _, start, after in closed}) < FEWEST_LENGTHS:
        return None
    token = followers.pop()
    first = {int(row.text[0]) for row in causal if len(row.text)}
    learned = any(bool((row.targets == token).any()) for row in causal if row.targets is not None)
    ends = sum(after == _last(row, token) or after + 1 in row.starts for row, _, after in closed)
    certain = [(row, after) for row, _, after in closed if _is_followed(row, after)]
    if learned or token in first | {vocabulary.bos} or ends < FEWEST_ENDS or len(certain) < FEWEST_ENDS:
        return None
    row, place = certain[0]
    shown = excerpt(row, [place], word)
    return ReplyEnd(token, named(token, word), len(certain), shown, spot_in("labels", row, [place]))


def _label_spans(row: TokenRow) -> list[tuple[int, int]]:
    """Where runs of labels begin, and where they have ended."""
    assert row.targets is not None
    edges = np.flatnonzero(np.diff((row.targets != IGNORED).astype(int), prepend=0, append=0))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _is_followed(row: TokenRow, place: int) -> bool:
    """Whether another token is after this one, or padding that is known."""
    following = place + 1
    return following < len(row.tokens) and bool(row.tokens[following] != row.tokens[place] or not row.inside[following])


def _last(row: TokenRow, token: int) -> int:
    """The first place from which on a row holds only this token, as far as the model sees it."""
    others = np.flatnonzero((row.tokens != token) & row.inside)
    return int(others[-1]) + 1 if len(others) else 0


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
