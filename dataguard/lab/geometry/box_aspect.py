"""Whether boxes and points are scaled by the side of the image that they lie along: files of other shapes show it.

The only image file of a sample is replaced by charts of its own shape, of one half as wide again, and of one half as
high again. Numbers that are scaled from pixels move with their own side, stored shares do not move; no number moves
with the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.decoding.file_substitution import IMAGES, DecodedFile, FileSubstitution
from dataguard.lab.decoding.image_headers import Header
from dataguard.lab.decoding.image_writer import in_format_of
from dataguard.lab.geometry.box_alignment import candidates_of, draw_of
from dataguard.lab.geometry.box_sources import BoxDraw, in_source
from dataguard.lab.geometry.box_tables import BoxFormat, fits, formats_of
from dataguard.lab.geometry.charted_reader import ChartedSample
from dataguard.lab.geometry.stripe_charts import CHARTS, pattern
from dataguard.lab.images.image_containers import is_image, planes_of
from dataguard.lab.process.forked_calls import in_fork
from dataguard.lab.reading.sample_reader import Reader
from dataguard.model import NotApplicable
from dataguard.targets.variants import Loader

SAMPLES = 4
"""Samples that are read."""
LARGER = 1.5
SHAPES = ((1.0, 1.0), (1.0, LARGER), (LARGER, 1.0))
"""The factors of height and width."""
READS = SAMPLES * (1 + len(SHAPES) * CHARTS)
FEWEST = 6
"""The fewest numbers that must move with the other side."""
FAR = 0.25
"""Numbers below this share of the image move too little to tell."""
CLOSE = 0.03
"""How far a number may be from where it is expected, as a share of the image."""


@dataclass(frozen=True, slots=True)
class BoxAspect:
    """A table whose numbers along an `axis`, "x" or "y", are scaled by the other side: so many `moved`, and none not.

    `index` is that of a sample.
    """

    path: str
    points: bool
    axis: str
    moved: int
    index: Index


def run_aspect(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> tuple[BoxAspect, ...]:
    """Read samples with their image file replaced by charts of other shapes, in this disposable process."""
    substitution = FileSubstitution(folder, IMAGES)
    substitution.install()
    reader = Reader(build(), folder)
    originals = [(index, *_read(reader, index, substitution)) for index in indices[:SAMPLES]]
    if any(len(files) != 1 or files[0].header is None for _, _, files, _ in originals):
        raise NotApplicable("samples are not read from one image file each, which could have another shape")
    candidates = candidates_of([sample for _, sample, *_ in originals])
    draws = [
        [_draw(reader, substitution, number, original, shape, candidates) for shape in SHAPES]
        for number, original in enumerate(originals)
    ]
    whole = [[draw for draw in of_sample if draw is not None] for of_sample in draws]
    complete = [of_sample for of_sample in whole if len(of_sample) == len(SHAPES)]
    if not complete or not candidates:
        raise NotApplicable(
            "no table in the sample has boxes or points in all rows, or its file cannot have another shape"
        )
    return tuple(
        BoxAspect(path, points, axis, moved, indices[0])
        for path, points in candidates.items()
        for axis, moved in _scaled_by_other_side(path, complete, points=points)
    )


Original = tuple[Index, ChartedSample, list[DecodedFile[Header]], list[bytes]]


def _read(
    reader: Reader, index: Index, substitution: FileSubstitution[Header]
) -> tuple[ChartedSample, list[DecodedFile[Header]], list[bytes]]:
    """A sample, and the image files that were decoded for it."""
    substitution.files.clear()
    substitution.contents.clear()
    substitution.keeps = True
    value = reader.read(index)
    leaves = {path: planes_of(leaf) for path, leaf in iter_leaves(value) if is_image(leaf)}
    return ChartedSample(index, (), leaves, value), list(substitution.files), list(substitution.contents)


def _draw(
    reader: Reader,
    substitution: FileSubstitution[Header],
    number: int,
    original: Original,
    shape: tuple[float, float],
    candidates: Mapping[str, bool],
) -> BoxDraw | None:
    """Where the image and the boxes of a sample come from if its file has this shape."""
    index, _, (file,), (content,) = original
    size = (file.header.height, file.header.width) if file.header else (0, 0)

    def read(chart: int) -> ChartedSample:
        height, width = (round(side * factor) for side, factor in zip(size, shape, strict=True))
        light = np.repeat(pattern(chart, height, width)[..., None] * np.uint8(255), 3, axis=2)
        substitution.substitute(file.name, content, in_format_of(content, light))
        sample, *_ = _read(reader, index, substitution)
        return sample

    views = [in_fork(partial(read, chart)) for chart in range(CHARTS)]
    shown = [view for view in views if view is not None]
    return draw_of(shown, number, 0, candidates) if len(shown) == CHARTS else None


def _scaled_by_other_side(path: str, draws: Sequence[Sequence[BoxDraw]], *, points: bool) -> list[tuple[str, int]]:
    """The axes along which every number moves with the other side, in every format that the table may have."""
    usual = [of_sample for of_sample in draws if all(path in draw.tables and draw.poses for draw in of_sample)]
    if not usual:
        return []
    held = [(draw.tables[path], next(iter(draw.poses.values())).size) for draw, *_ in usual]
    formats = [one for one in formats_of(held[0][0].shape[1], points=points) if fits(one, held, strictly=True)]
    found = [[(axis, _moved(path, box_format, usual, axis)) for axis in (0, 1)] for box_format in formats]
    return [
        ("xy"[axis], min(counts[axis][1] for counts in found))
        for axis in (0, 1)
        if found and all(counts[axis][1] >= FEWEST for counts in found)
    ]


def _moved(path: str, box_format: BoxFormat, draws: Sequence[Sequence[BoxDraw]], axis: int) -> int:
    """How many numbers along an axis move with the other side; 0 if any stays."""
    count = 0
    for of_sample in draws:
        usual, larger = of_sample[0], of_sample[2 - axis]
        if usual.tables[path].shape != larger.tables[path].shape:
            return 0
        name = next(iter(usual.poses))
        if name not in larger.poses:
            return 0
        before, after = (
            in_source(draw.poses[name].pose, box_format.corners(draw.tables[path], draw.poses[name].size))[:, axis::2]
            for draw in (usual, larger)
        )
        far = before >= FAR
        if (np.abs(after[far] - before[far] / LARGER) > CLOSE).any():
            return 0
        count += int(far.sum())
    return count
