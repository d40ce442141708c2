"""The line of the user's code after which an image and its target disagree, or a mask holds values that are no label.

A sample is read with every chart under the random state that showed it, and followed line by line. The views of an
array in all charts show where it comes from after each line, and whether it follows the image or the mask.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dataguard.core.model import Undecided
from dataguard.lab.culprit.construction import places_of_construction
from dataguard.lab.culprit.line_trace import Given, LineTrace, Look, in_call, numbered
from dataguard.lab.geometry.alignment import MaskValues, are_different, mask_values_of
from dataguard.lab.geometry.charted_reader import ChartedReader
from dataguard.lab.geometry.charts import (
    CHARTS,
    GRID,
    Field,
    displacement,
    flattened,
    label_pair_of,
    located,
    pose_of,
    sampled,
)
from dataguard.lab.geometry.target_placement import is_flipped
from dataguard.lab.images.painter import is_image, planes_of
from dataguard.targets.variants import Loader

MOST_PLANES = 8
"""Planes that are looked at one by one: more are the slices of a volume, or one for each class."""
BLENDED_SHARE = 0.004
"""The share of the pixels of a mask between two labels below which it is noise."""

Size = tuple[int, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChartedLook:
    """An array after a line, in the views of all charts, (charts, planes, GRID, GRID).

    In the last view, the image is a negative: planes that differ from the first one follow the image.
    """

    look: Look
    size: Size
    views: np.ndarray

    @property
    def image(self) -> np.ndarray:
        """The views of the planes that follow the image."""
        return self._planes(follow_image=True)

    @property
    def mask(self) -> np.ndarray:
        """The views of the planes that follow the mask."""
        return self._planes(follow_image=False)

    def _planes(self, *, follow_image: bool) -> np.ndarray:
        first, negative = self.views[0], self.views[-1]
        charted = self.views[:-1]
        chosen = [
            plane
            for plane in range(len(first))
            if are_different(first[plane], negative[plane]) is follow_image and np.ptp(charted[:, plane], axis=0).any()
        ]
        return charted[:, chosen]


def state_of(array: np.ndarray) -> Hashable | None:
    """The size of an image and the values of its planes at the points that are compared."""
    if not is_image(array):
        return None
    planes = planes_of(array)
    size = planes.shape[-2:]
    points = sampled(planes)
    points = points if len(points) <= MOST_PLANES else flattened(points)[None]
    return size, points.astype(np.float32).tobytes()


@dataclass(frozen=True, slots=True)
class ChartedSampleLines:
    """What a sample holds after each line, and what lines compute and do not use.

    `kinds` are the classes of the transforms that were called, by their paths. `traced` is the read of the first chart.
    """

    looks: Sequence[ChartedLook]
    dropped: Sequence[ChartedLook]
    kinds: Mapping[str, type]
    traced: LineTrace


def followed(reader: ChartedReader, number: int, draw: int) -> ChartedSampleLines:
    """A sample, line by line, in the views of all charts."""
    views = [(chart, False) for chart in range(CHARTS)] + [(0, True)]
    followed = [reader.follow(state_of, number, draw, chart, negative_image=negative) for chart, negative in views]
    traces = [trace for trace in followed if trace]
    if len(traces) < len(views):
        raise Undecided("no image is replaced while a sample is read")
    kinds = {path: kind for trace in traces for path, kind in trace.kinds.items()}
    looks, dropped = (
        joined(each) for each in ([trace.looks for trace in traces], [[*trace.dropped()] for trace in traces])
    )
    return ChartedSampleLines(_charted(looks), _charted(dropped), kinds, traces[0])


def _charted(looks: Iterable[list[Look]]) -> list[ChartedLook]:
    return [ChartedLook(one[0], one[0].state[0], views_of(one)) for one in looks]  # type: ignore[index]


def joined(looks: Sequence[Sequence[Look]]) -> Iterator[list[Look]]:
    """Looks that occurred with every chart, with arrays of one shape."""
    first, *others = map(numbered, looks)
    for key, look in first.items():
        found = [look, *(other[key] for other in others if key in other)]
        shapes = {(one.state[0], len(one.state[1])) for one in found}  # type: ignore[index] # those of `state_of`
        if len(found) == len(looks) and len(shapes) == 1:
            yield found


def views_of(looks: Sequence[Look]) -> np.ndarray:
    """The views of an array in several reads, (reads, planes, GRID, GRID)."""
    values = [np.frombuffer(look.state[1], np.float32) for look in looks]  # type: ignore[index] # those of `state_of`
    return np.stack(values).reshape(len(looks), -1, GRID, GRID)


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an array comes from: it may be a negative of its chart."""

    fields: tuple[Field, ...]
    size: Size

    def is_at(self, other: Placed) -> bool | None:
        """Whether both show the same parts of their images, but for two pixels; None if it cannot be seen."""
        lengths = [displacement(first, second) for first in self.fields for second in other.fields]
        known = [length for length in lengths if length is not None]
        return min(known) <= 2 / min(*self.size, *other.size) + 0.01 if known else None


