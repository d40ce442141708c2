"""Where image and mask leaves come from in each draw of the transforms, and how far they are misaligned.

`ChartedDraws` reads samples with all charts under one random state after another, and finds the leaves that follow the
image and those that follow its mask. `mask_values_of` finds which values a mask leaf holds whose source held two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dataguard.lab.core.records import Index
from dataguard.lab.geometry.charted_reader import ORIGINALS, ChartedReader, ChartedSample
from dataguard.lab.geometry.charts import (
    CHARTS,
    COARSE,
    Field,
    IsMask,
    displacement,
    flattened,
    label_pair_of,
    located,
    pose_of,
    sampled,
    unmoved,
)
from dataguard.process.process_tree import undisturbed_seconds

CHARTED_DRAWS, FEWEST_DRAWS = 10, 4
"""The number of RNG states under which samples are read, and the smallest number of them.

A flip with probability 0.5 is in none of ten draws once in a thousand times, and in none of four once in sixteen.
"""
DRAW_SECONDS = 1.5
"""Seconds after which the smallest number of draws is enough: a limit of time."""
LONG_SECONDS, LEAST_DRAWS = 10.0, 2
"""Seconds after which so few draws are enough: DG512 needs two that are misaligned."""
FEWEST_SLICES = 8
"""Planes of a leaf that may be slices of a volume: fewer are channels."""
_CHANGED_SHARE = 0.02
"""The share of values that differ where a leaf follows a negative, which changes all of an image: smaller finds leaves
that show less of it, larger ignores more noise of the user's own."""
_UNMOVED_DISTANCE = 0.02
"""How far an untransformed mask may seem to have moved, as a share of the image: a seventh of a stripe."""


@dataclass(frozen=True, slots=True)
class Shift:
    """How far an image and a mask are misaligned in one draw, and what happened to each, for a message.

    `distance` is a share of the image, and so is `tolerance`: two pixels of the coarser leaf.
    """

    draw: int
    index: Index
    distance: float
    tolerance: float
    image: str
    mask: str


@dataclass(frozen=True, slots=True)
class MaskLeaf:
    """A mask leaf: the image leaf that it was compared with, their shift in each draw, and the values it holds.

    `untransformed` masks stay as stored, as masks for evaluation do. `chart_labels` are the values for dark and light
    in the first channel of their charts. The axes of a `turned` volume are in another order than in its file, and those
    of its image are not, or the other way round.
    """

    path: str
    image: str
    shifts: tuple[Shift, ...]
    untransformed: bool
    chart_labels: tuple[float, float]
    values: MaskValues | None
    turned: bool = False


@dataclass(frozen=True, slots=True)
class Draw:
    """The views of each leaf in one draw, chart by chart, and its height and width, by path."""

    draw: int
    index: Index
    views: dict[str, list[np.ndarray]]
    sizes: dict[str, tuple[int, int]]

    def field(self, path: str, *, negative: bool = False) -> Field | None:
        """The source positions of an image leaf."""
        return located([flattened(view) for view in self.views[path]], negative=negative)

    def mask_field(self, path: str, *, labelled: bool) -> Field | None:
        """The source positions of a mask leaf; if it is `labelled`, it holds two values and few others."""
        views = [flattened(view) for view in self.views[path]]
        labels = label_pair_of(views) if labelled else None
        return located(views, labels=labels) if labels or not labelled else None


