"""Whether the vectors of a flow or normal map change their sign where a sample is flipped.

A sample is read in several random states. Where a map, or a crop of it, is the mirror image of itself in another state,
the component across the mirror has the opposite sign, as the things in the image then move or face the other way.

Surface normals are known by their length of 1. Two channels may be much else, such as colours or complex numbers: they
are a flow if their key says so, or beside two images of three channels and the same size.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.core.model import Location, NotApplicable
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.records import Index, LeafRecord
from dataguard.lab.culprit.line_trace import LineTrace
from dataguard.lab.geometry.keypoint_flips import ENOUGH_SAMPLES, FLIP_DRAWS
from dataguard.lab.images.painter import is_image, planes_of
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

SAMPLES = 4
"""Samples that are read, in `FLIP_DRAWS` random states each."""
READS = SAMPLES * FLIP_DRAWS
"""The most reads."""
UNIT, UNIT_SHARE = 0.02, 0.9
"""How far the length of a normal is from 1 at most, and the share of pixels that have one: others are background."""
OBLIQUE_SHARE = 0.1
"""The least share of pixels whose vector is along no axis: all are, in a mask with a channel for each class."""
SHARED = 0.25
"""The least share of a map that two crops of it have in common."""
PLACES = 16
"""Places that are tried for a value: few pixels have the same vector."""
_EQUAL: Any = {"rtol": 1e-4, "atol": 1e-6}
_FLOW = re.compile(r"(?i)flow|motion|displacement|velocity")
_AXES = {"horizontally": (-1, 0), "vertically": (-2, 1)}
"""For each flip, the axis of the pixels and the component that changes its sign: x comes first."""


@dataclass(frozen=True, slots=True)
class FlippedVectors:
    """A map of vectors, `kind` "flow" or "normals", and how often a flip changed the sign, or `kept` it.

    `how` is the direction of these flips, horizontally or vertically; the first is of the sample of this index.
    """

    path: str
    kind: str
    negated: int
    kept: int
    how: str
    index: Index


def flipped_vectors_of(subject: Subject) -> tuple[FlippedVectors, ...]:
    """What is found in a few samples. Raises NotApplicable if there are no maps of vectors beside images."""
    samples = [
        [leaf for leaf in sample.leaves if leaf.kind == "PIL.Image" or len(leaf.shape or ()) > 1]
        for sample in subject.epoch.samples
    ]
    if not any(len(leaves) > 1 and any(map(_may_be_vectors, leaves)) for leaves in samples):
        raise NotApplicable("no sample holds an image with a flow or a map of normals")
    indices, build = subject.epoch.asked(SAMPLES), partial(subject.build, num_workers=0)
    subject.afford_reads("vector maps", 1)
    kinds = subject.observe("vector maps", lambda folder: _find_maps(build(), folder, indices[0]))
    if not kinds:
        raise NotApplicable("no leaf is a flow or a map of normals")
    subject.afford_reads("flipped vectors", READS)
    return subject.observe("flipped vectors", lambda folder: _find_flipped(build(), folder, indices, kinds))


def line_of_unflipped(subject: Subject, vectors: FlippedVectors) -> Location | None:
    """The line of the user's code after which the map is flipped, and the sign of its vectors is kept."""
    build = subject.build
    return subject.observe(
        ("line of unflipped", vectors.path, vectors.how), lambda folder: _line(build(num_workers=0), folder, vectors)
    )


def _find_maps(loader: Loader, folder: Path, index: Index) -> dict[str, str]:
    """What the leaves of vectors in a sample are, "flow" or "normals", by path."""
    return _maps(_images(Reader(loader, folder).read(index)))


def _find_flipped(
    loader: Loader, folder: Path, indices: Sequence[Index], kinds: Mapping[str, str]
) -> tuple[FlippedVectors, ...]:
    """Read samples in several random states, until flips of these maps are seen."""
    reader = Reader(loader, folder, FLIP_DRAWS)
    seen: dict[str, list[tuple[Index, str, bool]]] = {}
    for index in indices[:SAMPLES]:
        states = [_images(reader.read(index, draw)) for draw in range(FLIP_DRAWS)]
        for path in kinds:
            held = [state[path] for state in states if path in state]
            for one, other in itertools.combinations(held, 2):
                seen.setdefault(path, []).extend((index, how, kept) for how, kept in _flips(one, other))
        if any(len({index for index, *_ in flips}) >= ENOUGH_SAMPLES for flips in seen.values()):
            break
    return tuple(
        _counted(path, kinds[path], how, among)
        for path, flips in seen.items()
        for how in _AXES
        if (among := [(index, kept) for index, along, kept in flips if along == how])
    )


def _line(loader: Loader, folder: Path, vectors: FlippedVectors) -> Location | None:
    reader = Reader(loader, folder, FLIP_DRAWS)
    for draw in range(FLIP_DRAWS):
        trace = LineTrace(partial(_state_of, kind=vectors.kind), {"dataset": loader.dataset})
        with trace.following():
            reader.read(vectors.index, draw)
        earlier: list[np.ndarray] = []
        for look in trace.looks:
            state: Any = look.state
            now = np.frombuffer(state[1]).reshape(state[0])
            if any(kept and how == vectors.how for one in earlier for how, kept in _flips(one, now)):
                return look.location
            earlier.append(now)
    return None


