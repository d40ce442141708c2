"""Whether boxes and points move with their image.

Charts show where an image comes from in each draw, and so where its boxes come from: a box must have the same source
position in all draws, and the position that it has when the dataset's transforms are bypassed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from dataguard.incident import LoaderFailed
from dataguard.lab.core.index import Index
from dataguard.lab.geometry.alignment import DRAWS, FEWEST, SECONDS
from dataguard.lab.geometry.box_sources import MOVED, BoxDraw, Placement, compared
from dataguard.lab.geometry.box_tables import BoxFormat, Table, fits, formats_of, is_declared, tables_of
from dataguard.lab.geometry.chart_painter import InputImage, mask_rule
from dataguard.lab.geometry.charted_reader import ChartedReader, ChartedSample
from dataguard.lab.geometry.stripe_charts import (
    CHARTS,
    Pose,
    displacement,
    extent,
    flattened,
    located,
    pose_of,
    sampled,
)
from dataguard.lab.reading.leaf_root import Rooted
from dataguard.model import NotApplicable, Undecided
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

SAMPLES = 2
"""Samples that are read repeatedly: those with the most boxes."""
FEWEST_COMPARED = 6
"""The smallest number of expected boxes for which a table is judged."""
FEW_ROWS = 6
"""The smallest number of rows in all samples for which an unnamed table counts as boxes."""


@dataclass(frozen=True, slots=True)
class BoxAlignment:
    """A table of boxes or points, and how well it follows an image.

    Of all `comparable` boxes that another draw must show, `found` were where they should be, in the best `box_format`.
    `moved` means that the image moves between draws, and not only relative to bypassed transforms. `one` and `other`
    describe the image in the two draws that match worst, for a message.
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


@dataclass(frozen=True, slots=True)
class ChartedBoxes(Rooted):
    """Every table that was compared."""

    tables: tuple[BoxAlignment, ...]
    collated: bool
    draws: int
    reads: int

    @property
    def exercised(self) -> dict[str, int]:
        """How much was inspected."""
        return {"draws": self.draws, "charts": self.reads, "leaves": len(self.tables)}


def run_boxes(build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool) -> ChartedBoxes:
    """Read samples with their images replaced by charts, in this disposable process."""
    reader = ChartedReader(build, folder, indices, DRAWS, batched=batched)
    originals = _originals(reader)
    if not originals:
        raise NotApplicable("no image is found while a sample is read")
    candidates = candidates_of(originals)
    if not candidates:
        raise NotApplicable("no table in the sample has boxes or points in all rows")
    reader.painter.is_mask = mask_rule([sample.inputs for sample in originals]) or _is_no_mask
    rows = {
        number: sum(len(table) for _, _, table in tables_of(sample.value)) for number, sample in enumerate(originals)
    }
    chosen = sorted(rows, key=lambda number: -rows[number])[:SAMPLES]
    draws = list(_draws(reader, chosen, candidates))
    reads = CHARTS * len(draws)
    if not draws:
        raise Undecided("images are cached, so charts could not be injected")
    draws = [draw for draw in draws if not draw.is_combined]
    if not draws:
        raise NotApplicable("each sample combines several images, so boxes cannot be traced to one of them")
    if any(draw.has_views for draw in draws):
        raise NotApplicable("boxes cannot follow several views of one image that are transformed differently")
    found = tuple(one for path, points in candidates.items() if (one := _best_alignment(path, draws, points=points)))
    if not found:
        raise NotApplicable("images do not move between draws, or the sample holds no table of boxes or points")
    return ChartedBoxes(found, reader.collated, len(draws), reads)


def _is_no_mask(_: InputImage) -> bool:
    return False


def _originals(reader: ChartedReader) -> list[ChartedSample]:
    """Samples without charts, with the input images of the first source that has any."""
    for _ in reader.sources():
        originals = reader.originals()
        if all(sample.inputs and sample.leaves for sample in originals):
            return originals
    return []


def candidates_of(originals: Sequence[ChartedSample], share: float = 1.0) -> dict[str, bool]:
    """The paths of tables of which this share of rows may be boxes or points, and whether those are points."""
    found: dict[str, bool] = {}
    tables: dict[str, list[tuple[Table, tuple[int, int]]]] = defaultdict(list)
    for sample in originals:
        size = next(iter(sample.leaves.values())).shape[-2:]
        for path, leaf, table in tables_of(sample.value):
            tables[path].append((table, (size[0], size[1])))
            columns = table.shape[1]
            if columns in (2, 3) and is_declared(path, leaf, points=True):
                found[path] = True
            elif columns >= 4 and is_declared(path, leaf, points=False):
                found[path] = False
    for path, held in tables.items():
        columns = held[0][0].shape[1]
        if path in found or columns < 4 or sum(len(table) for table, _ in held) < FEW_ROWS:
            continue
        varies = len({table.tobytes() for table, _ in held}) > 1
        if varies and any(
            fits(box_format, held, strictly=True, share=share) for box_format in formats_of(columns, points=False)
        ):
            found[path] = False
    return found


