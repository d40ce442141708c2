"""Whether keypoints and classes of masks with a left and a right side are swapped when a sample is flipped.

A sample is read in several random states. Points that keep their order are mapped from one state to another by an
affine map; if left and right are swapped, so are the points of each pair. A map with a negative determinant is a flip,
so no image needs to be compared. Heatmaps have a point where each has its peak. Masks are compared with themselves,
flipped, with classes kept and swapped.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.core.model import Location
from dataguard.lab.core.leaves import array_of, describe, iter_leaves
from dataguard.lab.core.object_graph import reachable
from dataguard.lab.core.records import Index
from dataguard.lab.culprit.line_trace import LineTrace, Look
from dataguard.lab.geometry.symmetric_points import FEWEST_SHAPES, are_maps, candidates, may_be_points
from dataguard.lab.images.painter import SMALLEST_SIDE, is_image, planes_of
from dataguard.lab.reading.sample_reader import Reader
from dataguard.targets.variants import Loader

FLIP_SAMPLES, FLIP_DRAWS = 6, 6
"""Samples that are read, and in how many random states: with a flip of probability 0.5, all states of a sample agree in
one of 32."""
FLIP_READS = FLIP_SAMPLES * FLIP_DRAWS
ENOUGH_SAMPLES = 2
"""Samples with a flip after which no more are read: a second one confirms the first."""
BY_SYMMETRY = "points that mirror each other"
"""Where sides are declared that no name says."""
FEWEST_POINTS = 4
"""The fewest points that show an affine map and its error: three determine one."""
FEWEST_NAMES = 3
"""The fewest names of keypoints or classes: a left and a right one, and one more that a flip may leave in place."""
MOST_NAMES = 4096
"""The most names that may be those of keypoints: a list of millions is one of samples, and is not read."""
EXACT_ERROR = 0.02
"""The largest error of the map, as a share of the extent of the points: they may be rounded to pixels."""
FAINT = 0.1
"""The largest share of its peak that half of a heatmap may exceed: peaks cover less than half, photographs more."""
UPRIGHT_RATIO = 0.6
"""How far a horizontal flip may be rotated or sheared, the ratio of the elements of its matrix: by 31 degrees, short of
the 45 at which it may as well be a vertical one."""
FLAT_RATIO = 0.05
"""The least ratio of the extents of points that are not on a line: those of a line fit a flip across it as well."""
_SIDE_WORDS = re.compile(r"(?i:left|right)|(?<![A-Za-z])[LRlr](?![A-Za-z])|^[LR](?=[A-Z][a-z])")
_KEY = re.compile(r"\['([^']*)'\]")
_OTHER_WORD = {"left": "right", "right": "left", "l": "r", "r": "l"}


@dataclass(frozen=True, slots=True)
class FlippedKeypoints:
    """The keypoints or classes of a leaf in pairs of states that differ by a flip: how many have sides swapped.

    The others have `kept` their order, as in the sample of `index`.
    """

    leaf: str
    sides: Sides
    swapped: int
    kept: int
    index: Index


def find_mirrored(loader: Loader, folder: Path, indices: Sequence[Index]) -> tuple[Sides, ...]:
    """Points that mirror each other in these samples, and that no list of names is about.

    What most samples do not hold ends the search: for a mask that is no heatmap, one of four samples is enough.
    """
    reader, lists = Reader(loader, folder), _lists(loader.dataset)
    held: list[dict[str, np.ndarray]] = []
    for left in reversed(range(len(indices))):
        held.append(dict(_may_mirror(reader.read(indices[len(held)], 0))))
        if sum(map(bool, held)) + left < FEWEST_SHAPES:
            return ()
    mirrored = [Sides(BY_SYMMETRY, partner, _pair_of(partner)) for partner in candidates(held).values()]
    return tuple(sides for sides in mirrored if len(sides.partner) not in lists)


def find_flips(
    loader: Loader, folder: Path, indices: Sequence[Index], mirrored: Sequence[Sides] = ()
) -> tuple[FlippedKeypoints, ...]:
    """Read samples in several random states each, until flips are seen; `mirrored` are sides that no name declares."""
    declared = {len(sides.partner): sides for sides in find_sides(loader.dataset) or mirrored}
    reader = Reader(loader, folder, FLIP_DRAWS)
    flips_by_path: dict[str, list[tuple[Index, str]]] = defaultdict(list)
    named: dict[str, Sides] = {}
    for index in indices:
        samples = [reader.read(index, draw) for draw in range(FLIP_DRAWS)]
        for path, sides, how in mask_flips(samples, declared):
            named[path] = sides
            flips_by_path[path].append((index, how))
        draws = [_keypoints(sample, declared) for sample in samples]
        for path, first in draws[0].items():
            named[path] = first.sides
            states = [keypoints[path] for keypoints in draws if path in keypoints]
            for first_state, second_state in itertools.combinations(states, 2):
                kind = flip_between(first_state.points, second_state.points, first.sides.partner)
                if kind == "swapped" or (kind == "kept" and first_state.beside == second_state.beside):
                    flips_by_path[path].append((index, kind))
        if any(len({index for index, _ in flips}) >= ENOUGH_SAMPLES for flips in flips_by_path.values()):
            break
    return tuple(_counted(path, named[path], flips) for path, flips in flips_by_path.items())


def line_of_flip(loader: Loader, folder: Path, flipped: FlippedKeypoints) -> Location | None:
    """The line of the user's code after which these keypoints or classes are flipped, and keep their order.

    A line that swaps them and does not use the result should have done so.
    """
    sides = flipped.sides
    reader = Reader(loader, folder, FLIP_DRAWS)
    for draw in range(FLIP_DRAWS):
        measure = partial(_state_of, count=len(sides.partner))
        trace = LineTrace(measure, {"dataset": loader.dataset}, dropping=True)
        with trace.following():
            reader.read(flipped.index, draw)
        flips = _Flips(sides)
        found = next((look for look in trace.looks if "kept" in flips.of(look)), None)
        if found:
            unused = (one for one in trace.dropped() if "swapped" in flips.of(one) or flips.are_swapped(found, one))
            return next(unused, found).location
    return None


class _Flips:
    """Compares the keypoints or masks of each look with those before."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._earlier: dict[Hashable, list[np.ndarray]] = defaultdict(list)

    def of(self, look: Look) -> set[str | None]:
        """How the values of a look are flipped, beside each that was there before."""
        is_mask, now = _values_of(look)
        before = self._earlier[is_mask, now.shape]
        kinds = {
            _flip_between(one, now, self._sides) if is_mask else flip_between(one, now, self._sides.partner)
            for one in before
        }
        before.append(now)
        return kinds

    def are_swapped(self, look: Look, other: Look) -> bool:
        """Whether another look has the points of a look with sides swapped: symmetric points seem to have moved."""
        (is_mask, points), (_, others) = _values_of(look), _values_of(other)
        return not is_mask and np.array_equal(points[..., list(self._sides.partner), :], others)