def _state_of(array: np.ndarray, kind: str) -> Hashable | None:
    """The values of a map of this kind, as float64."""
    planes = _planes(array)
    if planes is None or planes.dtype.kind != "f" or len(planes) != (3 if kind == "normals" else 2):
        return None
    if kind == "normals" and not _are_normals(planes):
        return None
    return planes.shape, planes.astype(np.float64).tobytes()


def _may_be_vectors(leaf: LeafRecord) -> bool:
    """Whether a leaf has two or three planes of floats."""
    shape = leaf.shape or ()
    return len(shape) == 3 and (leaf.dtype or "").startswith("float") and bool({shape[0], shape[-1]} & {2, 3})


def _images(sample: Any) -> dict[str, np.ndarray]:
    """The leaves with rows and columns, (planes, height, width), by path."""
    return {path: planes for path, leaf in iter_leaves(sample) if (planes := _planes(leaf)) is not None}


def _planes(leaf: Any) -> np.ndarray | None:
    """An image, or an array of vectors (height, width, 2), which would be a column of narrow images."""
    if isinstance(leaf, torch.Tensor | np.ndarray) and leaf.ndim == 3 and leaf.shape[-1] == 2 < leaf.shape[0]:
        return np.moveaxis(array_of(leaf), -1, 0)
    return planes_of(leaf) if is_image(leaf) else None


def _maps(images: Mapping[str, np.ndarray]) -> dict[str, str]:
    """What the leaves of vectors are, by path."""
    found = {}
    for path, planes in images.items():
        if planes.dtype.kind != "f" or not (planes < 0).any():
            continue
        beside = [other for name, other in images.items() if name != path and other.shape[1:] == planes.shape[1:]]
        if len(planes) == 3 and beside and _are_normals(planes):
            found[path] = "normals"
        elif len(planes) == 2 and (_FLOW.search(path) or sum(len(other) == 3 for other in beside) > 1):
            found[path] = "flow"
    return found


def _are_normals(planes: np.ndarray) -> bool:
    length = np.sqrt((planes.astype(np.float64) ** 2).sum(0))
    oblique = (np.abs(planes) < 1 - UNIT).all(0)
    return bool((np.abs(length - 1) < UNIT).mean() >= UNIT_SHARE and oblique.mean() >= OBLIQUE_SHARE)


def _flips(one: np.ndarray, other: np.ndarray) -> Iterator[tuple[str, bool]]:
    """The flip by which two states of a map differ, and whether the component across it kept its sign.

    Each may be another crop of the map: values say where they are the same.
    """
    if one.shape != other.shape or any(np.allclose(*both, **_EQUAL) for both in _overlaps(one, other)):
        return
    for how, (axis, component) in _AXES.items():
        for mirrored, shown in _overlaps(np.flip(one, axis), other):
            negated = mirrored.copy()
            negated[component] *= -1
            if np.array_equal(negated, mirrored):
                continue  # nothing points that way
            kinds = [kept for kept, same in ((True, mirrored), (False, negated)) if np.allclose(shown, same, **_EQUAL)]
            if kinds:
                yield how, kinds[0]
                break


def _overlaps(one: np.ndarray, other: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The parts of two maps that are equal up to the signs of their values, each at least `SHARED` of a map."""
    sizes, others = np.abs(one), np.abs(other)
    height, width = one.shape[1:]
    places = [(height // 2, width // 2), *itertools.product((height // 4, -height // 4), (width // 4, -width // 4))]
    tried = set()
    for y, x in places:
        y, x = y % height, x % width
        anchor = others[:, y, x, None, None]
        same = np.argwhere(np.isclose(sizes, anchor, **_EQUAL).all(0)) if anchor.any() else np.empty((0, 2), int)
        for down, across in sorted((same - (y, x)).tolist(), key=_length)[:PLACES]:
            if (down, across) in tried or (height - abs(down)) * (width - abs(across)) < SHARED * height * width:
                continue
            tried.add((down, across))
            if np.allclose(_cut(sizes, down, across), _cut(others, -down, -across), **_EQUAL):
                yield _cut(one, down, across), _cut(other, -down, -across)


def _length(step: Sequence[int]) -> int:
    return abs(step[0]) + abs(step[1])


def _cut(planes: np.ndarray, down: int, across: int) -> np.ndarray:
    """The part of a map that is also in one which begins so many pixels further down and across."""
    height, width = planes.shape[1:]
    return planes[:, max(down, 0) : height + min(down, 0), max(across, 0) : width + min(across, 0)]


def _counted(path: str, kind: str, how: str, flips: Sequence[tuple[Index, bool]]) -> FlippedVectors:
    kept = [index for index, keeps in flips if keeps]
    return FlippedVectors(path, kind, len(flips) - len(kept), len(kept), how, (kept or [flips[0][0]])[0])
