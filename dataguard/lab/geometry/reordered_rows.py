"""Whether what belongs to each entry of a sequence, graph or set follows when these are put in another order.

A sample is read in several random states. If the entries of one leaf are those of another state in another order, such
as reversed, or as the other strand of DNA, those of a leaf beside it have to be in that order, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.core.model import Location
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.records import Index, LeafRecord
from dataguard.lab.culprit.line_trace import LineTrace
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

SAMPLES, DRAWS, FIRST_DRAWS = 3, 6, 3
"""Samples that are read, the random states of each, and of those the ones that show whether samples vary."""
READS = SAMPLES * DRAWS
"""The most reads."""
FEWEST_ENTRIES = 8
"""Entries of a sequence: fewer may be in the same order by chance."""
MOST_ENTRIES = 100_000
"""Values of the largest leaf that is compared."""
MOST_LETTERS, LETTER_TIMES = 8, 4
"""An alphabet whose letters may be exchanged for others, as those of DNA are, and how often each occurs on average."""


@dataclass(frozen=True, slots=True)
class ReorderedRows:
    """A leaf whose entries are in another order in some random states, and one beside it that keeps its own.

    `kept` counts pairs of states in which it does, of so many `compared`; `is_reversed`: the other order is always the
    opposite one.
    """

    path: str
    other: str
    entries: int
    kept: int
    compared: int
    is_reversed: bool
    index: Index


def reordered_rows_of(subject: Subject) -> tuple[ReorderedRows, ...]:
    """What is found for a loader; nothing if no sample has two leaves of one length."""
    if not any(_may_belong_together(sample.leaves) for sample in subject.epoch.samples):
        return ()
    indices, build = subject.epoch.asked(SAMPLES), subject.build
    subject.afford_reads("reordered rows", READS)
    return subject.observe("reordered rows", lambda folder: _find(Reader(build(num_workers=0), folder, DRAWS), indices))


def line_of_order(subject: Subject, rows: ReorderedRows) -> Location | None:
    """The line of the user's code after which entries are in the opposite order of what they were."""
    build = subject.build
    return subject.observe(("line of order", rows.path), lambda folder: _line(build(num_workers=0), folder, rows))


def _may_belong_together(leaves: Sequence[LeafRecord]) -> bool:
    shapes = [leaf.shape for leaf in leaves if leaf.shape and len(leaf.shape) < 3 and not leaf.constant]
    lengths = [{size for size in shape if size >= FEWEST_ENTRIES} for shape in shapes]
    return any(one & other for one, other in itertools.combinations(lengths, 2))


def _find(reader: Reader, indices: Sequence[Index]) -> tuple[ReorderedRows, ...]:
    """Read samples in several random states, and compare the order of their entries."""
    states: dict[Index, list[Mapping[str, np.ndarray]]] = {}
    for index in indices[:SAMPLES]:
        first = [_arrays(reader.read(index, draw)) for draw in range(FIRST_DRAWS)]
        if not states and all(_are_equal(first[0], one) for one in first[1:]):
            return ()
        states[index] = first + [_arrays(reader.read(index, draw)) for draw in range(FIRST_DRAWS, DRAWS)]
    found = []
    for path, other in itertools.permutations(next(iter(states.values()))[0], 2):
        one = _compared(path, other, states)
        if one is not None:
            found.append(one)
    return tuple(found)


def _compared(
    path: str, other: str, states: Mapping[Index, Sequence[Mapping[str, np.ndarray]]]
) -> ReorderedRows | None:
    """How two leaves of these samples are ordered; None if nothing says that they belong together."""
    pairs = {
        index: [
            (one[path], two[path], one[other], two[other])
            for one, two in itertools.pairwise(draws)
            if path in one and path in two and other in one and other in two
        ]
        for index, draws in states.items()
    }
    labels = [each[0][2] for each in pairs.values() if each]
    if any(_may_be_image(each[0][0]) and _may_be_image(each[0][2]) for each in pairs.values() if each):
        return None  # which charts show
    if len(labels) < 2 or all(np.array_equal(labels[0], label) for label in labels[1:]):
        return None  # positions or times that all samples have
    varied = len({label.shape for label in labels}) > 1
    kept, compared, reversed_pairs, entries = 0, 0, 0, 0
    first: Index = None
    for index, each in pairs.items():
        for one, two, label, again in each:
            order, is_reversed = _order(one, two, reversals_only=not varied)
            if order is None or len(order) not in label.shape or _holds_the_same(one, label):
                continue
            rows = np.moveaxis(label, label.shape.index(len(order)), 0)
            if np.array_equal(rows[order], rows) or _is_monotonic(rows):
                continue
            compared += 1
            if np.array_equal(label, again):
                first, entries = (first, entries) if kept else (index, len(order))
                kept, reversed_pairs = kept + 1, reversed_pairs + is_reversed
    return ReorderedRows(path, other, entries, kept, compared, reversed_pairs == kept, first) if compared else None


