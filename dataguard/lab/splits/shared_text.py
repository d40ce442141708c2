"""Text that windows of two splits have in common: of the whole text that they hold, or of the samples that are read.

A split often holds one long text, as characters or numbers of tokens, and cuts its samples out of it. Where a sample
begins in it is found by its pattern: how far back the same character was last. So it does not matter which numbers the
characters are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset

from dataguard.lab.core.leaves import array_of
from dataguard.lab.core.records import Index, LeafRecord
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.stores import held_values
from dataguard.lab.spy.sample_ledger import (
    FEWEST_TOKENS,
    places_of_shingles,
    shingles_of,
    token_rows,
)
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

TOKEN_WINDOWS, QUICK_WINDOWS, ALL_WINDOWS = 256, 4096, 20_000
"""How many samples of each split are read, how many if that takes little, and how many if every sample is requested:
limits of time and memory. A text that is shared in whole is seen if the windows cover a good part of it."""
FEWEST_SHINGLES, VARIED_SHARE = 64, 0.1
"""The fewest different shingles of a split, and their least share: others are a pattern, and no text, such as one that
repeats a template in every row."""
SAME_TEXT_SHARE, FEWEST_IN_WINDOW = 0.8, 4
"""The share of the shingles of a window, of which there are so many at least, that make it text of the other split. A
leaked split was measured to share 0.86 to 1, a healthy one 0.03."""

Shingles = Mapping[Index, Sequence[int]]


@dataclass(frozen=True, slots=True)
class SharedText:
    """How many `windows` of a split, `of` those that were read, are text of another one; and the first `pair`.

    The pair holds an index of this split and one of the other. `whole`: all text of both was compared. `cut`: it is cut
    so that one split begins before the other one ends.
    """

    windows: int
    of: int
    pair: tuple[Index, Index] | None
    whole: bool = False
    cut: bool = False


def shared_text(subject: Subject, other: Subject, indices: tuple[Sequence[int], Sequence[int]]) -> SharedText | None:
    """The text that two splits have in common; None if a split has no tokens, or they are no text.

    `indices` are all those that each of them requests, none if these are not known.
    """
    if not (_has_tokens(subject) and _has_tokens(other)):
        return None
    if (held := _held_text(subject, indices[0])) and (earlier := _held_text(other, indices[1])):
        return _compared(held, earlier)
    own, theirs = _shingles(subject), _shingles(other)
    if not (_is_text(own) and _is_text(theirs)):
        return None
    index_of = {shingle: index for index, shingles in theirs.items() for shingle in shingles}
    windows = {index: shingles for index, shingles in own.items() if len(shingles) >= FEWEST_IN_WINDOW}
    shared = {
        index: known[0]
        for index, shingles in windows.items()
        if len(known := [index_of[shingle] for shingle in shingles if shingle in index_of])
        >= SAME_TEXT_SHARE * len(shingles)
    }
    return SharedText(len(shared), len(windows), next(iter(shared.items()), None))


def _has_tokens(subject: Subject) -> bool:
    return any(_is_tokens(sample.leaves) for sample in subject.epoch.samples[:1])


def _is_tokens(leaves: Sequence[LeafRecord]) -> bool:
    """Whether a sample holds a long row of integers."""
    rows = [leaf for leaf in leaves if len(leaf.shape or ()) == 1 and "int" in (leaf.dtype or "")]
    listed = sum(leaf.kind == "int" for leaf in leaves)
    return max((leaf.size for leaf in rows), default=listed) >= FEWEST_TOKENS


def _is_text(shingles: Shingles) -> bool:
    every = [shingle for each in shingles.values() for shingle in each]
    return len(set(every)) >= max(FEWEST_SHINGLES, VARIED_SHARE * len(every))


def _shingles(subject: Subject) -> Shingles:
    quick = subject.affordable_reads(min(QUICK_WINDOWS, len(subject.epoch.indices)), TOKEN_WINDOWS)
    indices = subject.epoch.asked(ALL_WINDOWS if subject.settings.all else quick)
    subject.afford_reads("shingles", len(indices))
    found: Shingles = subject.observe("shingles", lambda folder: _read_token_windows(subject.build, folder, indices))
    return found


def _read_token_windows(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> Shingles:
    reader = Reader(build(), folder)
    return {index: shingles_of(reader.read(index)) for index in indices}


LONGEST_TEXT = 1 << 23
"""Characters or tokens of a text that is compared: a limit of time and memory, 0.3 us and 30 bytes for each."""
WINDOWS_OF_TEXT = 4
"""A text is at least so many samples long: what is shorter may be one that a split holds for each sample."""
LOCATED = (0, 0.19, 0.46, 0.71, 1)
"""The samples that are looked for in the text, as shares of all: at even steps, those in one place of it say where the
others begin."""
FEWEST_REPEATS = 8
"""Characters of a sample whose last occurrence is in it: few patterns are the same by chance in a million places."""
LONGEST_SHINGLE = 64
"""Characters or tokens of a shingle, if a window has so many: as characters, 16 may be a usual phrase."""
RUN_SHARE, PAST_WINDOWS = 0.75, 2
"""A run of shared shingles counts from this share of a window on, as not every shingle is kept. The first one of a
split, up to so many windows, may be the past that its first sample needs."""
NEAR_EDGE = 256
"""Characters or tokens from the end of a text within which is the last shingle that is kept."""


@dataclass(frozen=True, slots=True)
class HeldText:
    """The text that the samples of a split are cut out of: the shingles that samples cover, and their places.

    The sample of number n covers `window` characters or tokens from `first + n * step` on: `covered` in all, from
    `begin` to `end`. The number is the index, but for a subset, of which `numbers` are sorted. `stretches` has the
    number of what is covered without a gap, for each shingle.
    """

    places: np.ndarray
    hashes: np.ndarray
    stretches: np.ndarray
    window: int
    first: int
    step: int
    covered: int
    begin: int
    end: int
    numbers: np.ndarray
    indices: np.ndarray

    def index_at(self, place: int) -> int:
        """The index of the first sample that begins there or after it, or of the last one."""
        found = int(np.searchsorted(self.numbers, (place - self.first) / self.step))
        return int(self.indices[min(found, len(self.indices) - 1)])


def _held_text(subject: Subject, indices: Sequence[int]) -> HeldText | None:
    if not indices:
        return None
    subject.afford_reads("held text", len(LOCATED))
    return subject.observe("held text", lambda folder: find_held_text(subject.build, folder, indices))


def find_held_text(build: Callable[..., Loader], folder: Path, indices: Sequence[int]) -> HeldText | None:
    """The text that samples of these indices are cut out of at even steps; None if the dataset holds none."""
    reader = Reader(build(num_workers=0), folder)
    numbers, inner = np.asarray(indices, np.int64), reader.dataset
    while type(inner) is Subset:
        numbers, inner = np.asarray(inner.indices, np.int64)[numbers], inner.dataset
    order = np.argsort(numbers, kind="stable")
    asked = order[[round(share * (len(order) - 1)) for share in LOCATED]].tolist()
    rows = [
        (int(numbers[place]), max(token_rows(reader.read(indices[place])), key=len, default=np.empty(0)))
        for place in asked
    ]
    window = len(rows[0][1])
    if window < FEWEST_TOKENS or any(len(row) != window for _, row in rows):
        return None
    for _, value, _ in held_values(inner):
        text = _text_of(value, WINDOWS_OF_TEXT * window)
        if text is not None and (found := _first_and_step(text, rows)) is not None:
            return _held(text, window, *found, numbers[order], np.asarray(indices)[order])
    return None


def _first_and_step(text: np.ndarray, rows: Sequence[tuple[int, np.ndarray]]) -> tuple[int, int] | None:
    """Where in the text the sample of number 0 begins, and how far behind it the next one; None if not all are so."""
    back = _distances(text)
    places = [(number, _located(back, row)) for number, row in rows]
    single = [(number, int(starts[0])) for number, starts in places if len(starts) == 1]
    (one, begin), (two, end) = (single[0], single[-1]) if single else ((0, 0), (0, 0))
    step, rest = divmod(end - begin, max(two - one, 1))
    if step <= 0 or rest or not all(begin + (number - one) * step in starts for number, starts in places):
        return None
    return begin - one * step, step


def _held(text: np.ndarray, window: int, first: int, step: int, numbers: np.ndarray, indices: np.ndarray) -> HeldText:
    changes = np.zeros(len(text) + 1, np.int64)
    begins = np.clip(first + step * numbers, 0, len(text))
    np.add.at(changes, begins, 1)
    np.add.at(changes, np.clip(begins + window, 0, len(text)), -1)
    covered = np.cumsum(changes[:-1]) > 0
    length = min(window, LONGEST_SHINGLE)
    places, hashes = places_of_shingles(text, length)
    gaps = np.cumsum(~covered)  # a shingle is covered if nothing within it is not
    inside = covered[places] & (gaps[places + length - 1] == gaps[places])
    begin, end = int(covered.argmax()), len(text) - int(covered[::-1].argmax())
    found = places[inside], hashes[inside], gaps[places[inside]]
    return HeldText(*found, window, first, step, int(covered.sum()), begin, end, numbers, indices)


def _text_of(value: Any, least: int) -> np.ndarray | None:
    """The characters or tokens of a text as numbers; None of anything else."""
    kind = type(value)
    if kind in (list, tuple):
        if not least <= len(value) <= LONGEST_TEXT:
            return None
        if all(type(one) is int for one in value):
            return np.asarray(value)
        value = "".join(value) if all(type(one) is str and len(one) == 1 for one in value) else ""
    if isinstance(value, str):
        value = np.frombuffer(value.encode("utf-32-le", "surrogatepass"), np.uint32)
    elif isinstance(value, bytes):
        value = np.frombuffer(value, np.uint8)
    if not issubclass(type(value), np.ndarray | torch.Tensor) or value.ndim != 1:
        return None
    if not least <= len(value) <= LONGEST_TEXT:
        return None
    array = array_of(value)
    return array if array.dtype.kind in "iu" else None


def _located(back: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Where a row may begin in a text, of which `back` are the distances; everywhere if it has no pattern."""
    own = _distances(row)
    starts = np.arange(len(back) - len(row) + 1)
    if (own > 0).sum() < FEWEST_REPEATS:
        return starts
    for offset in np.argsort(-own, kind="stable"):  # a character that was last seen long ago is rare
        here = back[starts + offset]
        starts = starts[here == own[offset]] if own[offset] else starts[(here == 0) | (here > offset)]
    return starts


