"""Whether a camera matrix in pixels follows its image, as that is cropped, resized and flipped.

Charts show which part of its file an image shows. Taken back to that file, the focal lengths and the principal point
must be the same in all draws of a sample. After a flip, the focal length may have either sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from dataguard.lab.core.leaves import array_of, iter_leaves
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