def _values_of(look: Look) -> tuple[bool, np.ndarray]:
    state: Any = look.state
    is_mask, shape, content = state
    return is_mask, np.frombuffer(content, np.int64 if is_mask else np.float64).reshape(shape)


def _state_of(array: np.ndarray, count: int) -> Hashable | None:
    """The values of a mask, or of so many points."""
    points = _points(array, count)
    if points is None and is_image(array):
        mask = class_mask(array)
        return None if mask is None else (True, mask.shape, mask.tobytes())
    return None if points is None else (False, points[..., :2].shape, points[..., :2].tobytes())


def _counted(path: str, sides: Sides, flips: Sequence[tuple[Index, str]]) -> FlippedKeypoints:
    kept = [index for index, kind in flips if kind == "kept"]
    return FlippedKeypoints(path, sides, len(flips) - len(kept), len(kept), kept[0] if kept else flips[0][0])


def names_sides(paths: Iterable[str]) -> bool:
    """Whether the keys in the paths of leaves name the left and the right of something."""
    keys = {key for path in paths for key in _KEY.findall(path)}
    return any(other != key and other in keys for key in keys for other in [_other_side(key)])


def find_sides(dataset: Any) -> tuple[Sides, ...]:
    """The left and right keypoints or classes that a dataset declares, by names or by the order after a flip.

    For each number of keypoints, all lists of names must agree, or none is sure to be theirs.
    """
    return _agreed(_lists(dataset))


