"""Whether a flip makes two keypoints or two classes of a mask the same: sides that are swapped one after the other.

`mask[mask == 2] = 3; mask[mask == 3] = 2` leaves no class 3, and `a[0], a[1] = a[1], a[0]` of two rows of an array
copies one of them. A sample is read in several random states. No name has to say which points or classes have sides:
those are the same in each state that is flipped, and differ in all others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.core.model import Location
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.records import Index, LeafRecord
from dataguard.lab.culprit.line_trace import LineTrace
from dataguard.lab.geometry.keypoint_flips import affine_map, class_mask, is_flip, is_visible
from dataguard.lab.geometry.symmetric_points import are_listed
from dataguard.lab.images.painter import SMALLEST_SIDE
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

SAMPLES, DRAWS = 4, 5
"""Samples that are read, and the random states of each: with a flip in half of them, all agree in one of 16 samples."""
READS = SAMPLES * DRAWS
"""The most reads."""
ENOUGH_SAMPLES = 2
"""Samples in which a flip merges the same pair: a second one confirms the first."""
MOST_CLASSES, BEYOND_CLASSES = 64, 1 << 16
"""How many values a mask of classes has, and how large they may be: others are numbers of instances, or no classes."""

Pairs = tuple[tuple[int, int], ...]
"""Numbers of the points or classes that are the same."""


@dataclass(frozen=True, slots=True)
class MergedSides:
    """The points or classes of a leaf that are the same in each of `flips` pairs of states that differ by a flip."""

    path: str
    classes: bool
    pairs: Pairs
    flips: int
    index: Index


def merged_sides_of(subject: Subject) -> tuple[MergedSides, ...]:
    """What is found in a few samples; nothing if none holds points or a mask."""
    if not any(_may_have_sides(leaf) for sample in subject.epoch.samples for leaf in sample.leaves):
        return ()
    indices, build = subject.epoch.asked(SAMPLES), partial(subject.build, num_workers=0)
    subject.afford_reads("merged sides", READS)
    return subject.observe("merged sides", lambda folder: find_merged(build(), folder, indices))


def line_of_merge(subject: Subject, merged: MergedSides) -> Location | None:
    """The line of the user's code after which two points or classes are the same."""
    build = subject.build
    return subject.observe(
        ("line of merge", merged.path), lambda folder: trace_merge(build(num_workers=0), folder, merged)
    )


def _may_have_sides(leaf: LeafRecord) -> bool:
    shape, dtype = leaf.shape or (), leaf.dtype or ""
    is_mask = len(shape) > 1 and math.prod(shape[:-2]) == 1 and min(shape[-2:]) >= SMALLEST_SIDE
    is_mask = is_mask and dtype.startswith(("int", "uint"))
    return is_mask or leaf.kind == "PIL.Image" or are_listed(shape)


def find_merged(loader: Loader, folder: Path, indices: Sequence[Index]) -> tuple[MergedSides, ...]:
    """Read samples in several random states, and compare each two."""
    reader = Reader(loader, folder, DRAWS)
    merges: dict[str, list[tuple[Index, Pairs]]] = {}
    others: set[str] = set()
    for index in indices[:SAMPLES]:
        states = [_states(reader.read(index, draw)) for draw in range(DRAWS)]
        if not any(_is_varied(path, states) for path in states[0]):
            break  # nothing is drawn, as a flip would be
        for one, other in itertools.permutations(states, 2):
            for path in one.keys() & other.keys():
                found = compared(one[path], other[path])
                if found is not None and found.flipped and found.pairs:
                    merges.setdefault(path, []).append((index, found.pairs))
                elif found is not None:  # they differ after a flip, or are the same without one
                    others.add(path)
    return tuple(
        MergedSides(path, states[0][path].dtype.kind in "iu", found[0][1], len(found), found[0][0])
        for path, found in merges.items()
        if path not in others and path in states[0] and len({index for index, _ in found}) >= ENOUGH_SAMPLES
    )


def _is_varied(path: str, states: Sequence[Mapping[str, np.ndarray]]) -> bool:
    return any(not np.array_equal(states[0][path], state.get(path, ())) for state in states[1:])