def _order(one: np.ndarray, two: np.ndarray, *, reversals_only: bool) -> tuple[np.ndarray | None, bool]:
    """The order in which the entries of the one are in the other, and whether it is the opposite; None if it is none.

    Leaves of one length in all samples may have it by chance: entries of theirs in any order say nothing then.
    """
    if one.shape != two.shape or np.array_equal(one, two):
        return None, False
    for axis in range(one.ndim):
        rows, others = (np.moveaxis(array, axis, 0) for array in (one, two))
        if len(rows) < FEWEST_ENTRIES:
            continue
        backwards = np.arange(len(rows))[::-1]
        if _are_alike(rows[::-1], others):
            return backwards, True
        if reversals_only:
            continue
        places = {row.tobytes(): place for place, row in enumerate(np.ascontiguousarray(rows))}
        order = [places.get(row.tobytes(), -1) for row in np.ascontiguousarray(others)]
        if len(places) == len(rows) and sorted(order) == list(range(len(rows))):
            return np.array(order), False
    return None, False


def _are_alike(rows: np.ndarray, others: np.ndarray) -> bool:
    """Whether two sequences are equal, but for letters or columns that are exchanged for others."""
    if np.array_equal(rows, others):
        return True
    if rows.ndim == 1:
        letters = len(np.unique(rows))
        exchanged = set(zip(rows.tolist(), others.tolist(), strict=True))
        few = letters <= MOST_LETTERS and len(rows) >= LETTER_TIMES * letters
        return few and len(exchanged) == letters == len({letter for _, letter in exchanged})
    columns = sorted(column.tobytes() for column in np.ascontiguousarray(rows.T))
    return columns == sorted(column.tobytes() for column in np.ascontiguousarray(others.T))


def _may_be_image(array: np.ndarray) -> bool:
    """Whether an array has a height and a width."""
    return array.ndim == 2 and min(array.shape) >= FEWEST_ENTRIES


def _holds_the_same(one: np.ndarray, label: np.ndarray) -> bool:
    """Whether what is to be restored are the entries themselves, in their first order."""
    return one.size == label.size and np.array_equal(np.sort(one, axis=None), np.sort(label, axis=None))


def _is_monotonic(rows: np.ndarray) -> bool:
    """Whether entries count positions or times, or are those of a mask of padding."""
    if rows.ndim > 1 or rows.dtype.kind not in "bif":
        return False
    steps = np.diff(rows.astype(np.float64))
    return bool((steps >= 0).all() or (steps <= 0).all())


def _arrays(sample: Any) -> dict[str, np.ndarray]:
    """The leaves of a sample that may be sequences, by path."""
    arrays = ((path, array_of(leaf)) for path, leaf in iter_leaves(sample))
    return {
        path: array
        for path, array in arrays
        if array.ndim in (1, 2) and array.dtype.kind in "biuf" and FEWEST_ENTRIES <= array.size <= MOST_ENTRIES
    }


def _are_equal(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(values, other[path], equal_nan=values.dtype.kind == "f") for path, values in one.items()
    )


def _line(loader: Loader, folder: Path, found: ReorderedRows) -> Location | None:
    """Where a variable first has the entries of an earlier one in another order, in one of the states."""
    reader = Reader(loader, folder, DRAWS)
    for draw in range(DRAWS):
        trace = LineTrace(_content, {"dataset": loader.dataset})
        with trace.following():
            reader.read(found.index, draw)
        earlier: list[np.ndarray] = []
        for look in trace.looks:
            state: Any = look.state
            now = np.frombuffer(state[1], state[2]).reshape(state[0])
            if any(_order(one, now, reversals_only=found.is_reversed)[0] is not None for one in earlier):
                return look.location
            earlier.append(now)
    return None


def _content(array: np.ndarray) -> tuple[tuple[int, ...], bytes, str] | None:
    if array.ndim not in (1, 2) or array.dtype.kind not in "biuf" or not FEWEST_ENTRIES <= array.size <= MOST_ENTRIES:
        return None
    return array.shape, array.tobytes(), array.dtype.str