class ChartedDraws:
    """Draws of one loader, each with all charts, and the image and mask leaves found in them.

    In `mask_dependent` draws an image leaf also changes with the mask, or a mask leaf with the image: patches are
    cropped around what the mask marks, so that each chart is cropped elsewhere. The axes of `turned` leaves are in
    another order than those of their files.
    """

    def __init__(self, reader: ChartedReader) -> None:
        self._reader = reader
        self.draws: list[Draw] = []
        self.images: set[str] = set()
        self.masks: set[str] = set()
        self.turned: set[str] = set()
        self.reads = self.mask_dependent = 0
        self._next = 0
        self._labelled = reader.painter.label_pair is not None
        dark, light = reader.painter.label_pair or ((0.0,), (0.0,))
        self._chart_labels = dark[0], light[0]

    def take(self, most: int) -> None:
        """Take draws until there are `most`, or time is up."""
        started = undisturbed_seconds()
        for draw in range(self._next, most):
            taken = undisturbed_seconds() - started
            if taken > DRAW_SECONDS and len(self.draws) >= (LEAST_DRAWS if taken > LONG_SECONDS else FEWEST_DRAWS):
                break
            self._take(draw)
            self._next = draw + 1

    def _take(self, draw: int) -> None:
        number = ORIGINALS + draw
        first = self._read(number, draw, 0)
        if first is None or not any(map(self._reader.painter.is_mask, first.inputs)):
            return  # this sample lacks the mask or second image that others have
        if any(image.rotates for image in first.inputs):
            return  # the mask may show the upright image, which a chart in its file is not
        views = [first, *(self._read(number, draw, chart) for chart in range(1, CHARTS))]
        if any(view is None for view in views):
            return
        taken = [view for view in views if view is not None]
        self._classify(number, draw, taken[0])
        paths = [path for path in taken[0].leaves if all(path in view.leaves for view in taken)]
        paths = [path for path in paths if len({view.leaves[path].shape for view in taken}) == 1]
        self.turned |= {path for path in paths if _is_turned(taken[0].leaves[path])}
        sizes = {path: taken[0].leaves[path].shape[-2:] for path in paths}
        stacks = {path: np.stack([sampled(view.leaves[path]) for view in taken]) for path in paths}
        self.draws.append(Draw(draw, taken[0].index, _of_one_frame(stacks, taken[0].stacked), sizes))

    def _read(self, number: int, draw: int, chart: int, **negative: bool) -> ChartedSample | None:
        self.reads += 1
        return self._reader.read_charted(number, draw, chart, **negative)

    def _classify(self, number: int, draw: int, first: ChartedSample) -> None:
        """Find the leaves that change with the image, and those that change with the mask, by a negative of each.

        A leaf that changes with one of them in one draw, and with both in another, depends on the content of the mask.
        """
        other_image = self._read(number, draw, 0, negative_image=True)
        other_mask = self._read(number, draw, 0, negative_mask=True)
        if other_image is None or other_mask is None:
            return
        follows = {
            path: [_differ(leaf, other.leaves.get(path)) for other in (other_image, other_mask)]
            for path, leaf in first.leaves.items()
        }
        self.mask_dependent += any(follows.get(path) == [True, True] for path in self.images | self.masks)
        if not (self.masks and self.images):
            self.images |= {path for path, both in follows.items() if both == [True, False]}
            self.masks |= {path for path, both in follows.items() if both == [False, True]}

    def are_aligned(self, originals: Sequence[ChartedSample]) -> bool:
        """Whether each mask leaf is where its image leaf is in all draws so far."""
        shifts = [mask.shifts for mask in self.mask_leaves(originals)]
        return bool(shifts) and all(each and max(map(_excess, each)) <= 1 for each in shifts)

    def mask_leaves(self, originals: Sequence[ChartedSample]) -> Iterator[MaskLeaf]:
        """Every mask leaf, compared with the image leaf whose positions are closest."""
        for path in sorted(self.masks):
            draws = [draw for draw in self.draws if path in draw.views]
            natural = [sample.leaves[path] for sample in originals if path in sample.leaves]
            values = mask_values_of([draw.views[path] for draw in draws], natural)
            compared = [(image, self._shifts(path, image, draws)) for image in sorted(self.images)]
            compared = [(image, shifts) for image, shifts in compared if shifts]
            image, shifts = min(compared, key=lambda candidate: max(map(_excess, candidate[1])), default=("", ()))
            untransformed = self._is_untransformed(path, image, originals, draws)
            turned = (path in self.turned) != (image in self.turned)
            yield MaskLeaf(path, image, tuple(shifts), untransformed, self._chart_labels, values, turned)

    def _shifts(self, path: str, image: str, draws: Sequence[Draw]) -> list[Shift]:
        shifts = []
        for draw in draws:
            mask = draw.mask_field(path, labelled=self._labelled)
            image_fields = (
                [draw.field(image, negative=negative) for negative in (False, True)] if image in draw.views else []
            )
            lengths = [
                (length, number)
                for number, field in enumerate(image_fields)
                if field is not None and mask is not None
                if (length := displacement(field, mask)) is not None
            ]
            if not lengths:
                continue
            length, number = min(lengths)
            poses = [None if field is None else pose_of(field) for field in (image_fields[number], mask)]
            descriptions = ["transformed in another way" if pose is None else pose.description for pose in poses]
            coarse = min(*draw.sizes[path], *draw.sizes[image])
            tolerance = 2 / coarse + 0.01  # two pixels, and what rounding to stripes leaves in the mean of a block
            shifts.append(Shift(draw.draw, draw.index, length, tolerance, *descriptions))
        return shifts

    def _is_untransformed(
        self, path: str, image: str, originals: Sequence[ChartedSample], draws: Sequence[Draw]
    ) -> bool:
        """Whether a mask keeps its original size and position while the image is resized: it is for evaluation."""
        leaves = [
            (sample, sample.leaves[path], sample.leaves.get(image)) for sample in originals if path in sample.leaves
        ]
        for sample, leaf, other in leaves:
            sizes = {image.size for image in sample.inputs}
            if other is None or leaf.shape[-2:] not in sizes or other.shape[-2:] in sizes:
                return False
        fields = (draw.mask_field(path, labelled=self._labelled) for draw in draws)
        moved = (None if field is None else displacement(field, unmoved()) for field in fields)
        return bool(leaves) and all(length is not None and length < _UNMOVED_DISTANCE for length in moved)


def _is_turned(volume: np.ndarray) -> bool:
    """Whether the axes of a volume are in another order than in its file, of which all slices hold one chart.

    The shape is (slices, height, width). Then it is constant along one of the other axes.
    """
    if len(volume) < FEWEST_SLICES or (volume == volume[:1]).all():
        return False
    return bool((volume == volume[..., :1]).all() or (volume == volume[:, :1]).all())


