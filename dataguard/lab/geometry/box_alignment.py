"""Whether boxes and points move with their image.

Charts show where an image comes from in each draw, and so where its boxes come from: a box must have the same source
position in all draws, and the position that it has when the dataset's transforms are bypassed. Boxes are found in a
sample as tables of numbers (`tables_of`), which are tried in each format that they may have (`BoxFormat`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.core.incident import LoaderFailed
from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.records import Index
from dataguard.lab.geometry.alignment import CHARTED_DRAWS, DRAW_SECONDS, FEWEST_DRAWS, LONG_SECONDS
from dataguard.lab.geometry.box_labels import (
    BoxLabels,
    Labelled,
    LabelledDraw,
    Matches,
    Rows,
    are_undecided,
    rows_of,
    separated,
)
from dataguard.lab.geometry.box_tables import (
    COLUMNS,
    BoxFormat,
    Table,
    are_moved_as_one,
    candidates_of,
    fits,
    formats_of,
    tables_of,
    unnamed_points,
    wide_of,
)
from dataguard.lab.geometry.charted_reader import ChartedReader, ChartedSample
from dataguard.lab.geometry.charts import (
    CHARTS,
    InputImage,
    Pose,
    displacement,
    extent,
    flattened,
    located,
    mask_rule,
    pose_of,
    sampled,
)
from dataguard.lab.reading.sample_reader import Rooted
from dataguard.process.process_tree import undisturbed_seconds
from dataguard.targets.variants import Loader

MOST_SAMPLES = 2
"""Samples that are read repeatedly: those with the most boxes. More take longer, and are seldom needed beside many
draws."""
OWN_DRAWS = (1, 2)
"""More draws of a sample of several images, which show whose image is its own."""
UNNAMED_DRAWS = 4
"""Draws of a sample that show whether a table that nothing names is moved as points are."""
MORE_DRAWS, MOST_SHORTER = 24, 8
"""More draws in which few boxes may be left, and how many of those are charted: of two boxes in four, the first ones
are left in one of six cases."""
MOST_DRAWS = CHARTED_DRAWS + MORE_DRAWS
FEWEST_COMPARED_BOXES = 6
"""The smallest number of expected boxes for which a table is judged: fewer may miss their places by chance."""


@dataclass(frozen=True, slots=True)
class BoxAlignment:
    """A table of boxes or points, and how well it follows an image.

    Of all `comparable` boxes that another draw must show, `found` were where they should be, in the best `box_format`.
    `moved` means that the image moves between draws, and not only relative to bypassed transforms. `one` and `other`
    describe the image in the two draws that match worst, for a message; `read` is the number of the sample and the draw
    of one of them, rather one in which the image is moved.
    """

    path: str
    image: str
    points: bool
    box_format: str
    comparable: int
    found: int
    pairs: int
    moved: bool
    index: Index
    one: str
    other: str
    read: tuple[int, int]

    @property
    def row(self) -> str | None:
        """The path of the leaf of which this table is some columns; None if it is all of its leaf."""
        leaf, columns, _ = self.path.partition(COLUMNS)
        return leaf if columns else None

    @property
    def columns(self) -> str:
        """Which columns of that leaf; empty if it is all of its leaf."""
        return "".join(self.path.partition(COLUMNS)[1:])


@dataclass(frozen=True, slots=True)
class ChartedBoxes(Rooted):
    """Every table that was compared, and the labels that do not stay with their boxes."""

    tables: tuple[BoxAlignment, ...]
    collated: bool
    draws: int
    reads: int
    labels: tuple[BoxLabels, ...] = ()

    @property
    def exercised(self) -> dict[str, int]:
        """How much was inspected."""
        return {"draws": self.draws, "charts": self.reads, "leaves": len(self.tables)}


def run_boxes(build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool) -> ChartedBoxes:
    """Read samples with their images replaced by charts, in this disposable process."""
    reader = ChartedReader(build, folder, indices, MOST_DRAWS, batched=batched)
    originals = charted_originals(reader)
    if not originals:
        raise NotApplicable("no image is found while a sample is read")
    candidates = candidates_of(originals)
    for draw in range(1, FEWEST_DRAWS):
        if candidates or not any(wide_of(leaf) is not None for _, leaf in iter_leaves(originals[0].value)):
            break
        # Of a box and its points, one may be moved alone: another draw may move none.
        candidates = candidates_of([reader.read(number, draw) for number in range(len(originals))])
    unnamed = _moved_points(reader, originals) - candidates.keys()
    candidates |= dict.fromkeys(unnamed, True)
    if not candidates:
        raise NotApplicable("no table in the sample has boxes or points in all rows")
    rows = {
        number: sum(len(table) for path, _, table in tables_of(sample.value) if path in candidates)
        for number, sample in enumerate(originals)
    }
    # Of those, labels that differ show whether they stay with their boxes.
    labels = [{label for _, held in rows_of(sample.value) for label in held} for sample in originals]
    chosen = sorted(rows, key=lambda number: (-rows[number], -len(labels[number])))[:MOST_SAMPLES]
    few = min(rows[number] for number in chosen) < FEWEST_COMPARED_BOXES // 2
    fewest = CHARTED_DRAWS if few else FEWEST_DRAWS
    draws = list(_draws(reader, chosen, candidates, fewest))
    reads = CHARTS * len(draws)
    if draws and all(draw.is_combined or not draw.poses for draw in draws):
        chosen = chosen[:1]  # of one tile, all draws can be compared with each other, and few show much of it
        reader.painter.only = _own_image(reader, chosen[0], originals) or None
        draws = (list(_draws(reader, chosen, candidates, CHARTED_DRAWS)) if reader.painter.only else []) or draws
        reads += CHARTS * len(draws)
    if not draws:
        raise Undecided("images are cached, so charts could not be injected")
    draws = [draw for draw in draws if not draw.is_combined]
    if not draws:
        raise NotApplicable("each sample combines several images, so boxes cannot be traced to one of them")
    if any(draw.has_views for draw in draws):
        raise NotApplicable("boxes cannot follow several views of one image that are transformed differently")
    aligned = [_best_alignment(path, draws, points=points) for path, points in candidates.items()]
    turned = [_best_alignment(path, [_with_rows_first(draw, path) for draw in draws], points=True) for path in unnamed]
    best: dict[str, BoxAlignment] = {}
    for one in filter(None, (*aligned, *turned)):
        held = best.setdefault(one.path, one)
        best[one.path] = max(held, one, key=lambda table: table.found / table.comparable)
    tables = tuple(best.values())
    if not tables:
        raise NotApplicable("images do not move between draws, or too few boxes or points are in what both show")
    for table in tables:
        if not table.points and are_undecided(*_labelled(table, draws)):
            draws += _shorter_draws(reader, chosen, table, candidates, draws)
    separate = tuple(
        each for table in tables if not table.points for each in separated(table.path, *_labelled(table, draws))
    )
    return ChartedBoxes(tables, reader.collated, len(draws), max(reads, CHARTS * len(draws)), separate)


def _own_image(reader: ChartedReader, number: int, originals: Sequence[ChartedSample]) -> frozenset[bytes]:
    """The thumbnail of the first image that is in all draws of a sample of several: the other tiles of a mosaic change.

    Empty if there is none.
    """
    others = [{image.thumbnail.tobytes() for image in reader.read(number, draw).inputs} for draw in OWN_DRAWS]
    images = [image for image in originals[number].inputs if not reader.painter.is_mask(image)]
    names = [image.thumbnail.tobytes() for image in images if len(images) > len(originals[number].leaves)]
    return frozenset([name for name in names if all(name in other for other in others)][:1])


def _with_rows_first(draw: BoxDraw, path: str) -> BoxDraw:
    """A draw in which the points of a table are row and column."""
    table = draw.tables.get(path)
    return draw if table is None else replace(draw, tables={**draw.tables, path: table[:, ::-1]})


def _moved_points(reader: ChartedReader, originals: Sequence[ChartedSample]) -> frozenset[str]:
    """The tables that nothing names, and that an affine map moves in each draw, as it moves points."""
    paths = unnamed_points(originals)
    if not paths:
        return paths
    draws = [originals[0], *(reader.read(0, draw) for draw in range(1, UNNAMED_DRAWS))]
    held = [{path: table for path, _, table in tables_of(draw.value)} for draw in draws]
    return frozenset(
        path for path in paths if all(path in one for one in held) and are_moved_as_one([one[path] for one in held])
    )


def is_no_mask(_: InputImage) -> bool:
    """The rule of a loader without masks: every image is an image."""
    return False


def charted_originals(reader: ChartedReader) -> list[ChartedSample]:
    """Samples without charts, with the input images of the first source that has any; the painter knows their masks."""
    for _ in reader.sources():
        originals = reader.originals()
        if all(sample.inputs and sample.leaves for sample in originals):
            reader.painter.is_mask = mask_rule([sample.inputs for sample in originals]) or is_no_mask
            return originals
    return []


def _draws(
    reader: ChartedReader, chosen: Sequence[int], candidates: Mapping[str, bool], fewest: int
) -> Iterator[BoxDraw]:
    """Draws of the chosen samples, after one of each with transforms bypassed; the `fewest` however long they take."""
    started = undisturbed_seconds()
    reader.bypass = True
    for number in chosen:
        try:
            box_draw = _draw(reader, number, 0, candidates, raw=True)
        except LoaderFailed:  # the code after a transform may need its result
            break
        if box_draw:
            yield box_draw
    reader.bypass = False
    for draw in range(CHARTED_DRAWS):
        taken = undisturbed_seconds() - started
        if taken > LONG_SECONDS or (draw >= fewest and taken > DRAW_SECONDS):
            break
        box_draw = _draw(reader, chosen[draw % len(chosen)], draw, candidates, raw=False)
        if box_draw:
            yield box_draw


def _draw(
    reader: ChartedReader, number: int, draw: int, candidates: Mapping[str, bool], *, raw: bool
) -> BoxDraw | None:
    """One draw with all charts; None if no image was replaced, or one that fills two tiles of a mosaic."""
    reads = [reader.read_charted(number, draw, chart) for chart in range(CHARTS)]
    views = [view for view in reads if view is not None and (reader.painter.only is None or len(view.inputs) == 1)]
    tilted = any(candidates.values())  # boxes are upright, and points are wherever they are
    return None if len(views) < CHARTS else draw_of(views, number, draw, candidates, raw=raw, tilted=tilted)


def draw_of(
    views: Sequence[ChartedSample],
    number: int,
    draw: int,
    candidates: Mapping[str, bool],
    *,
    raw: bool = False,
    tilted: bool = False,
) -> BoxDraw:
    """Where the images of a sample with each chart come from, and its tables; maybe those of `tilted` images, too."""
    in_views = [{path: table for path, _, table in tables_of(view.value) if path in candidates} for view in views]
    tables = {
        path: table
        for path, table in in_views[0].items()
        if all(path in other and np.array_equal(other[path], table) for other in in_views)
    }
    poses, fields = {}, []
    is_combined = len(set(views[0].inputs)) > len(views[0].leaves)
    for path, leaf in views[0].leaves.items():
        shapes = {view.leaves[path].shape if path in view.leaves else None for view in views}
        if len(shapes) > 1:
            continue
        planes = [flattened(sampled(view.leaves[path])) for view in views]
        found_fields = [
            field for negative in (False, True) if (field := located(planes, negative=negative)) is not None
        ]
        fields += found_fields[:1]
        found = [pose for field in found_fields if (pose := pose_of(field)) and (tilted or _is_upright(pose))]
        if found:
            shown, holds_more = extent(planes)
            is_combined |= holds_more and _is_upright(found[0])
            poses[path] = Placement(found[0], (leaf.shape[-2], leaf.shape[-1]), shown)
    has_views = any((displacement(fields[0], field) or 0) > MOVED_DISTANCE for field in fields[1:])
    rows = [dict(rows_of(view.value)) for view in views]
    steady = {path: held for path, held in rows[0].items() if all(other.get(path) == held for other in rows)}
    return BoxDraw(number, draw, views[0].index, raw, poses, tables, has_views, is_combined, steady)


def _is_upright(pose: Pose) -> bool:
    """Whether axis-aligned boxes stay axis-aligned."""
    (a, b, _), (d, e, _) = pose.across, pose.down
    cross, along = abs(b) + abs(d), abs(a) + abs(e)
    return min(cross, along) < _TILTED * max(cross, along)


def _best_alignment(path: str, draws: Sequence[BoxDraw], *, points: bool) -> BoxAlignment | None:
    """How well a table follows the image that it follows best; None if no two draws can be compared."""
    options = [
        alignment
        for image in sorted({name for draw in draws for name in draw.poses})
        for box_format in _formats(path, draws, image, points=points)
        if (alignment := _alignment(path, image, box_format, draws, points=points)) is not None
    ]
    return max(options, key=lambda alignment: alignment.found / alignment.comparable, default=None)


def _formats(path: str, draws: Sequence[BoxDraw], image: str, *, points: bool) -> list[BoxFormat]:
    """The formats that fit a table in every draw and, if possible, keep boxes inside images that are not moved."""
    transformed = [draw for draw in draws if path in draw.tables and image in draw.poses and not draw.raw]
    if not transformed:
        return []
    unmoved = [draw for draw in transformed if draw.poses[image].pose.description == "unchanged"]
    all_transformed, all_unmoved = (
        [(draw.tables[path], draw.poses[image].size) for draw in chosen] for chosen in (transformed, unmoved)
    )
    formats = [
        box_format
        for box_format in formats_of(all_transformed[0][0].shape[1], points=points)
        if fits(box_format, all_transformed, strictly=False)
    ]
    return [box_format for box_format in formats if fits(box_format, all_unmoved, strictly=True)] or formats


def _alignment(
    path: str, image: str, box_format: BoxFormat, draws: Sequence[BoxDraw], *, points: bool
) -> BoxAlignment | None:
    pairs: list[tuple[int, int, BoxDraw, BoxDraw]] = []
    for first, second in combinations(draws, 2):
        if first.number != second.number or not all(path in draw.tables for draw in (first, second)):
            continue
        counts = compared(path, image, box_format, first, second)
        if counts:
            pairs.append((*counts, first, second))
    comparable = sum(count for count, *_ in pairs)
    if comparable < FEWEST_COMPARED_BOXES:
        return None
    worst = min(pairs, key=lambda pair: pair[1] / pair[0])
    matched = sum(count for _, count, *_ in pairs)
    shown = next((draw for draw in worst[2:] if _is_moved(draw, image)), worst[3])
    moved = any(not first.raw and not second.raw for _, _, first, second in pairs)
    return BoxAlignment(
        path,
        image,
        points,
        box_format.kind,
        comparable,
        matched,
        len(pairs),
        moved,
        worst[2].index,
        _description(worst[2], image),
        _description(worst[3], image),
        (shown.number, shown.draw),
    )


def _is_moved(draw: BoxDraw, image: str) -> bool:
    return image in draw.poses and draw.poses[image].pose.description != "unchanged"


def _description(draw: BoxDraw, image: str) -> str:
    name = image if image in draw.poses else next(iter(draw.poses))
    pose, (height, width) = draw.poses[name].pose, draw.poses[name].size
    return f"{'without transforms' if draw.raw else pose.description} at {width} x {height}"


_CLOSE_CORNERS = 0.03
"""How far apart the corners of the same box may be in two draws, as a share of the image, in addition to rounding: a
quarter of a stripe, which fitted poses stay within."""
_SAME_OVERLAP, _EXPECTED_SHARE = 0.75, 0.5
"""The smallest overlap (IoU) of the same box in two draws, and the smallest visible share of a box that is expected.

