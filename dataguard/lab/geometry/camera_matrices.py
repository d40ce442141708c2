"""Whether a camera matrix in pixels follows its image, as that is cropped, resized and flipped.

Charts show which part of its file an image shows. Taken back to that file, the focal lengths and the principal point
must be the same in all draws of a sample. After a flip, the focal length may have either sign.

A camera that is never scaled, or by the other side, has its principal point far from the middle of each image, and near
that of the file once it is scaled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.records import Index
from dataguard.lab.geometry.box_alignment import BoxDraw, Placement
from dataguard.lab.geometry.target_placement import MISSED, is_flipped

SHAPES = frozenset({(3, 3), (3, 4), (4, 4)})
MOST_NUMBERS = 16
"""Numbers of a leaf that may be a camera, or say how the image was augmented."""
LONG_FOCUS, CENTRAL = 0.2, 0.25
"""The shortest focal length, and how near the sides the principal point may be, as shares of the image."""
CLOSE, APART = (0.03, 0.1), (0.08, 0.25)
"""How far two principal points, as shares of the file, and the logarithms of two focal lengths may differ where the
matrix follows, as fitted poses do, and how far they must where it does not: three times as far."""

MIDDLE = 0.12
"""How far a principal point may be from the middle of its file: few lenses are mounted further off, and a factor of 1.5
moves the middle by twice as much."""
FEWEST_SCALED = 4
"""The fewest draws in which a camera does not fit its image, for a verdict."""
LEAST_SHOWN = 0.05
"""The share of each side of its file that an image shows at least; less of its own side, one that is rotated."""
SAME_NUMBER = 0.01
"""How much two numbers that mean the same may differ, as rounding of sizes does."""

Lens = tuple[np.ndarray, np.ndarray]
"""The principal point, and the logarithms of the focal lengths, in shares of the image file."""


def numbers_of(sample: object) -> dict[str, np.ndarray]:
    """The leaves of a sample that are a few numbers, by path."""
    arrays = ((path, array_of(leaf)) for path, leaf in iter_leaves(sample) if not isinstance(leaf, str | bytes))
    return {path: array for path, array in arrays if array.dtype.kind in "iuf" and array.size <= MOST_NUMBERS}


def camera_of(numbers: np.ndarray) -> np.ndarray | None:
    """The camera matrix, (3, 3), that an array is by its structure, maybe in a batch of one; None if it is none."""
    if numbers.ndim < 2 or numbers.shape[-2:] not in SHAPES or numbers.size != np.prod(numbers.shape[-2:]):
        return None
    matrix = numbers.reshape(numbers.shape[-2:])[:3, :3].astype(np.float64)
    (fx, skew, _), (lower, fy, _), last = matrix
    upper = lower == 0 and list(last) == [0, 0, 1] and abs(skew) <= CLOSE[1] * abs(fx)
    return matrix if upper and fx and fy and np.isfinite(matrix).all() else None


def is_in_pixels(camera: np.ndarray, size: tuple[int, int]) -> bool:
    """Whether a camera sees an image of this height and width around its centre, in pixels.

    Matrices of augmentations move by pixels and scale by about 1; normalized cameras look like those.
    """
    sides = np.array(size[::-1])
    centre, focus = camera[:2, 2] / sides, camera[[0, 1], [0, 1]] / sides
    return bool((focus >= LONG_FOCUS).all() and (np.abs(centre - 0.5) <= 0.5 - CENTRAL).all())


def lens_in_file(camera: np.ndarray, placement: Placement) -> Lens:
    """What a camera of an image says of the file that this shows."""
    height, width = placement.size
    pose = np.array([placement.pose.across, placement.pose.down, (0.0, 0.0, 1.0)])
    matrix = pose @ np.diag([1 / width, 1 / height, 1.0]) @ camera
    return matrix[:2, 2], np.log(np.maximum(np.abs(matrix[[0, 1], [0, 1]]), 1e-9))


def differ(one: Lens, other: Lens, by: Sequence[float]) -> bool:
    """Whether principal points or focal lengths differ by more than this."""
    return any(np.abs(first - second).max() > most for first, second, most in zip(one, other, by, strict=True))


def judged_pairs(
    path: str, image: str, draws: Sequence[tuple[BoxDraw, Mapping[str, np.ndarray]]]
) -> Iterator[tuple[int | None, bool, BoxDraw, BoxDraw]]:
    """The pairs of draws in which the image is placed differently: by which flip, and whether the camera follows that.

    The flip is along an axis, x or y, or None if both are flipped alike. Pairs in which a camera would be nearly as
    good if it stayed as it is, or missed the flip, are left out, as those of a flip around the principal point are.
    """
    held = [
        (draw, camera)
        for draw, numbers in draws
        if image in draw.poses and path in numbers and (camera := camera_of(numbers[path])) is not None
    ]
    for (one, first), (other, second) in combinations(held, 2):
        places = one.poses[image], other.poses[image]
        if one.number != other.number or any(place.pose.across[0] == 0 for place in places):
            continue
        axes = [axis for axis in (0, 1) if len({is_flipped(place.pose, axis) for place in places}) > 1]
        lenses = [lens_in_file(camera, place) for camera, place in zip((first, second), places, strict=True)]
        others = [
            (lens, lens_in_file(camera, replace(place, pose=missed.pose(place.pose))))
            for axis in axes
            for lens, camera, place in zip(lenses, (first, second), places, strict=True)
            for missed in MISSED
            if missed.axis == axis and is_flipped(place.pose, axis)
        ]
        others.append((lenses[0], lens_in_file(first, places[1])))
        if len(axes) <= 1 and all(differ(lens, kept, APART) for lens, kept in others):
            yield next(iter(axes), None), not differ(lenses[0], lenses[1], CLOSE), one, other


@dataclass(frozen=True, slots=True)
class ScaledCamera:
    """A camera that does not fit its image in any of so many `draws`, but would if its rows were scaled by `factors`.

    The file and the image have these sizes, (height, width), in the `read` of a sample, by its number and draw.
    """

    path: str
    image: str
    factors: tuple[float, float]
    file: tuple[int, int]
    size: tuple[int, int]
    draws: int
    index: Index
    read: tuple[int, int]

    @property
    def is_unscaled(self) -> bool:
        """Whether a row is that of the file, and not scaled by the other side."""
        return any(
            factor != 1 and abs(factor * whole / side - 1) <= SAME_NUMBER + 2 / side
            for factor, whole, side in zip(self.factors, self.file[::-1], self.size[::-1], strict=True)
        )


def scaled_camera(
    path: str, image: str, draws: Sequence[tuple[BoxDraw, Mapping[str, np.ndarray], tuple[int, int]]]
) -> ScaledCamera | None:
    """How a camera is scaled by the wrong factors in all draws; None if it is not, or if anything says its factors.

    Each draw comes with its numbers and the size of its image file.
    """
    options: list[set[int]] = []
    found: list[list[tuple[float, float]]] = []
    for draw, numbers, file in draws:
        camera = camera_of(numbers[path]) if path in numbers else None
        if camera is None or image not in draw.poses or _knows_size(path, numbers, draw.poses[image].size, file):
            return None
        place = draw.poses[image]
        if min(abs(place.pose.across[0]), abs(place.pose.down[1])) < LEAST_SHOWN:
            return None
        # The sides of the image in pixels, by those of the part of the file that it shows.
        across, down = abs(place.pose.across[0]) * file[1], abs(place.pose.down[1]) * file[0]
        x, y = place.size[1] / across, place.size[0] / down
        factors = list(product((1.0, x, x / y), (1.0, y, y / x)))
        centres = [lens_in_file(np.diag([*each, 1.0]) @ camera, place)[0] - 0.5 for each in factors]
        if (np.abs(centres[0]) <= 0.5 - CENTRAL).all():
            return None
        found.append(factors)
        options.append({number for number, centre in enumerate(centres) if (np.abs(centre) <= MIDDLE).all()})
    common = sorted(set.intersection(*options)) if options else []
    # Both rows are scaled by their own side, or by the other one, if one of them is.
    usual = [number for number in common if number in (4, 8)] or common
    if not usual or len(draws) < FEWEST_SCALED:
        return None
    draw, _, file = draws[0]
    return ScaledCamera(
        path, image, found[0][usual[0]], file, draw.poses[image].size, len(draws), draw.index, (draw.number, draw.draw)
    )


def _knows_size(path: str, numbers: Mapping[str, np.ndarray], size: tuple[int, int], file: tuple[int, int]) -> bool:
    """Whether another leaf says how the image was resized, or holds a camera that fits it."""
    for other, values in numbers.items():
        if other == path:
            continue
        camera = camera_of(values)
        if camera is not None and is_in_pixels(camera, size):
            return True
        said = (set(file), {one / two for one, two in zip(size, file, strict=True)}, {file[1] / size[1]})
        if any(all(np.abs(values / one - 1).min(initial=1.0) <= SAME_NUMBER for one in each) for each in said):
            return True
    return False
