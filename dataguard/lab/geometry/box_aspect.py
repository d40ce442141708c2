"""Whether boxes and points are scaled by the side of the image that they lie along: files of other shapes show it.

The only image file of a sample is replaced by charts of its own shape, of one half as wide again, and of one half as
high again. Numbers that are scaled from pixels move with their own side, stored shares do not move; no number moves
with the other side, nor by the same distance as all others, as if the padding of the image were missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from dataguard.core.model import NotApplicable
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.records import Index
from dataguard.lab.decoding.file_substitution import IMAGES, DecodedFile, FileSubstitution
from dataguard.lab.decoding.image_files import Header, in_format_of
from dataguard.lab.geometry.box_alignment import BoxDraw, draw_of, in_source
from dataguard.lab.geometry.box_tables import (
    BoxFormat,
    candidates_of,
    fits,
    formats_of,
    tables_of,
    unnamed_points,
)
from dataguard.lab.geometry.charted_reader import ChartedSample
from dataguard.lab.geometry.charts import CHARTS, pattern
from dataguard.lab.images.painter import is_image, planes_of
from dataguard.lab.process.isolation import in_fork
from dataguard.lab.reading.sample_reader import Reader
from dataguard.targets.variants import Loader

ASPECT_SAMPLES = 4
"""Samples that are read: a limit of time, as each takes 22 reads."""
SIDE_FACTOR = 1.5
"""How much larger a side is made: a number at a quarter of the image then moves by a twelfth of it, which is more than
twice `CLOSE_DISTANCE`."""
SHAPE_FACTORS = ((1.0, 1.0), (1.0, SIDE_FACTOR), (SIDE_FACTOR, 1.0))
"""The factors of height and width."""
ASPECT_READS = 1 + ASPECT_SAMPLES * (1 + len(SHAPE_FACTORS) * CHARTS)
"""Reads of all samples: each as it is, and with every chart in every shape."""
FEWEST_NUMBERS = 6
"""The fewest numbers that must move with the other side: fewer could all be near an edge by chance."""
FAR_SHARE = 0.25
"""Numbers below this share of the image move too little to be compared."""
INSIDE_SHARE = 0.6
"""The share of rows that must lie inside their image: those that are scaled by the other side may not, and all others
do."""
SHIFTED_DISTANCE, SPREAD_RANGE, EVEN_RANGE = 0.05, 0.25, 0.015
"""How far boxes that lack the padding are off, how far apart those of a sample are, and how even the distance is, as
shares of the image.