def _distances(text: np.ndarray) -> np.ndarray:
    """How far back the same number was last, 0 where it was not."""
    order = np.argsort(text, kind="stable")
    back = np.zeros(len(text), np.int64)
    same = np.diff(text[order].astype(np.int64)) == 0
    back[order[1:][same]] = np.diff(order)[same]
    return back


def _compared(own: HeldText, earlier: HeldText) -> SharedText:
    """The text of a split that is in an earlier one, in runs about as long as a window."""
    place_of = dict(zip(earlier.hashes.tolist(), earlier.places.tolist(), strict=True))
    window = max(own.window, earlier.window)
    shared, pair, cut = 0, None, False
    for begin, end, hashes in _runs(own, np.isin(own.hashes, earlier.hashes)):
        past = begin - own.begin < NEAR_EDGE and end - begin < PAST_WINDOWS * window
        if past or end - begin < RUN_SHARE * window:
            continue
        shared += end - begin
        theirs = [place_of[one] for one in (int(hashes[0]), int(hashes[-1]))]
        pair = pair or (own.index_at(begin), earlier.index_at(theirs[0]))
        at_edge = begin - own.begin < NEAR_EDGE or own.end - end < NEAR_EDGE
        near = theirs[0] - earlier.begin < NEAR_EDGE or earlier.end - theirs[1] < NEAR_EDGE
        cut = cut or (at_edge and near and end - begin >= PAST_WINDOWS * window)
    count = len(own.indices)
    return SharedText(round(count * shared / max(own.covered, 1)), count, pair, whole=True, cut=cut)


def _runs(text: HeldText, shared: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """Where each run of neighbouring shingles that are shared begins and ends, and their hashes."""
    run_of = np.where(shared, text.stretches, -1)
    changes = [0, *(np.flatnonzero(np.diff(run_of)) + 1), len(run_of)]
    length = min(text.window, LONGEST_SHINGLE)
    for first, after in pairwise(changes):
        if first < after and shared[first]:
            yield int(text.places[first]), int(text.places[after - 1]) + length, text.hashes[first:after]