def _lists(dataset: Any) -> dict[int, list[Sides]]:
    """What each list of names of a dataset says about sides, by their number."""
    by_count: dict[int, list[Sides]] = defaultdict(list)

    def may_name(value: Any) -> bool:
        return type(value) in (list, tuple) and 1 <= len(value) <= MOST_NAMES

    for node in reachable({"dataset": dataset}, may_name):
        sides = _sides(node.path, node.value, flips="flip" in node.step.lower())
        if sides is not None:
            by_count[len(sides.partner)].append(sides)
    return by_count


def _agreed(by_count: Mapping[int, Sequence[Sides]]) -> tuple[Sides, ...]:
    agreed = (several[0] for several in by_count.values() if len({sides.partner for sides in several}) == 1)
    return tuple(sides for sides in agreed if sides.pair)


def _may_mirror(sample: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The leaves that may be points which mirror each other, and the peaks of heatmaps that have one each."""
    for path, array in _arrays(sample):
        dtype = str(array.dtype)
        if array.dtype.kind not in "iuf" or not may_be_points(array.shape, dtype):
            continue
        points = _peaks(array.astype(np.float64)) if are_maps(array.shape, dtype) else array
        if points is not None and (points is array or is_visible(points).all()):
            yield path, points


def _pair_of(partner: Sequence[int]) -> tuple[str, str]:
    first = next(number for number, other in enumerate(partner) if other != number)
    return f"point {first}", f"point {partner[first]}"


def _listed_pairs(value: Sequence[Any]) -> list[int] | None:
    """The order after a flip that pairs of numbers say, `[[1, 2], [3, 4]]`; None if these are no pairs."""
    pairs = [pair for pair in value if type(pair) in (list, tuple) and len(pair) == 2]
    numbers = [number for pair in pairs for number in pair]
    if len(pairs) != len(value) or any(type(number) is not int or number < 0 for number in numbers):
        return None
    if len(set(numbers)) != len(numbers) or max(numbers) >= MOST_NAMES:
        return None
    order = list(range(max(numbers) + 1))
    for one, other in pairs:
        order[one], order[other] = other, one
    return order


def _sides(where: str, value: Sequence[Any], *, flips: bool) -> Sides | None:
    """What a list of names, or one of the numbers or pairs of a flip, says about sides."""
    value = (_listed_pairs(value) if flips else None) or value
    if len(value) < FEWEST_NAMES:
        return None
    if all(type(name) is str for name in value):
        numbers = {name: number for number, name in enumerate(value)}
        partner = tuple(numbers.get(_other_side(str(name)), numbers[name]) for name in value)
        shown = list(value)
    elif flips and all(type(number) is int for number in value) and sorted(value) == list(range(len(value))):
        partner, shown = tuple(value), [f"keypoint {number}" for number in range(len(value))]
    else:
        return None
    pairs = [number for number, other in enumerate(partner) if other != number]
    if any(partner[partner[number]] != number for number in pairs):
        return None
    return Sides(where, partner, (shown[pairs[0]], shown[partner[pairs[0]]]) if pairs else None)


def _other_side(name: str) -> str:
    """The name with left and right exchanged, in the same case."""

    def exchanged(match: re.Match[str]) -> str:
        word = _OTHER_WORD[match[0].lower()]
        return word.upper() if match[0].isupper() else word.capitalize() if match[0][0].isupper() else word

    return _SIDE_WORDS.sub(exchanged, name)


@dataclass(frozen=True, slots=True)
class _Keypoints:
    """The points of a leaf (instances, points, 2 or 3), and the bytes of other leaves with a value for each point."""

    sides: Sides
    points: np.ndarray
    beside: tuple[bytes, ...]


def _keypoints(sample: Any, declared: Mapping[int, Sides]) -> dict[str, _Keypoints]:
    """The leaves of a sample that hold as many points as some sides are declared for."""
    arrays = dict(_arrays(sample))
    keypoints = {}
    for path, array in arrays.items():
        for count, sides in declared.items():
            points = _points(array, count)
            if points is not None:
                beside = [array.tobytes() for array in arrays.values() if array.shape == (count,)]
                keypoints[path] = _Keypoints(sides, points, tuple(beside))
    return keypoints | dict(_keyed(sample))


def _keyed(value: Any, path: str = "") -> Iterator[tuple[str, _Keypoints]]:
    """The mappings in a sample from names with sides to one point each."""
    if isinstance(value, Mapping):
        sides = _sides(f"sample{path}", list(value), flips=False)
        points = [point for point in map(_point, value.values()) if point is not None]
        complete = len(points) == len(value) >= FEWEST_POINTS and len({point.shape for point in points}) == 1
        if sides and sides.pair and complete:
            yield path, _Keypoints(sides, np.stack(points)[None].astype(np.float64), ())
        for key, item in value.items():
            yield from _keyed(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from _keyed(item, f"{path}[{position}]")


def _point(value: Any) -> np.ndarray | None:
    """Two or three numbers, if a value is a point."""
    if isinstance(value, tuple | list) and all(type(number) in (int, float) for number in value):
        value = np.array(value)
    array = array_of(value) if isinstance(value, torch.Tensor) else value
    is_point = isinstance(array, np.ndarray) and array.shape in ((2,), (3,)) and array.dtype.kind in "iuf"
    return array if is_point else None


def _arrays(value: Any, path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The leaves of a sample as arrays; a list of points, of coordinates or of names is one."""
    if isinstance(value, torch.Tensor | np.ndarray):
        yield path, array_of(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _arrays(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        rows = [array_of(item) for item in value if isinstance(item, _NUMBERS | torch.Tensor | np.ndarray)]
        rows += [
            np.asarray(item)
            for item in value
            if type(item) in (list, tuple) and all(isinstance(x, _NUMBERS) for x in item)
        ]
        if len(rows) == len(value) >= FEWEST_POINTS and len({(row.shape, row.dtype.kind == "U") for row in rows}) == 1:
            yield path, np.stack(rows)
        else:
            for position, item in enumerate(value):
                yield from _arrays(item, f"{path}[{position}]")
    else:
        yield from ((step, array_of(leaf)) for step, leaf in iter_leaves(value, path) if isinstance(leaf, torch.Tensor))


_NUMBERS = int | float | str | np.generic


def _points(array: np.ndarray, count: int) -> np.ndarray | None:
    """An array as so many points for each instance, if it may hold these; of heatmaps, the peaks."""
    if array.dtype.kind not in "iuf":
        return None
    shape = array.shape
    if len(shape) == 3 and shape[0] == count and min(shape[1:]) >= SMALLEST_SIDE:
        return _peaks(array.astype(np.float64))
    if shape and shape[-1] in (2 * count, 3 * count) and len(shape) <= 2:
        array = array.reshape(-1, count, shape[-1] // count)
    elif len(shape) in (2, 3) and shape[-2] == count and shape[-1] in (2, 3):
        array = array.reshape(-1, count, shape[-1])
    else:
        return None
    return array.astype(np.float64)


def _peaks(maps: np.ndarray) -> np.ndarray | None:
    """The centre of the peak of each heatmap, (1, maps, 3) with a flag of what is visible; None if they have none."""
    heights = maps.max((1, 2))
    seen = heights > 0
    if not seen.any() or maps.min() < 0 or (np.median(maps[seen], axis=(1, 2)) > FAINT * heights[seen]).any():
        return None
    weights = np.where(maps > heights[:, None, None] / 2, maps, 0)
    total = np.where(seen, weights.sum((1, 2)), 1)
    y, x = np.indices(maps.shape[1:])
    centres = [(weights * place).sum((1, 2)) / total for place in (x, y)]
    return np.stack([*centres, seen.astype(np.float64)], -1)[None]


def flip_between(first: np.ndarray, second: np.ndarray, partner: Sequence[int]) -> str | None:
    """Whether the same points, (instances, points, 2 or 3), are flipped: "kept" in their order, or "swapped"."""
    if first.shape != second.shape:
        return None
    paired = np.asarray(partner) != np.arange(len(partner))
    visible = is_visible(first) & is_visible(second)
    visible &= visible[:, list(partner)]
    if not visible[:, paired].any():
        return None
    matrix = affine_map(first[visible], second[visible])
    if matrix is not None:
        return "kept" if is_flip(matrix) else None
    matrix = affine_map(first[:, list(partner)][visible], second[visible])
    return "swapped" if matrix is not None and is_flip(matrix) else None


def affine_map(points: np.ndarray, images: np.ndarray) -> np.ndarray | None:
    """The matrix (2, 2) that maps each point to its image, if there is exactly one."""
    source, result = points[:, :2], images[:, :2]
    if len(source) < FEWEST_POINTS or _is_flat(source) or _is_flat(result):
        return None
    terms = np.column_stack([source, np.ones(len(source))])
    matrix, *_ = np.linalg.lstsq(terms, result, rcond=None)
    error = np.abs(terms @ matrix - result).max()
    return matrix[:2] if error <= EXACT_ERROR * np.ptp(result, axis=0).max() else None


def is_flip(matrix: np.ndarray) -> bool:
    """Whether it is a horizontal flip, perhaps with a crop, another scale, or some rotation."""
    (across, skew), (shear, down) = matrix
    return bool(max(abs(skew), abs(shear)) <= UPRIGHT_RATIO * min(-across, down))


def is_visible(points: np.ndarray) -> np.ndarray:
    """Which points have a place: those that are missing or outside are often zero, and flagged by a third value."""
    seen = np.isfinite(points[..., :2]).all(-1) & (points[..., :2] != 0).any(-1)
    flags = points[..., 2] if points.shape[-1] == 3 else np.ones(points.shape[:2])
    return np.asarray(seen & (flags > 0) if set(np.unique(flags)) <= {0, 1, 2} else seen)


def _is_flat(points: np.ndarray) -> bool:
    extents = np.linalg.svd(points - points.mean(0), compute_uv=False)
    return bool(extents[-1] < FLAT_RATIO * extents[0])


UNLABELLED = (-100, -1, 255)
"""Values of pixels without a class, by convention of torch and of Pascal VOC."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The number of the keypoint or class that each one changes places with, `where` it is declared, and one pair."""

    where: str
    partner: tuple[int, ...]
    pair: tuple[str, str] | None


def mask_flips(samples: Sequence[Any], declared: Mapping[int, Sides]) -> Iterator[tuple[str, Sides, str]]:
    """The masks of these states that are flipped between two of them: "swapped", or "kept" if classes stay.

    States in which another leaf differs, such as a flag of the flip, are not compared.
    """
    states = [_state(sample) for sample in samples] if declared else []
    for (first, first_beside), (second, second_beside) in itertools.combinations(states, 2):
        for path in first.keys() & second.keys():
            if (
                first_beside != second_beside
                or first[path].shape != second[path].shape
                or (first[path] == second[path]).all()
            ):
                continue
            kinds = [(sides, _flip_between(first[path], second[path], sides)) for sides in declared.values()]
            clear = [(sides, kind) for sides, kind in kinds if kind]
            yield from [(path, *clear[0])] if len(clear) == 1 else []


def _state(sample: Any) -> tuple[dict[str, np.ndarray], set[tuple[str, bytes]]]:
    """The masks of integers in a sample, and all that is not an image."""
    masks, beside = {}, set()
    for path, leaf in iter_leaves(sample):
        if not is_image(leaf):
            beside.add((path, describe(path, leaf).digest))
            continue
        mask = class_mask(leaf if not isinstance(leaf, torch.Tensor) else array_of(leaf))
        if mask is not None:
            masks[path] = mask
    return masks, beside


def class_mask(image: Any) -> np.ndarray | None:
    """An image as the classes of its pixels, (height, width), if it may hold these."""
    planes = planes_of(image)
    holds = len(planes) == 1 and planes.dtype.kind in "iu" and min(planes.shape[-2:]) >= SMALLEST_SIDE
    return planes[0].astype(np.int64) if holds else None


def _flip_between(mask: np.ndarray, second: np.ndarray, sides: Sides) -> str | None:
    """Whether a mask equals a second one flipped, with classes "kept" or "swapped"; class 1 may be the first name."""
    values = set(np.unique(mask).tolist()) - {*UNLABELLED}
    count = len(sides.partner)
    offsets = [offset for offset in (0, 1) if max(values, default=0) < count + offset]
    flipped = mask[:, ::-1]
    swapped = [_swapped(flipped, sides.partner, offset) for offset in offsets]
    if not swapped or any((other == flipped).all() for other in swapped):
        return None  # no class with a side is there, or it is not known which
    if (second == flipped).all():
        return "kept"
    return "swapped" if any((second == other).all() for other in swapped) else None


def _swapped(mask: np.ndarray, partner: Sequence[int], offset: int) -> np.ndarray:
    swapped = mask.copy()
    for number, other in enumerate(partner):
        swapped[mask == number + offset] = other + offset
    return swapped
