"""Whether boxes and points move with their image.

Charts tell where an image comes from in each draw, and so where its boxes came from: the same box must come from the
same place in all draws, and from where it lies while the dataset's transforms are left out.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from dataguard.incident import LoaderFailed
from dataguard.lab.core.index import Index
from dataguard.lab.geometry.alignment import DRAWS, FEWEST, LOOKS, SECONDS
from dataguard.lab.geometry.box_sources import MOVED, Place, compared
from dataguard.lab.geometry.box_tables import Form, Table, fits, forms_of, is_said, tables_of
from dataguard.lab.geometry.chart_painter import Given, rule_of
from dataguard.lab.geometry.charted_reader import Sitting, View
from dataguard.lab.geometry.stripe_charts import CHARTS, Pose, apart, flattened, located, pose_of, sampled
from dataguard.lab.reading.leaf_root import Rooted
from dataguard.model import NotApplicable, Undecided
from dataguard.target.variants import Loader

SAMPLES = 2
"""Samples that are drawn again and again: those with most boxes."""
FEWEST_COMPARED = 6
"""How many times a box must have been expected somewhere, to tell whether boxes follow."""
FEW_ROWS = 6
"""Boxes that a table without a telling name must hold in all, to be taken for one of boxes."""


@dataclass(frozen=True, slots=True)
class Follower:
    """A table of boxes or points, and how well it keeps to an image.

    Of all `comparable` boxes that another draw must show, `found` were where they should be, in the form that fits
    best; `moved` tells that the image moves from draw to draw, and not only from where it was without transforms.
    `one` and `other` say what happened to the image in two draws between which fewest were, for a reader.
    """

    path: str
    picture: str
    points: bool
    form: str
    comparable: int
    found: int
    pairs: int
    moved: bool
    index: Index
    one: str
    other: str


@dataclass(frozen=True, slots=True)
class Boxed(Rooted):
    """Every table that was compared."""

    followers: tuple[Follower, ...]
    collated: bool
    draws: int
    reads: int

    @property
    def exercised(self) -> dict[str, int]:
        """How much was looked at."""
        return {"draws": self.draws, "charts": self.reads, "leaves": len(self.followers)}


def run_boxes(build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool) -> Boxed:
    """Read samples while charts are drawn over their images, in this process, which is thrown away."""
    sitting = Sitting(build, folder, indices, DRAWS, batched=batched)
    looks = _looks(sitting)
    if not looks:
        raise NotApplicable("no image is found while a sample is read")
    said = _candidates(looks)
    if not said:
        raise NotApplicable("the sample holds no boxes or points")
    sitting.easel.is_map = rule_of([look.given for look in looks]) or _is_no_map
    rows = {number: sum(len(table) for _, _, table in tables_of(look.value)) for number, look in enumerate(looks)}
    chosen = sorted(rows, key=lambda number: -rows[number])[:SAMPLES]
    places = list(_places(sitting, chosen, said))
    reads = CHARTS * len(places)
    if not places:
        raise Undecided("images are cached, so charts could not be injected")
    if any(place.has_views for place in places):
        raise NotApplicable("boxes cannot follow several views of one image that are transformed differently")
    followers = [_follower(path, places, looks, told=told) for path, told in said.items()]
    found = tuple(one for one in followers if one)
    if not found:
        raise NotApplicable("images do not move between draws, or the sample holds no table of boxes or points")
    return Boxed(found, sitting.collated, len(places), reads)


def _is_no_map(_: Given) -> bool:
    return False


def _looks(sitting: Sitting) -> list[View]:
    """Samples as they are, with the images that come along at the first place where some do."""
    for _ in sitting.places():
        first = sitting.look(0, 0)
        looks = [first, *(sitting.look(number, 0) for number in range(1, LOOKS if first.given else 1))]
        if all(look.given and look.leaves for look in looks):
            return looks
    return []


def _candidates(looks: Sequence[View]) -> dict[str, bool]:
    """The paths of tables that may hold boxes or points, and whether they hold points."""
    found: dict[str, bool] = {}
    tables: dict[str, list[tuple[Table, tuple[int, int]]]] = defaultdict(list)
    for look in looks:
        size = next(iter(look.leaves.values())).shape[-2:]
        for path, leaf, table in tables_of(look.value):
            tables[path].append((table, (size[0], size[1])))
            columns = table.shape[1]
            if columns in (2, 3) and is_said(path, leaf, points=True):
                found[path] = True
            elif columns >= 4 and is_said(path, leaf, points=False):
                found[path] = False
    for path, held in tables.items():
        columns = held[0][0].shape[1]
        if path in found or columns < 4 or sum(len(table) for table, _ in held) < FEW_ROWS:
            continue
        vary = len({table.tobytes() for table, _ in held}) > 1
        if vary and any(fits(form, held, strictly=True) for form in forms_of(columns, points=False)):
            found[path] = False
    return found


def _places(sitting: Sitting, chosen: Sequence[int], said: Mapping[str, bool]) -> Iterator[Place]:
    """Draws of the chosen samples, after one of each without transforms."""
    started = time.monotonic()
    sitting.bypass = True
    for number in chosen:
        try:
            place = _place(sitting, number, 0, said, raw=True)
        except LoaderFailed:  # the code behind a transform may need what it makes
            break
        if place:
            yield place
    sitting.bypass = False
    for draw in range(DRAWS):
        if draw >= FEWEST and time.monotonic() - started > SECONDS:
            break
        place = _place(sitting, chosen[draw % len(chosen)], draw, said, raw=False)
        if place:
            yield place


def _place(sitting: Sitting, number: int, draw: int, said: Mapping[str, bool], *, raw: bool) -> Place | None:
    """One draw with all charts; None where nothing was drawn over, or boxes follow what is drawn."""
    shots = [sitting.shot(number, draw, chart) for chart in range(CHARTS)]
    views = [view for view in shots if view is not None]
    if len(views) < CHARTS:
        return None
    found = [{path: table for path, _, table in tables_of(view.value) if path in said} for view in views]
    tables = {
        path: table
        for path, table in found[0].items()
        if all(path in other and np.array_equal(other[path], table) for other in found)
    }
    poses, fields = {}, []
    for path, leaf in views[0].leaves.items():
        shapes = {view.leaves[path].shape if path in view.leaves else None for view in views}
        if len(shapes) > 1:
            continue
        planes = [flattened(sampled(view.leaves[path])) for view in views]
        told = [field for negative in (False, True) if (field := located(planes, negative=negative)) is not None]
        fields += told[:1]
        upright = [pose for field in told if (pose := pose_of(field)) and _is_upright(pose)]
        if upright:
            poses[path] = upright[0], (leaf.shape[-2], leaf.shape[-1])
    has_views = any((apart(fields[0], field) or 0) > MOVED for field in fields[1:])
    return Place(number, draw, views[0].index, raw, poses, tables, has_views)


def _is_upright(pose: Pose) -> bool:
    """Whether upright boxes stay upright."""
    (a, b, _), (d, e, _) = pose.across, pose.down
    cross, along = abs(b) + abs(d), abs(a) + abs(e)
    return min(cross, along) < 0.06 * max(cross, along)


def _follower(path: str, places: Sequence[Place], looks: Sequence[View], *, told: bool) -> Follower | None:
    """How well a table keeps to the image that it keeps to best; None where no two draws tell anything."""
    options = [
        one
        for picture in sorted({name for place in places for name in place.poses})
        for form in _forms(path, places, picture, points=told)
        if (one := _followed(path, picture, form, places, points=told)) is not None
    ]
    return max(options, key=lambda one: one.found / one.comparable, default=None)


def _forms(path: str, places: Sequence[Place], picture: str, *, points: bool) -> list[Form]:
    """The forms in which a table makes sense in every draw, and in which boxes of unmoved images lie inside of them."""
    drawn = [place for place in places if path in place.tables and picture in place.poses and not place.raw]
    if not drawn:
        return []
    unmoved = [place for place in drawn if place.poses[picture][0].words == "unchanged"]
    every, some = ([(one.tables[path], one.poses[picture][1]) for one in part] for part in (drawn, unmoved))
    forms = [form for form in forms_of(every[0][0].shape[1], points=points) if fits(form, every, strictly=False)]
    return [form for form in forms if fits(form, some, strictly=True)] or forms


def _followed(path: str, picture: str, form: Form, places: Sequence[Place], *, points: bool) -> Follower | None:
    pairs: list[tuple[int, int, Place, Place]] = []
    for one, other in combinations(places, 2):
        if one.number != other.number or not all(path in place.tables for place in (one, other)):
            continue
        counts = compared(path, picture, form, one, other)
        if counts:
            pairs.append((*counts, one, other))
    comparable = sum(count for count, *_ in pairs)
    if comparable < FEWEST_COMPARED:
        return None
    worst = min(pairs, key=lambda pair: pair[1] / pair[0])
    words = [_words(place, picture) for place in worst[2:]]
    found = sum(count for _, count, *_ in pairs)
    moved = any(not one.raw and not other.raw for _, _, one, other in pairs)
    return Follower(path, picture, points, form.kind, comparable, found, len(pairs), moved, worst[2].index, *words)


def _words(place: Place, picture: str) -> str:
    name = picture if picture in place.poses else next(iter(place.poses))
    pose, (height, width) = place.poses[name]
    return f"{'without transforms' if place.raw else pose.words} at {width} x {height}"