def trace_merge(loader: Loader, folder: Path, merged: MergedSides) -> Location | None:
    """The line after which a pair is first the same, in a read that flips the sample."""
    reader = Reader(loader, folder, DRAWS)
    for draw in range(DRAWS):
        trace = LineTrace(_state_of, {"dataset": loader.dataset})
        with trace.following():
            sample = _states(reader.read(merged.index, draw))
        final = sample.get(merged.path)
        earlier: list[np.ndarray] = []
        for look in trace.looks:
            state: Any = look.state
            now = np.frombuffer(state[1], state[2]).reshape(state[0])
            same = (one for one in earlier if final is not None and now.dtype.kind == final.dtype.kind)
            found = [both for one in same if (both := compared(one, now)) is not None and both.pairs]
            if any(set(both.pairs) & set(merged.pairs) for both in found):
                return look.location
            earlier.append(now)
    return None


def _states(sample: Any) -> dict[str, np.ndarray]:
    """The masks of a sample, (height, width) of int64, and its points, (points, 2 or 3) of float64, by path."""
    held = {path: sides_of(leaf) for path, leaf in iter_leaves(sample)}
    return {path: state for path, state in held.items() if state is not None}


def sides_of(leaf: Any) -> np.ndarray | None:
    """A leaf as a mask of classes or as points; None if it is neither."""
    array = array_of(leaf)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iuf" or array.ndim < 2:
        return None
    if are_listed(array.shape):
        return array.reshape(-1, array.shape[-1]).astype(np.float64)
    if array.dtype.kind == "f" or min(array.shape[-2:]) < SMALLEST_SIDE or array.size != math.prod(array.shape[-2:]):
        return None
    return class_mask(array)


def _state_of(array: np.ndarray) -> Hashable | None:
    state = sides_of(array)
    return None if state is None else (state.shape, state.tobytes(), state.dtype.str)


@dataclass(frozen=True, slots=True)
class Change:
    """How a state differs from an earlier one: whether it is `flipped`, and the `pairs` that it makes the same."""

    flipped: bool
    pairs: Pairs


def compared(one: np.ndarray, other: np.ndarray) -> Change | None:
    """How a mask or points differ from another state; None if that is not known, or they do not."""
    if one.shape != other.shape or one.dtype != other.dtype or np.array_equal(one, other):
        return None
    return _compared_masks(one, other) if one.dtype.kind == "i" else _compared_points(one, other)


def _compared_masks(one: np.ndarray, other: np.ndarray) -> Change | None:
    if min(one.min(), other.min()) < 0 or max(one.max(), other.max()) >= BEYOND_CLASSES:
        return None
    for flipped, moved in ((False, one), (True, one[:, ::-1])):
        both = np.unique(moved * BEYOND_CLASSES + other)
        images = dict(zip((both // BEYOND_CLASSES).tolist(), (both % BEYOND_CLASSES).tolist(), strict=True))
        if len(images) != len(both) or len(images) > MOST_CLASSES:
            continue  # a class became several
        merged = [(old, new) for old, new in images.items() if old != new and images.get(new) == new]
        if merged or flipped:
            return Change(flipped, tuple((min(pair), max(pair)) for pair in merged))
    return None


def _compared_points(one: np.ndarray, other: np.ndarray) -> Change | None:
    seen = (is_visible(one[None]) & is_visible(other[None]))[0]
    points, images = one[:, :2], other[:, :2]
    pairs = [
        (first, second)
        for first, second in itertools.combinations(np.flatnonzero(seen).tolist(), 2)
        if (images[first] == images[second]).all() and (points[first] != points[second]).any()
    ]
    if len({number for pair in pairs for number in pair}) != 2 * len(pairs):
        return None  # several are in one place, such as a corner
    for left_out in zip(*pairs, strict=True) if pairs else [()]:
        kept = seen.copy()
        kept[list(left_out)] = False
        matrix = affine_map(points[kept], images[kept])
        if matrix is not None and (is_flip(matrix) or pairs):
            return Change(is_flip(matrix), tuple(pairs))
    return None