def _of_one_frame(views: Mapping[str, np.ndarray], stacked: Mapping[str, int]) -> dict[str, list[np.ndarray]]:
    """The views of one image of each stack, the first that charts change in all leaves: others may be moved elsewhere.

    Views are (charts, planes, points, points). As many planes as another leaf has images are a mask for each of them.
    """
    count = max(stacked.values(), default=1)
    split = {
        path: view.reshape(len(view), count, -1, *view.shape[-2:])
        for path, view in views.items()
        if count > 1 and count in (stacked[path], view.shape[1])
    }
    changed = np.array([np.ptp(view, axis=0).any(axis=(1, 2, 3)) for view in split.values()])
    frame = int(changed.all(axis=0).argmax()) if split else 0
    return {path: list(split[path][:, frame] if path in split else view) for path, view in views.items()}


def _excess(shift: Shift) -> float:
    return shift.distance / shift.tolerance


def _differ(leaf: np.ndarray, other: np.ndarray | None) -> bool:
    """Whether a leaf differs between two reads of one draw."""
    return other is None or are_different(leaf, other)


def are_different(leaf: np.ndarray, other: np.ndarray) -> bool:
    """Whether more than noise differs between two arrays, or their shape."""
    if leaf.shape != other.shape:
        return True
    changed = np.abs(leaf.astype(np.float64) - other) > 10**-_VALUE_DIGITS * max(float(np.abs(leaf).max()), 1e-9)
    return bool(changed.mean() > _CHANGED_SHARE)


_LABEL_SHARE = 0.1
"""The share of points that each of two values needs to count as one of the two that were put in: half of them in a
whole mask, and less where a crop shows one side."""
_VALUE_DIGITS = 6
"""Digits to which values are rounded, relative to the largest one: those of float32."""
_MOST_SHOWN = 8
"""Values between the labels that are kept, for a message."""


@dataclass(frozen=True, slots=True)
class MaskValues:
    """The values of a mask leaf whose source held two.

    `labels` are the two most common ones, and `between` some of those strictly between them, at a `share` of the
    points; `edge_share` is that share in charts with two halves, which have one edge each. `most_values` is the largest
    number of values in an original sample.
    """

    dtype: str
    labels: tuple[float, float]
    between: tuple[float, ...]
    share: float
    edge_share: float
    most_values: int


def mask_values_of(draws: Sequence[Sequence[np.ndarray]], originals: Sequence[np.ndarray]) -> MaskValues | None:
    """The values of a mask leaf, in the draw with the most values between its two labels; None if no draw has both.

    A draw holds the views of all charts, each (planes, points, points).
    """
    planes = [values for views in draws for values in _values_by_plane(np.stack(views))]
    if not planes:
        return None
    labels, between, share, edge_share = max(planes, key=lambda values: values[2])
    most_values = max((len(np.unique(_rounded(leaf))) for leaf in originals), default=0)
    shown = between[:: -(-len(between) // _MOST_SHOWN) or 1]
    return MaskValues(str(draws[0][0].dtype), labels, tuple(shown), share, edge_share, most_values)


def _values_by_plane(stack: np.ndarray) -> Iterator[tuple[tuple[float, float], list[float], float, float]]:
    """The labels, the values between them and their shares, for each plane that changes with the charts."""
    stack = stack.astype(np.float64)
    moves = np.ptp(stack, axis=0)
    for plane in range(stack.shape[1]):
        follows = moves[plane] > 10**-_VALUE_DIGITS * max(float(np.abs(stack[:, plane]).max()), 1e-9)
        points = _rounded(stack[:, plane][:, follows])
        values, counts = np.unique(points[list(COARSE)], return_counts=True)
        leading = np.argsort(-counts)[:2]
        if len(values) < 2 or counts[leading[1]] < _LABEL_SHARE * counts.sum():
            continue
        low, high = sorted(float(value) for value in values[leading])
        inside = (points > low) & (points < high)
        yield (low, high), np.unique(points[inside]).tolist(), float(inside.mean()), float(inside[list(COARSE)].mean())


def _rounded(values: np.ndarray) -> np.ndarray:
    size = max(float(np.abs(values).max()), 1e-9) if values.size else 1.0
    return np.round(values.astype(np.float64) / size, _VALUE_DIGITS) * size


def other_aspect(originals: Sequence[ChartedSample], is_mask: IsMask) -> str | None:
    """The sizes of a mask and of images of its sample, if none of them has its ratio of sides."""
    for sample in originals:
        images = [image.size for image in sample.inputs if not is_mask(image)]
        for height, width in (mask.size for mask in sample.inputs if is_mask(mask)):
            if images and all(abs(width - height * w / h) > _SAME_ASPECT for h, w in images):
                return f"masks of {width}x{height} and images of {images[0][1]}x{images[0][0]}"
    return None


_SAME_ASPECT = 2.0
"""Pixels by which the width of a mask may differ from that of its image at the same height: sides are rounded."""
