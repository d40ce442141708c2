"""Whether dense targets that are read from no image file follow their image, such as masks drawn from polygons.

Charts show where the image comes from in each draw. A target that is made of coordinates keeps its content in all
charts: in two draws of one sample whose images are placed differently, it must be placed differently as well. Images
that are computed, which no chart replaces, show by themselves how they were flipped or rotated between two draws.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.core.model import Location, NotApplicable
from dataguard.lab.core.leaves import array_of, is_pillow, iter_leaves
from dataguard.lab.core.records import Index
from dataguard.lab.culprit.line_trace import line_only_in
from dataguard.lab.geometry.alignment import CHARTED_DRAWS
from dataguard.lab.geometry.alignment_lines import followed, last_move, last_resize, made_by_factory
from dataguard.lab.geometry.box_alignment import (
    MOVED_DISTANCE,
    BoxDraw,
    Placement,
    charted_originals,
    distance,
    draw_of,
)
from dataguard.lab.geometry.camera_matrices import (
    ScaledCamera,
    camera_of,
    is_in_pixels,
    judged_pairs,
    numbers_of,
    scaled_camera,
)
from dataguard.lab.geometry.charted_reader import ChartedReader, ChartedSample
from dataguard.lab.geometry.charts import CHARTS, UNMOVED, Pose
from dataguard.lab.geometry.target_placement import (
    CLOSE,
    EXCHANGED,
    MISSED,
    Missed,
    Shown,
    compared,
    grid_beside,
    grids_of,
    is_flipped,
)
from dataguard.lab.images.painter import has_axes
from dataguard.lab.reading.sample_reader import Rooted
from dataguard.targets.variants import Loader

SAMPLES = 2
"""Samples that are read at once: a target that is the same in both is no target of either."""
ROUNDS = 2
"""How often other samples are read, in other draws, where the first ones leave it open."""
FEWEST_PAIRS = 2
"""The fewest pairs of draws that must show whether a target misses a flip of its image."""
BACKGROUND = 0.25
"""The share of a target that its most common value covers: a photograph has no such value."""
FAINT = 0.6
"""The share of a heatmap that is nearly as low as its lowest value."""
COMPUTED_DRAWS = 8
"""Draws of each sample whose images are computed: all flips or none with odds of 1 in 128."""
SAME_IMAGE, CLEARLY = 0.8, 4.0
"""The correlation of two draws of one image, one of them flipped or rotated, and how many times as far from 1 that of
any other flip must be. Chosen, not derived."""
MOSTLY_EXCHANGED = 0.7
"""The share of pairs of draws in which the axes of a target are exchanged: objects that a crop cuts off differ."""
SHOWS, MOST_LABELS = 0.3, 8
"""The correlation from which on an image shows its target, and how many labels that has at most, which are whole
numbers. Chosen, not derived."""


@dataclass(frozen=True, slots=True)
class DrawnTarget:
    """A target and its image in `pairs` of draws that place the image differently, so that it would show.

    It `followed` in some of them. In others it `stayed` the same array or, if there is an `axis`, where it would be if
    its image were not flipped along that, x or y. `moved` says what happened to the image, most of all in the `read` of
    a sample, by its number and draw. An image that is not `charted` is computed. It is `unclear` whether the target
    misses a flip where too few draws show it: its objects may be cut off, or look the same in both places. Rows and
    columns of an `exchanged` one are those of its columns and rows. A `camera` is a matrix of one; a `constant` one may
    be that of the file on purpose.
    """

    path: str
    image: str
    pairs: int
    followed: int
    stayed: int
    moved: str
    index: Index
    read: tuple[int, int]
    charted: bool = True
    axis: int | None = None
    unclear: bool = False
    camera: bool = False
    constant: bool = False
    exchanged: bool = False


@dataclass(frozen=True, slots=True)
class Draw:
    """Where the images of a draw come from, the arrays that may be targets, and leaves of a few numbers, by path.

    `file` is the height and width of its image files, if all are of one size.
    """

    placed: BoxDraw
    kept: Mapping[str, np.ndarray]
    numbers: Mapping[str, np.ndarray]
    file: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class DrawnTargets(Rooted):
    """The targets of a loader beside each image that moves, and cameras that are scaled by wrong factors."""

    targets: tuple[DrawnTarget, ...]
    collated: bool
    draws: int
    scaled: tuple[ScaledCamera, ...] = ()


def run_drawn_targets(
    build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool, most: int, rounds: int
) -> DrawnTargets:
    """Read two samples in so many draws with their images replaced by charts, in this disposable process.

    As long as a target is unclear, up to so many rounds read other samples in other draws.
    """
    reader = ChartedReader(build, folder, indices, ROUNDS * CHARTED_DRAWS, batched=batched)
    originals = charted_originals(reader)
    if not originals:
        return _of_computed(reader)
    draws: list[Draw] = []
    targets: tuple[DrawnTarget, ...] = ()
    for number in range(rounds):
        chosen = range(number * SAMPLES, (number + 1) * SAMPLES)
        draws += _charted(reader, [one % len(originals) for one in chosen], range(number * most, (number + 1) * most))
        targets = tuple(_compared(draws))
        if not any(target.unclear for target in targets):
            break
    return DrawnTargets((*targets, *_cameras(draws)), reader.collated, len(draws), tuple(_scaled(draws)))


def _charted(reader: ChartedReader, chosen: Sequence[int], draws: Iterable[int]) -> Iterator[Draw]:
    """Draws of the chosen samples in turn, each of one image as a whole."""
    for draw in draws:
        number = chosen[draw % len(chosen)]
        views = [view for chart in range(CHARTS) if (view := reader.read_charted(number, draw, chart)) is not None]
        if len(views) == CHARTS:
            placed = draw_of(views, number, draw, {})
            if not (placed.is_combined or placed.has_views):
                yield Draw(placed, _kept(views), numbers_of(views[0].value), _file_size(views[0]))


def _file_size(view: ChartedSample) -> tuple[int, int] | None:
    """The size of the image file; None of several, or if a leaf has it, such as a depth map that is not resized."""
    sizes = {image.size for image in view.inputs}
    shown = {leaf.shape[-2:] for leaf in view.leaves.values()}
    return None if len(sizes) > 1 or sizes & shown else next(iter(sizes), None)


def _scaled(draws: Sequence[Draw]) -> Iterator[ScaledCamera]:
    """The cameras that are scaled by wrong factors; those that follow one image of several are right."""
    sized = [(draw.placed, draw.numbers, draw.file) for draw in draws if draw.file is not None]
    images = sorted({name for placed, *_ in sized for name in placed.poses})
    cameras = {path for _, numbers, _ in sized for path, held in numbers.items() if camera_of(held) is not None}
    for path in sorted(cameras):
        beside = [scaled_camera(path, image, sized) for image in images]
        if beside and None not in beside:
            yield from (camera for camera in beside[:1] if camera is not None)


def line_of_scaled_camera(
    build: Callable[..., Loader], folder: Path, indices: Sequence[Index], camera: ScaledCamera, *, batched: bool
) -> Location | None:
    """The last line that resizes the image of a camera."""
    reader = ChartedReader(build, folder, indices, ROUNDS * CHARTED_DRAWS, batched=batched)
    charted_originals(reader)
    look = last_resize(followed(reader, *camera.read), camera.file)
    return look.location if look else None


def line_of_drawn_target(
    build: Callable[..., Loader],
    folder: Path,
    indices: Sequence[Index],
    target: DrawnTarget,
    *,
    batched: bool,
    again: Callable[[], Loader] | None,
) -> Location | None:
    """The last line that moves the image of a target that stays where it is: the target should move there.

    Of a computed image, it is the first one that does not run in the first draw, or only there.
    """
    reader = ChartedReader(build, folder, indices, ROUNDS * CHARTED_DRAWS, batched=batched)
    if not target.charted:
        number, draw = target.read
        flipped, first = partial(reader.read, number, draw), partial(reader.read, number, 0)
        first()  # triggers lazy initialization
        found = line_only_in(flipped, first) or line_only_in(first, flipped)
        return Location(*found) if found else None
    charted_originals(reader)
    lines = followed(reader, *target.read)
    look = last_move(lines, target.axis)
    return None if look is None else made_by_factory(look, lines, again).location


@dataclass(frozen=True, slots=True)
class _Flip:
    """A flip or rotation of an image, and the pose of its result."""

    transposes: bool
    flips_x: bool
    flips_y: bool

    def of(self, leaf: np.ndarray) -> np.ndarray:
        """The leaf, flipped."""
        leaf = leaf.swapaxes(-1, -2) if self.transposes else leaf
        leaf = leaf[..., ::-1] if self.flips_x else leaf
        return leaf[..., ::-1, :] if self.flips_y else leaf

    @property
    def pose(self) -> Pose:
        """Where each point of the result comes from."""
        x = (-1.0, 0.0, 1.0) if self.flips_x else (1.0, 0.0, 0.0)
        y = (0.0, -1.0, 1.0) if self.flips_y else (0.0, 1.0, 0.0)
        return Pose(y, x) if self.transposes else Pose(x, y)


FLIPS = tuple(_Flip(*flags) for flags in product((False, True), repeat=3))


def _of_computed(reader: ChartedReader) -> DrawnTargets:
    """The targets of images that are computed; the poses of these are those beside the first draw of each sample."""
    views = [(number, draw, reader.read(number, draw)) for number in range(SAMPLES) for draw in range(COMPUTED_DRAWS)]
    first = {number: view.leaves for number, draw, view in views if draw == 0}
    draws: list[Draw] = []
    leaves = []
    for number, draw, view in views:
        flipped = {
            path: flip
            for path, leaf in view.leaves.items()
            if path in first[number] and (flip := flip_between(first[number][path], leaf)) is not None
        }
        poses = {
            path: Placement(flip.pose, size, np.array([[0.0, 0.0, 1.0, 1.0]]))
            for path, flip in flipped.items()
            for size in [(view.leaves[path].shape[-2], view.leaves[path].shape[-1])]
        }
        draws.append(Draw(BoxDraw(number, draw, view.index, False, poses, {}, False, False), _kept([view]), {}))
        leaves.append(view.leaves)
    targets = tuple(replace(one, charted=False) for one in _compared(draws) if one.pairs and _shows(one, draws, leaves))
    if not targets:
        raise NotApplicable("no image is found while a sample is read, and none that is computed is flipped or rotated")
    return DrawnTargets(targets, reader.collated, len(draws))


def flip_between(leaf: np.ndarray, other: np.ndarray) -> _Flip | None:
    """How another draw of an image is flipped or rotated, apart from noise; None if that cannot be said."""
    fits = [
        (correlation(flipped, other), number)
        for number, flip in enumerate(FLIPS)
        if (flipped := flip.of(leaf)).shape == other.shape
    ]
    if len(fits) < 2:
        return None
    (second, _), (best, number) = sorted(fits)[-2:]
    return FLIPS[number] if best >= SAME_IMAGE and 1 - second > CLEARLY * (1 - best) else None


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """That of the values of two arrays; 0 if one of them is constant or not finite."""
    first, second = (values.astype(np.float64).ravel() for values in (one, other))
    first, second = first - first.mean(), second - second.mean()
    norm = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norm if np.isfinite(norm) and norm > 0 else 0.0


def _shows(target: DrawnTarget, draws: Sequence[Draw], leaves: Sequence[Mapping[str, np.ndarray]]) -> bool:
    """Whether an image shows its target in some draws, and in others only where this is flipped with it.

    The target may be that of another image of the sample, or an image before its augmentation, which has many values.
    """
    for number in range(SAMPLES):
        groups: dict[Pose, list[float]] = defaultdict(list)
        for draw, shown in zip([one.placed for one in draws], leaves, strict=True):
            if draw.number != number or target.image not in draw.poses:
                continue
            image, leaf = shown[target.image].mean(0), shown[target.path].mean(0)
            labels = np.unique(leaf)
            few = len(labels) <= min(MOST_LABELS, len(np.unique(image)) - 1)
            if image.shape != leaf.shape or not few or (labels != labels.round()).any():
                return False
            groups[draw.poses[target.image].pose].append(abs(correlation(image, leaf)))
        means = [float(np.mean(group)) for group in groups.values()]
        if len(means) > 1 and max(means) >= SHOWS and (target.followed or min(means) < max(means) / 2):
            return True
    return False


def _compared(draws: Sequence[Draw]) -> Iterator[DrawnTarget]:
    """Every target beside every image that moves."""
    kept = [draw.kept for draw in draws]
    placed = [draw.placed for draw in draws]
    paths = [path for path in (kept[0] if kept else {}) if all(path in leaves for leaves in kept)]
    for image in sorted({name for draw in placed for name in draw.poses}):
        for path in paths:
            leaves = [leaves[path] for leaves in kept]
            numbers = [draw.number for draw in placed]
            if _is_constant(numbers, leaves) or not all(map(_has_background, leaves)):
                continue
            if all((leaf == leaf.flat[0]).all() for leaf in leaves if leaf.size):
                continue  # as masks of padding are where there is none
            target = _target(path, image, placed, leaves)
            if target:
                yield target


def _cameras(draws: Sequence[Draw]) -> Iterator[DrawnTarget]:
    """Every camera beside the image that it follows best; of two, none that stays beside one that follows."""
    found = []
    for path in sorted({path for draw in draws for path in draw.numbers if _sees_image(path, draw)}):
        images = sorted({name for draw in draws for name in draw.placed.poses})
        beside = [target for image in images if (target := _camera(path, image, draws)) is not None]
        found += sorted(beside, key=lambda target: target.stayed / target.pairs)[:1]
    follows = any(target.followed == target.pairs for target in found)
    yield from (target for target in found if not (target.constant and (follows or _says_more(target, draws))))


def _sees_image(path: str, draw: Draw) -> bool:
    camera = camera_of(draw.numbers[path])
    return camera is not None and any(is_in_pixels(camera, place.size) for place in draw.placed.poses.values())


def _camera(path: str, image: str, draws: Sequence[Draw]) -> DrawnTarget | None:
    """How a camera follows an image, by the flip, or other moves, that it follows least."""
    pairs = list(judged_pairs(path, image, [(draw.placed, draw.numbers) for draw in draws]))
    by_axis = {axis: [pair[1:] for pair in pairs if pair[0] == axis] for axis in (None, 0, 1)}
    judged = {axis: own for axis, own in by_axis.items() if len(own) >= FEWEST_PAIRS}
    if not judged:
        return None
    axis, own = min(judged.items(), key=lambda item: sum(follows for follows, *_ in item[1]) / len(item[1]))
    followed = sum(follows for follows, *_ in own)
    _, one, other = next((pair for pair in own if not pair[0]), own[0])
    moved, read = _move(image, one, other, lambda _: UNMOVED)
    values = {(draw.placed.number, draw.numbers[path].tobytes()) for draw in draws if path in draw.numbers}
    return DrawnTarget(
        path,
        image,
        len(own),
        followed,
        len(own) - followed,
        moved,
        one.index,
        read,
        axis=axis,
        camera=True,
        constant=len(values) == len({number for number, _ in values}),
    )


def _says_more(camera: DrawnTarget, draws: Sequence[Draw]) -> bool:
    """Whether other numbers change between draws of a sample, too: they may say how the image was augmented."""
    values: dict[tuple[int, str], set[bytes]] = defaultdict(set)
    for draw in draws:
        for path, numbers in draw.numbers.items():
            values[draw.placed.number, path].add(numbers.tobytes())
    return any(len(held) > 1 for (_, path), held in values.items() if path != camera.path)


def _kept(views: Sequence[ChartedSample]) -> dict[str, np.ndarray]:
    """The arrays that no chart changes and that may have rows and columns; those of booleans as numbers."""
    first, *others = [_arrays(view.value) for view in views]
    return {
        path: array.astype(np.uint8) if array.dtype == bool else array
        for path, array in first.items()
        if all(path in other and np.array_equal(array, other[path]) for other in others)
    }


def _arrays(value: Any) -> dict[str, np.ndarray]:
    arrays = ((path, array_of(leaf)) for path, leaf in iter_leaves(value) if is_pillow(leaf) or has_axes(leaf))
    return {path: array for path, array in arrays if any(True for _ in grids_of(array))}


def _is_constant(numbers: Sequence[int], leaves: Sequence[np.ndarray]) -> bool:
    """Whether two samples share what no draw changes, as they do a grid of positions."""
    contents: dict[int, set[bytes]] = defaultdict(set)
    for number, leaf in zip(numbers, leaves, strict=True):
        contents[number].add(leaf.tobytes())
    first, *others = contents.values()
    return not others or bool(first & others[0])


def _has_background(leaf: np.ndarray) -> bool:
    """Whether little of it is shown, as in masks and heatmaps; another image may stay where it is on purpose."""
    values, counts = np.unique(leaf, return_counts=True)
    if len(values) < 2:
        return True
    faint = counts[values <= values[0] + CLOSE * float(values[-1] - values[0])].sum()
    return bool(counts.max() >= BACKGROUND * leaf.size or faint >= FAINT * leaf.size)


def _target(path: str, image: str, draws: Sequence[BoxDraw], leaves: Sequence[np.ndarray]) -> DrawnTarget | None:
    """How a target follows an image, by what explains most: that it stays, or that it misses a flip."""
    held = [
        (draw, Shown(grid))
        for draw, leaf in zip(draws, leaves, strict=True)
        if image in draw.poses
        if (grid := grid_beside(leaf, draw.poses[image].size)) is not None
    ]
    pairs = [
        (one, other)
        for one, other in combinations(held, 2)
        if one[0].number == other[0].number and not (one[1].is_symmetric and other[1].is_symmetric)
        if distance(one[0].poses[image].pose, other[0].poses[image].pose) > MOVED_DISTANCE
    ]
    exchanged = _missing(path, image, pairs, EXCHANGED) if pairs else None
    least = MOSTLY_EXCHANGED * max(exchanged.pairs, FEWEST_PAIRS) if exchanged else 0.0
    if exchanged and exchanged.stayed >= least and not exchanged.followed:
        return replace(exchanged, exchanged=True, unclear=False)
    tried = [_missing(path, image, pairs, missed) for missed in MISSED] if pairs else []
    poses = [one.poses[image].pose for one, _ in held]
    flipped = [axis for axis in (0, 1) if len({is_flipped(pose, axis) for pose in poses}) > 1]
    best = max(
        tried, key=lambda target: (target.pairs >= FEWEST_PAIRS, target.stayed / max(target.pairs, 1)), default=None
    )
    unclear = [target for target in tried if target.axis in flipped and target.unclear]
    return best and replace(best, unclear=bool(unclear) or best.pairs < FEWEST_PAIRS)


def _missing(
    path: str, image: str, pairs: Sequence[tuple[tuple[BoxDraw, Shown], tuple[BoxDraw, Shown]]], missed: Missed
) -> DrawnTarget:
    """How many pairs of draws show that a target follows its image, or that it misses something of it, but not both."""
    count = followed = stayed = 0
    moved, index, read = "", pairs[0][0][0].index, (0, 0)
    for (one, mine), (other, theirs) in pairs:
        poses = one.poses[image].pose, other.poses[image].pose
        agreement = compared(mine, theirs, poses, missed) if mine.grid.shape == theirs.grid.shape else None
        if agreement is None:
            continue
        stays = np.array_equal(mine.grid, theirs.grid) if missed == Missed() else agreement.misses
        if stays and agreement.follows:
            continue
        count += 1
        followed += agreement.follows
        stayed += stays
        if not moved:
            index = one.index
            moved, read = _move(image, one, other, missed.pose)
    unclear = count < FEWEST_PAIRS or bool(stayed and not followed)
    return DrawnTarget(path, image, count, followed, stayed, moved, index, read, axis=missed.axis, unclear=unclear)


def _move(image: str, one: BoxDraw, other: BoxDraw, unmoved: Callable[[Pose], Pose]) -> tuple[str, tuple[int, int]]:
    """What happened to an image in two draws, and the read in which it is farther from where it would be `unmoved`."""
    poses = [draw.poses[image].pose for draw in (one, other)]
    read = max(
        (distance(pose, unmoved(pose)), (draw.number, draw.draw))
        for pose, draw in zip(poses, (one, other), strict=True)
    )[1]
    return f"{poses[0].description} in one draw and {poses[1].description} in another", read