def _draws(reader: ChartedReader, chosen: Sequence[int], candidates: Mapping[str, bool]) -> Iterator[BoxDraw]:
    """Draws of the chosen samples, after one of each with transforms bypassed."""
    started = time.monotonic()
    reader.bypass = True
    for number in chosen:
        try:
            found = _draw(reader, number, 0, candidates, raw=True)
        except LoaderFailed:  # the code after a transform may need its result
            break
        if found:
            yield found
    reader.bypass = False
    for draw in range(DRAWS):
        if draw >= FEWEST and time.monotonic() - started > SECONDS:
            break
        found = _draw(reader, chosen[draw % len(chosen)], draw, candidates, raw=False)
        if found:
            yield found


def _draw(
    reader: ChartedReader, number: int, draw: int, candidates: Mapping[str, bool], *, raw: bool
) -> BoxDraw | None:
    """One draw with all charts; None if no image was replaced."""
    reads = [reader.read_charted(number, draw, chart) for chart in range(CHARTS)]
    views = [view for view in reads if view is not None]
    return None if len(views) < CHARTS else draw_of(views, number, draw, candidates, raw=raw)


def draw_of(
    views: Sequence[ChartedSample], number: int, draw: int, candidates: Mapping[str, bool], *, raw: bool = False
) -> BoxDraw:
    """Where the images of a sample with each chart come from, and its tables."""
    found = [{path: table for path, _, table in tables_of(view.value) if path in candidates} for view in views]
    tables = {
        path: table
        for path, table in found[0].items()
        if all(path in other and np.array_equal(other[path], table) for other in found)
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
        upright = [pose for field in found_fields if (pose := pose_of(field)) and _is_upright(pose)]
        if upright:
            shown, holds_more = extent(planes)
            is_combined |= holds_more
            poses[path] = Placement(upright[0], (leaf.shape[-2], leaf.shape[-1]), shown)
    has_views = any((displacement(fields[0], field) or 0) > MOVED for field in fields[1:])
    return BoxDraw(number, draw, views[0].index, raw, poses, tables, has_views, is_combined)


def _is_upright(pose: Pose) -> bool:
    """Whether axis-aligned boxes stay axis-aligned."""
    (a, b, _), (d, e, _) = pose.across, pose.down
    cross, along = abs(b) + abs(d), abs(a) + abs(e)
    return min(cross, along) < 0.06 * max(cross, along)


def _best_alignment(path: str, draws: Sequence[BoxDraw], *, points: bool) -> BoxAlignment | None:
    """How well a table follows the image that it follows best; None if no two draws can be compared."""
    options = [
        one
        for image in sorted({name for draw in draws for name in draw.poses})
        for box_format in _formats(path, draws, image, points=points)
        if (one := _alignment(path, image, box_format, draws, points=points)) is not None
    ]
    return max(options, key=lambda one: one.found / one.comparable, default=None)


def _formats(path: str, draws: Sequence[BoxDraw], image: str, *, points: bool) -> list[BoxFormat]:
    """The formats that fit a table in every draw and, if possible, keep boxes inside images that are not moved."""
    transformed = [draw for draw in draws if path in draw.tables and image in draw.poses and not draw.raw]
    if not transformed:
        return []
    unmoved = [draw for draw in transformed if draw.poses[image].pose.description == "unchanged"]
    every, some = ([(one.tables[path], one.poses[image].size) for one in part] for part in (transformed, unmoved))
    formats = [one for one in formats_of(every[0][0].shape[1], points=points) if fits(one, every, strictly=False)]
    return [one for one in formats if fits(one, some, strictly=True)] or formats


def _alignment(
    path: str, image: str, box_format: BoxFormat, draws: Sequence[BoxDraw], *, points: bool
) -> BoxAlignment | None:
    pairs: list[tuple[int, int, BoxDraw, BoxDraw]] = []
    for one, other in combinations(draws, 2):
        if one.number != other.number or not all(path in draw.tables for draw in (one, other)):
            continue
        counts = compared(path, image, box_format, one, other)
        if counts:
            pairs.append((*counts, one, other))
    comparable = sum(count for count, *_ in pairs)
    if comparable < FEWEST_COMPARED:
        return None
    worst = min(pairs, key=lambda pair: pair[1] / pair[0])
    found = sum(count for _, count, *_ in pairs)
    moved = any(not one.raw and not other.raw for _, _, one, other in pairs)
    return BoxAlignment(
        path,
        image,
        points,
        box_format.kind,
        comparable,
        found,
        len(pairs),
        moved,
        worst[2].index,
        *(_description(draw, image) for draw in worst[2:]),
    )


def _description(draw: BoxDraw, image: str) -> str:
    name = image if image in draw.poses else next(iter(draw.poses))
    pose, (height, width) = draw.poses[name].pose, draw.poses[name].size
    return f"{'without transforms' if draw.raw else pose.description} at {width} x {height}"