Pipelines drop boxes of which a crop leaves little, often less than half; what is cut is not expected to be exact.
"""
MOVED_DISTANCE = 0.1
"""How far an image must move between two draws for its boxes to be compared: three times `_CLOSE_CORNERS`, so that
boxes which stay behind do not match by their tolerance."""
_TILTED = 0.06
"""The largest share of one direction in the other for boxes that still count as axis-aligned: 3.4 degrees."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an image leaf shows its chart: the pose, the leaf's height and width, and the part `shown`.

    `shown` is (1, 4), x and y of two corners as shares of the leaf: other tiles of a mosaic lie outside.
    """

    pose: Pose
    size: tuple[int, int]
    shown: np.ndarray


@dataclass(frozen=True, slots=True)
class BoxDraw:
    """One draw of a sample: the placement of each image, and its tables, by path.

    In a `raw` one the dataset's transforms are bypassed; `has_views` means that its images are moved differently, and
    `is_combined` that one of them shows several images, each with boxes of its own. `rows` may be the labels of boxes.
    """

    number: int
    draw: int
    index: Index
    raw: bool
    poses: Mapping[str, Placement]
    tables: Mapping[str, Table]
    has_views: bool
    is_combined: bool
    rows: Mapping[str, Rows] = field(default_factory=dict)


def compared(path: str, image: str, box_format: BoxFormat, first: BoxDraw, second: BoxDraw) -> tuple[int, int] | None:
    """The number of boxes expected in the other draw, and of those found there; None if the image does not move."""
    options = []
    for source in _sources(path, image, box_format, first):
        for other in _sources(path, image, box_format, second):
            moved = distance(source[0], other[0]) > MOVED_DISTANCE
            if moved or source[1] != other[1]:
                counts = [_matches(source, other, box_format), _matches(other, source, box_format)]
                options.append((sum(count for count, _ in counts), sum(matched for _, matched in counts)))
    expected = [option for option in options if option[0]]
    return max(expected, key=lambda option: option[1] / option[0], default=None)


Source = tuple[Pose, tuple[int, int], np.ndarray, np.ndarray]
"""The pose and size of a draw, the part of the source image that it shows, and its boxes in the source image."""


def _sources(path: str, image: str, box_format: BoxFormat, draw: BoxDraw) -> Iterator[Source]:
    """The source positions of the boxes of a draw; without transforms they may have another format."""
    names = [image] if image in draw.poses else list(draw.poses) if draw.raw else []
    for name in names:
        pose, size = draw.poses[name].pose, draw.poses[name].size
        if box_format.kind != "xy" and not _is_upright(pose):
            continue
        table = draw.tables[path]
        formats = formats_of(table.shape[1], points=box_format.kind == "xy") if draw.raw else [box_format]
        for candidate in formats:
            if len(table) and (candidate == box_format or fits(candidate, [(table, size)], strictly=True)):
                shown = _frame_of(draw.poses[name])
                yield pose, size, shown, in_source(pose, candidate.corners(table, size))


def _frame_of(place: Placement) -> np.ndarray:
    """The part of the source image that a leaf shows: x and y of two corners; all around it where it is tilted."""
    left, top, right, bottom = place.shown[0]
    corners = np.array([[left, top] * 2, [right, bottom] * 2, [left, bottom] * 2, [right, top] * 2])
    found = in_source(place.pose, corners)
    return np.concatenate([found[:, :2].min(axis=0), found[:, :2].max(axis=0)])


def in_source(pose: Pose, corners: np.ndarray) -> np.ndarray:
    """Boxes of a leaf as boxes of the source image, (rows, 4)."""
    x = [pose.across[0] * corners[:, i] + pose.across[1] * corners[:, j] + pose.across[2] for i, j in ((0, 1), (2, 3))]
    y = [pose.down[0] * corners[:, i] + pose.down[1] * corners[:, j] + pose.down[2] for i, j in ((0, 1), (2, 3))]
    return np.stack([np.minimum(*x), np.minimum(*y), np.maximum(*x), np.maximum(*y)], axis=1)


def distance(pose: Pose, other: Pose) -> float:
    """How far the corners of a leaf move from one pose to another, as a share of the image."""
    corners = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]])
    return float(np.abs(in_source(pose, corners) - in_source(other, corners)).max())


def _matches(source: Source, other: Source, box_format: BoxFormat) -> tuple[int, int]:
    """How many boxes of one draw are inside what both show, and how many of those the other has there."""
    boxes, others = _clipped(source[3], other[2]), _clipped(other[3], source[2])
    if box_format.kind == "xy":
        expected = source[3].any(axis=1) & (source[3][:, :2] >= other[2][:2] + _CLOSE_CORNERS).all(axis=1)
        expected &= (source[3][:, :2] <= other[2][2:] - _CLOSE_CORNERS).all(axis=1)
        expected &= _is_inside(other[0], source[3][:, :2])
    else:
        expected = _area(_clipped(boxes, source[2])) >= _EXPECTED_SHARE * _area(source[3])
    close = _CLOSE_CORNERS + 1.5 / min(*source[1], *other[1])
    count = matched = 0
    for box, whole in zip(boxes[expected], source[3][expected], strict=True):
        count += 1
        same = (np.abs(others - box) <= close).all(axis=1)
        uncropped = (np.abs(other[3] - whole) <= close).all(axis=1)  # boxes may extend beyond their crop
        inner = _area(_clipped(others, box))
        overlap = inner / np.maximum(_area(others) + _area(box[None]) - inner, 1e-12)
        matched += bool((same | uncropped | (overlap >= _SAME_OVERLAP)).any())
    return count, matched


def _shorter_draws(
    reader: ChartedReader,
    chosen: Sequence[int],
    table: BoxAlignment,
    candidates: Mapping[str, bool],
    draws: Sequence[BoxDraw],
) -> list[BoxDraw]:
    """More draws in which some boxes are left out, until they show whether labels stay with their boxes."""
    longest: dict[int, int] = {}
    for held in draws:
        longest[held.number] = max(longest.get(held.number, 0), len(held.tables.get(table.path, ())))
    started, more = undisturbed_seconds(), list[BoxDraw]()
    for draw in range(CHARTED_DRAWS, MOST_DRAWS):
        for number in chosen:
            tables = {path: rows for path, _, rows in tables_of(reader.read(number, draw).value)}
            shorter = 0 < len(tables.get(table.path, ())) < longest.get(number, 0)
            box_draw = _draw(reader, number, draw, candidates, raw=False) if shorter else None
            more += [box_draw] if box_draw else []
            if box_draw and not are_undecided(*_labelled(table, [*draws, *more])):
                return more
            if len(more) >= MOST_SHORTER or undisturbed_seconds() - started > DRAW_SECONDS:
                return more
    return more


def _is_inside(pose: Pose, points: np.ndarray) -> np.ndarray:
    """Which points of the source image are inside a leaf that shows it like this, and not at its border."""
    matrix = np.array([pose.across, pose.down, (0.0, 0.0, 1.0)])
    if abs(np.linalg.det(matrix)) < _CLOSE_CORNERS**2:
        return np.zeros(len(points), bool)
    shares = (np.concatenate([points, np.ones((len(points), 1))], axis=1) @ np.linalg.inv(matrix).T)[:, :2]
    return np.asarray(((shares >= _CLOSE_CORNERS) & (shares <= 1 - _CLOSE_CORNERS)).all(axis=1))


def _labelled(table: BoxAlignment, draws: Sequence[BoxDraw]) -> Labelled:
    """The labels of draws, and which of these boxes are the same in two of them."""
    box_format = next(
        (one for one in _formats(table.path, draws, table.image, points=False) if one.kind == table.box_format), None
    )
    used = [draw for draw in draws if not draw.raw and len(draw.tables.get(table.path, ()))]
    if box_format is None or not any(draw.rows for draw in used):
        return [], []
    sources = [next(_sources(table.path, table.image, box_format, draw), None) for draw in used]
    labelled = [LabelledDraw(one.number, one.draw, one.index, one.rows, len(one.tables[table.path])) for one in used]
    matches = [
        (first, second, _same_boxes(one, other))
        for (first, one), (second, other) in combinations(enumerate(sources), 2)
        if one is not None and other is not None and used[first].number == used[second].number
    ]
    return labelled, matches


def _same_boxes(source: Source, other: Source) -> Matches:
    """The positions of boxes that agree in what two draws show, each with exactly one partner."""
    close = _CLOSE_CORNERS + 1.5 / min(*source[1], *other[1])
    boxes, others = _clipped(source[3], other[2]), _clipped(other[3], source[2])
    apart = np.abs(boxes[:, None] - others[None]).max(axis=-1)
    near = (apart <= close) & (_area(boxes) >= _EXPECTED_SHARE * _area(source[3]))[:, None]
    alone = (near.sum(axis=1) == 1)[:, None] & (near.sum(axis=0) == 1)[None] & near
    return [(int(one), int(two)) for one, two in zip(*np.nonzero(alone), strict=True)]


def _clipped(boxes: np.ndarray, frame: np.ndarray) -> np.ndarray:
    return np.concatenate([np.maximum(boxes[:, :2], frame[:2]), np.minimum(boxes[:, 2:], frame[2:])], axis=1)


def _area(boxes: np.ndarray) -> Any:
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
    return sides[:, 0] * sides[:, 1]