The padding of a letterbox is 0.17 of its side for an image that is half as long again; what rounding adds stays within
`EVEN_RANGE`, one pixel in 64.
"""
CLOSE_DISTANCE = 0.03
"""How far a number may be from where it is expected, as a share of the image: as for the corners of boxes."""


@dataclass(frozen=True, slots=True)
class BoxAspect:
    """A table whose numbers along an `axis`, "x" or "y", are scaled by the other side: so many `moved`, and none not.

    With a `shift`, a share of the image, they are all off by as much instead. `index` is that of a sample.
    """

    path: str
    points: bool
    axis: str
    moved: int
    index: Index
    shift: float = 0.0


def need_one_file(build: Callable[..., Loader], folder: Path, index: Index) -> None:
    """Raise NotApplicable unless this sample is read from one image file."""
    _originals(build(), folder, (index,))


def run_aspect(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> tuple[BoxAspect, ...]:
    """Read samples with their image file replaced by charts of other shapes, in this disposable process."""
    reader, substitution, originals = _originals(build(), folder, indices[:ASPECT_SAMPLES])
    samples = [sample for _, sample, *_ in originals]
    named = candidates_of(samples, INSIDE_SHARE)
    # Where all are inside, they may as well be rows and columns, each divided by its own side.
    unnamed = unnamed_points(samples, INSIDE_SHARE) - unnamed_points(samples) - named.keys()
    candidates = named | dict.fromkeys(_changing(reader, substitution, originals[0], unnamed), True)
    if not candidates:
        raise NotApplicable("no table in the sample has boxes or points in all rows")
    draws = [
        [_draw(reader, substitution, number, original, shape, candidates) for shape in SHAPE_FACTORS]
        for number, original in enumerate(originals)
    ]
    whole = [[draw for draw in of_sample if draw is not None] for of_sample in draws]
    complete = [of_sample for of_sample in whole if len(of_sample) == len(SHAPE_FACTORS)]
    if not complete:
        raise NotApplicable("the image file of a sample cannot have another shape")
    judged = [(path, points, _samples_with_table(path, complete)) for path, points in candidates.items()]
    scaled = [
        BoxAspect(path, points, axis, moved, indices[0])
        for path, points, usual in judged
        for axis, moved in _scaled_by_other_side(path, usual, points=points)
    ]
    shifted = [
        BoxAspect(path, points, "xy"[axis], count, indices[0], shift)
        for path, points, usual in judged
        if path in named
        for axis in (0, 1)
        for count, shift in [_evenly_shifted(path, usual, axis, points=points)]
        if count >= FEWEST_NUMBERS
    ]
    if scaled or not shifted:
        return tuple(scaled)
    again = [_draw(reader, substitution, number, one, (1, 1), candidates, 1) for number, one in enumerate(originals)]
    usual = [(of_sample[0], other) for of_sample, other in zip(draws, again, strict=True)]
    return tuple(one for one in shifted if not _moves_by_chance(one, usual))


Original = tuple[Index, ChartedSample, list[DecodedFile[Header]], list[bytes]]


def _originals(
    loader: Loader, folder: Path, indices: Sequence[Index]
) -> tuple[Reader, FileSubstitution[Header], list[Original]]:
    """Samples as they are. Raises NotApplicable unless each is read from one image file."""
    substitution = FileSubstitution(folder, IMAGES)
    substitution.install()
    reader = Reader(loader, folder)
    reader.read(indices[0])  # so that what is opened only once is open
    originals = [(index, *_read(reader, index, substitution)) for index in indices]
    if any(len(files) != 1 or files[0].header is None for _, _, files, _ in originals):
        raise NotApplicable("samples are not read from one image file each, which could have another shape")
    return reader, substitution, originals


def _read(
    reader: Reader, index: Index, substitution: FileSubstitution[Header], random_state: int = 0
) -> tuple[ChartedSample, list[DecodedFile[Header]], list[bytes]]:
    """A sample, and the image files that were decoded for it."""
    substitution.files.clear()
    substitution.contents.clear()
    substitution.keeps = True
    value = reader.read(index, random_state)
    leaves = {path: planes_of(leaf) for path, leaf in iter_leaves(value) if is_image(leaf)}
    return ChartedSample(index, (), leaves, value), list(substitution.files), list(substitution.contents)


def _changing(reader: Reader, substitution: FileSubstitution[Header], original: Original, paths: Set[str]) -> set[str]:
    """Those of these tables that change with the shape of the image file, as nothing else of a sample does."""
    if not paths:
        return set()
    views = [in_fork(partial(_read_chart, reader, substitution, original, shape, 0, 0)) for shape in SHAPE_FACTORS]
    held = [{path: table for path, _, table in tables_of(view.value)} for view in views if view is not None]
    if len(held) < len(SHAPE_FACTORS):
        return set()
    usual, *others = held
    seen = paths & usual.keys()
    return {path for path in seen if any(not np.array_equal(usual[path], one[path]) for one in others if path in one)}


def _read_chart(
    reader: Reader,
    substitution: FileSubstitution[Header],
    original: Original,
    shape: tuple[float, float],
    random_state: int,
    chart: int,
) -> ChartedSample:
    """A sample whose image file is a chart of this shape; to be called in a fork."""
    index, _, (file,), (content,) = original
    size = (file.header.height, file.header.width) if file.header else (0, 0)
    height, width = (round(side * factor) for side, factor in zip(size, shape, strict=True))
    light = np.repeat(pattern(chart, height, width)[..., None] * np.uint8(255), 3, axis=2)
    substitution.substitute(file.name, content, in_format_of(content, light))
    sample, *_ = _read(reader, index, substitution, random_state)
    return sample


def _draw(
    reader: Reader,
    substitution: FileSubstitution[Header],
    number: int,
    original: Original,
    shape: tuple[float, float],
    candidates: Mapping[str, bool],
    random_state: int = 0,
) -> BoxDraw | None:
    """Where the image and the boxes of a sample come from if its file has this shape, under a random state."""
    read = partial(_read_chart, reader, substitution, original, shape, random_state)
    views = [in_fork(partial(read, chart)) for chart in range(CHARTS)]
    shown = [view for view in views if view is not None]
    return draw_of(shown, number, 0, candidates) if len(shown) == CHARTS else None


Shapes = Sequence[Sequence[BoxDraw]]
"""The draws of each sample, one for each of `SHAPE_FACTORS`."""


def _samples_with_table(path: str, draws: Shapes) -> Shapes:
    """The samples that have a table, and show their image, in all shapes."""
    return [of_sample for of_sample in draws if all(path in draw.tables and draw.poses for draw in of_sample)]


def _formats(path: str, draws: Shapes, *, points: bool) -> list[BoxFormat]:
    """The formats in which all rows can be boxes or, if there is none, most."""
    held = [(draw.tables[path], next(iter(draw.poses.values())).size) for draw, *_ in draws]
    formats = formats_of(held[0][0].shape[1], points=points) if held else []
    fitting = (
        [box_format for box_format in formats if fits(box_format, held, strictly=True, share=share)]
        for share in (1.0, INSIDE_SHARE)
    )
    return next(filter(None, fitting), [])


def _scaled_by_other_side(path: str, draws: Shapes, *, points: bool) -> list[tuple[str, int]]:
    """The axes along which every number moves with the other side, in every format that the table may have."""
    formats = _formats(path, draws, points=points)
    counts_by_format = [[(axis, _moved(path, box_format, draws, axis)) for axis in (0, 1)] for box_format in formats]
    return [
        ("xy"[axis], min(counts[axis][1] for counts in counts_by_format))
        for axis in (0, 1)
        if counts_by_format and all(counts[axis][1] >= FEWEST_NUMBERS for counts in counts_by_format)
    ]


def _moved(path: str, box_format: BoxFormat, draws: Shapes, axis: int) -> int:
    """How many numbers along an axis move with the other side; 0 if any stays."""
    count = 0
    for of_sample in draws:
        both = _positions(path, box_format, of_sample[0], of_sample[2 - axis], axis)
        if both is None:
            return 0
        before, after = both
        inside = (before < 1 - CLOSE_DISTANCE).all(1, keepdims=True)  # others may be cut off there
        far = (before >= FAR_SHARE) & inside
        if (np.abs(after[far] - before[far] / SIDE_FACTOR) > CLOSE_DISTANCE).any():
            return 0
        count += int(far.sum())
    return count


def _evenly_shifted(path: str, draws: Shapes, axis: int, *, points: bool) -> tuple[int, float]:
    """How many numbers along an axis are off by the same distance as all others, and by how much.

    None are if all are where they should be in any format, as pixels of their file or shares of it, or if the table
    does not change with the shape: it may be scaled by a size that the annotations hold.
    """
    shifts = [_even_shift(path, box_format, draws, axis) for box_format in _formats(path, draws, points=points)]
    steady = [shift for shift in shifts if shift is not None]
    return min(steady, default=(0, 0.0))


def _even_shift(path: str, box_format: BoxFormat, draws: Shapes, axis: int) -> tuple[int, float] | None:
    """The same in one format; None if distances differ from number to number, as they do in a wrong format."""
    count, most = 0, 0.0
    for usual, *others in draws:
        for shape, other in zip(SHAPE_FACTORS[1:], others, strict=True):
            both = _positions(path, box_format, usual, other, axis)
            if both is None:
                return None
            before, after = both
            if np.ptp(before) < SPREAD_RANGE or np.allclose(usual.tables[path], other.tables[path]):
                continue
            shifts = [after - before / factor for factor in {shape[1 - axis], 1.0}]
            steady = [shift for shift in shifts if np.ptp(shift) <= EVEN_RANGE]
            if not steady:
                return None
            distance = min(abs(float(np.median(shift))) for shift in steady)
            if distance > SHIFTED_DISTANCE:
                count, most = count + before.size, max(most, distance)
    return count, most


def _moves_by_chance(shifted: BoxAspect, draws: Iterable[tuple[BoxDraw | None, BoxDraw | None]]) -> bool:
    """Whether numbers of files of one shape are off by other distances under another random state.

    Then no padding is missing: what is drawn, such as the place of a crop, moves image and boxes apart.
    """
    axis = "xy".index(shifted.axis)
    for one, other in draws:
        if one is None or other is None or shifted.path not in one.tables or shifted.path not in other.tables:
            continue
        for box_format in _formats(shifted.path, [[one]], points=shifted.points):
            both = _positions(shifted.path, box_format, one, other, axis)
            if both is not None and np.abs(both[1] - both[0]).max() > SHIFTED_DISTANCE:
                return True
    return False


def _positions(
    path: str, box_format: BoxFormat, usual: BoxDraw, other: BoxDraw, axis: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Where boxes come from along an axis in files of two shapes, (rows, 2); None if they cannot be compared."""
    name = next(iter(usual.poses))
    if usual.tables[path].shape != other.tables[path].shape or name not in other.poses:
        return None
    before, after = (
        in_source(draw.poses[name].pose, box_format.corners(draw.tables[path], draw.poses[name].size))[:, axis::2]
        for draw in (usual, other)
    )
    return before, after