def line_apart(lines: ChartedSampleLines) -> Look | None:
    """The line after which an image and its mask are misaligned to the end.

    A line that computes the side which would match the other, and does not use it, should have done so.
    """
    placed = list(_placed(lines.looks))
    look = last_parting(placed, Placed.is_at, Placed.is_at)
    last = {follows: place for _, follows, place in placed}
    for unused, follows, place in _placed(lines.dropped) if look else ():
        if any(other != follows and place.is_at(held) for other, held in last.items()):
            return unused
    sides = {id(one): follows for one, follows, _ in placed}
    moved = {follows for _, follows, place in placed if place.is_at(_first_at(placed, follows)) is False}
    if look and len(moved) == 1:
        return _beside(look, {one for one, follows in sides.items() if follows not in moved}, lines.traced)
    return look and _where_sides_part(look, sides, lines.traced)


def _first_at(placed: Sequence[tuple[Look, str, Placed]], side: str) -> Placed:
    return next(place for _, follows, place in placed if follows == side)


def _beside(look: Look, kept: Set[int], traced: LineTrace) -> Look:
    """A look that moves one side, at the line of the innermost function that is given the other one, too.

    Without any, it is the outermost one, which reads it. `kept` are the looks at the other side, by their identity.
    """
    for call, *_ in reversed(look.calls):
        given = traced.given.get(call)
        if given is None or any(id(traced.looks[number]) in kept for number in given.looks):
            return look if call == look.calls[-1][0] else in_call(look, call)
    return look


def _where_sides_part(look: Look, sides: Mapping[int, str], traced: LineTrace) -> Look:
    """The line that calls the function of a look, if that also calls it for the other side: it gives other arguments.

    `sides` are those of looks, by their identity.
    """

    def of(given: Given) -> set[str]:
        return {side for number in given.looks if (side := sides.get(id(traced.looks[number])))}

    while len(look.calls) > 1:
        own = traced.given.get(look.calls[-1][0])
        twins = [
            one for one in traced.given.values() if own and one is not own and (one.by, one.code) == (own.by, own.code)
        ]
        if own is None or len(of(own)) != 1 or not any(len(of(one)) == 1 and of(one) != of(own) for one in twins):
            break
        look = in_call(look, own.by)
    return look


def _placed(looks: Iterable[ChartedLook]) -> Iterator[tuple[Look, str, Placed]]:
    """Where images and masks are after each line."""
    for look in looks:
        for follows, fields in (("image", _fields(look.image)), ("mask", _mask_fields(look.mask))):
            if fields:
                yield look.look, follows, Placed(fields, look.size)


def last_move(lines: ChartedSampleLines, axis: int | None = None) -> Look | None:
    """The last line after which an image shows another part of its file, or is flipped, beside a target that is kept.

    With an axis, x or y, it is the last one that flips the image along that. It is that of the innermost function that
    is given an image that no chart changes, or else of the outermost one.
    """
    found: Look | None = None
    held: Placed | None = None
    for look, follows, place in _placed(lines.looks):
        if follows == "image":
            moved = held is not None and place.is_at(held) is False
            found = look if held and moved and (axis is None or _are_flipped(held, place, axis)) else found
            held = place
    kept = {id(one.look) for one in lines.looks if not np.ptp(one.views, axis=0).any()}
    return found and _beside(found, kept, lines.traced)


def last_resize(lines: ChartedSampleLines, size: Size) -> Look | None:
    """The last line after which an image has another size; its file has this one."""
    found: Look | None = None
    for look in lines.looks:
        if look.size != size and _fields(look.image):
            found, size = look.look, look.size
    return found


def first_flip(lines: ChartedSampleLines) -> Look | None:
    """The first line after which an image is the mirror image of its file."""
    for look, follows, place in _placed(lines.looks):
        pose = pose_of(place.fields[0]) if follows == "image" else None
        if pose is not None and is_flipped(pose, 0):
            return look
    return None


def _are_flipped(one: Placed, other: Placed, axis: int) -> bool:
    """Whether one of two is flipped along an axis, and the other is not."""
    poses = [pose_of(place.fields[0]) for place in (one, other)]
    flips = {pose is not None and is_flipped(pose, axis) for pose in poses}
    return len(flips) > 1


def made_by_factory(look: Look, lines: ChartedSampleLines, again: Callable[[], Loader] | None) -> Look:
    """What a library's transform does, at the line that makes that, in one more call of the factory."""
    if look.exact:
        return look
    return look.made_at(places_of_construction(again, {look.name: lines.kinds[look.name]}).get(look.name))


def sizes_apart(looks: Iterable[ChartedLook], sizes: Sequence[Size]) -> Look | None:
    """The line after which two arrays of these sizes, which show one image, are misaligned to the end."""
    placed = [
        (look.look, look.size, Placed(fields, look.size))
        for look in looks
        if look.size in sizes and (fields := _fields(look.image))
    ]
    return last_parting(placed, Placed.is_at, Placed.is_at)


def _fields(views: np.ndarray) -> tuple[Field, ...]:
    planes = [flattened(view) for view in views]
    fields = [located(planes, negative=negative) for negative in (False, True)] if views.size else []
    return tuple(field for field in fields if field is not None)


def _mask_fields(views: np.ndarray) -> tuple[Field, ...]:
    planes = [flattened(view) for view in views]
    field = located(planes, labels=label_pair_of(planes)) if views.size else None
    return () if field is None else (field,)


def last_parting(
    steps: Iterable[tuple[Look, Hashable, T]],
    agree: Callable[[T, T], bool | None],
    stays: Callable[[T, T], bool | None],
) -> Look | None:
    """The line after which the values of two sides disagree to the end; None if they agree in the end.

    Each step is a look, its side, and what is compared. If both sides move after they last agreed, it is the line that
    moves the second one, which should have followed. A value that was there before, as where an image is transformed
    twice, was moved by the line that made it first.
    """
    earlier: dict[Hashable, list[tuple[Look, T]]] = {}
    held: dict[Hashable, T] = {}
    moved: dict[Hashable, Look] = {}
    for look, side, value in steps:
        if side in held and stays(held[side], value) is False:
            since = next((first for first, other in earlier[side][1:] if stays(other, value)), look)
            moved.setdefault(side, since)
        held[side] = value
        earlier.setdefault(side, []).append((look, value))
        if len(held) == 2 and agree(*held.values()):
            moved.clear()
    apart = len(held) == 2 and agree(*held.values()) is False
    return list(moved.values())[-1] if moved and apart else None


def line_of_values(looks: Iterable[ChartedLook], wrong: MaskValues) -> Look | None:
    """The line after which a mask holds to the end what is wrong with it: values between labels, or other labels.

    None if it is not wrong in the end: a random transform may have left it alone.
    """
    found: Look | None = None
    before: Hashable = None
    for look in looks:
        values = mask_values_of([list(look.mask)], []) if look.mask.size else None
        if values is None:
            continue
        state = _state(values)
        if state != before:
            found, before = look.look, state
    return found if before == _state(wrong) else None


def _state(values: MaskValues) -> Hashable:
    blended = values.share >= BLENDED_SHARE
    return blended, blended or tuple(float(f"{label:.4g}") for label in values.labels)
