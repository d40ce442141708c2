"""Charts that encode the position of every pixel, and the images and masks that they replace.

The charts are vertical and horizontal stripes, as in structured light. Each pixel of a sample is light or dark in each
chart; these bits are the number of its stripe. Cropping, flipping, rotating and resizing move the numbers; brightness,
contrast and normalization do not change them; erased or filled pixels have none. `located` decodes the source position
of each point of a leaf, `pose_of` fits a map from the leaf to the image to them, and `displacement` compares two
leaves.

`ChartPainter` puts charts in place of images and of their masks (or depth maps). An image has colours, or many values;
a mask has one channel, or a few values in flat areas. The charts of a mask use two of its own values, so that the
user's code still works on them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, is_pillow
from dataguard.lab.images.painter import as_given, container_of, is_image, planes_last

# Why the stripes say where a pixel comes from: stripe k along one axis is light in chart b where bit b of the Gray code
# of k is set, so the bits of a pixel name its stripe, and a pixel in which two neighbouring stripes blend has one bit
# in doubt, which moves it by one stripe at most. Whether it is light is known without knowing any brightness: the first
# chart and its negative show each pixel once light and once dark, so the middle of its own range is the threshold.
BITS = 3
"""The bits of a stripe's number along one axis. Each further bit halves the stripes, which then blur in small leaves,
and costs two more reads of each draw."""
STRIPES = 1 << BITS
_STRIPE_SCALE, _STRIPE_SHIFT = STRIPES - 0.6, 0.4
"""How many stripes there are along a side, and where the first one begins: off the simple fractions of a side, where a
resize would keep edges sharp."""
CHARTS = 2 * BITS + 1
"""Vertical stripes, horizontal stripes, and the negative of the first chart."""
COARSE = (0, BITS, 2 * BITS)
"""The charts with two halves: the highest bit of each axis, and the negative."""
GRID = 64
"""Points of a leaf that are sampled along each side, evenly spaced: eight in each stripe."""
BLOCKS = 6
"""Blocks along each side, over which positions are averaged: ten points or so a side, which is more than a stripe."""
_DECODED_CONTRAST = 0.3
"""The share of the usual contrast between light and dark that a pixel needs to be decoded.

Smaller decodes more pixels in which another image or noise decides, larger loses those at blurred edges.
"""
_PURE_CONTRAST, _OTHER_CONTRAST, _NOISE_ERRORS = 0.9, 0.25, 8
"""The share of the usual contrast at which a pixel shows nothing but the chart. Another image is visible if the darkest
values of blocks vary by more than this share, and by so many standard errors.

The medians of 144 blocks of noise alone range over 6.6 standard errors, and over 9.4 in one of a thousand leaves; the
share of the contrast comes on top.
"""
_EDGE_TOLERANCE = 0.04
"""How far the edge of a leaf may be from that of the image to count as the same edge, in words only: a third of a
stripe, which is about as exact as a fitted pose."""
_KNOWN_SHARE = 0.15
"""The smallest share of points that must be known in a leaf, or in two that are compared: smaller compares smaller
visible parts, by fewer points."""
_MISFIT = 0.7 / STRIPES
"""How far positions may be off an affine map, as their root mean square: that of numbers which are off by up to half a
stripe is 0.29 of one, and blurred edges add to it."""
_STRAIGHT = 0.15
"""The largest share of the other direction in a map that is still called straight, or rotated by 90 degrees: 9
degrees."""

LabelPair = tuple[float, float]
"""Two values of a mask, the smaller one first."""
Field = np.ndarray
"""The source positions of the points of a leaf, (GRID, GRID, 2): x and y as shares of the image, NaN if unknown."""


def pattern(chart: int, height: int, width: int, *, negative: bool = False) -> np.ndarray:
    """Where a chart of this size is light: bool, (height, width)."""
    across = chart < BITS or chart == 2 * BITS
    length = width if across else height
    stripe = ((np.arange(length) + 0.5) * _STRIPE_SCALE / length + _STRIPE_SHIFT).astype(int)
    light = ((stripe ^ (stripe >> 1)) >> (BITS - 1 - chart % BITS)) & 1 == 1
    light = light ^ (chart == 2 * BITS) ^ negative
    return np.broadcast_to(light[None, :] if across else light[:, None], (height, width))


def sampled(planes: np.ndarray) -> np.ndarray:
    """Samples the points of a leaf: (planes, height, width) to (planes, GRID, GRID)."""
    rows, columns = (
        np.minimum(((np.arange(GRID) + 0.5) * length / GRID).astype(int), length - 1) for length in planes.shape[-2:]
    )
    return np.asarray(planes[..., rows[:, None], columns[None, :]])


def flattened(planes: np.ndarray) -> np.ndarray:
    """One number per point, in which light and dark differ even if each plane is a class."""
    weights = np.arange(1, len(planes) + 1, dtype=np.float64)
    return np.tensordot(weights, planes.astype(np.float64), axes=1)


def located(views: Sequence[np.ndarray], *, negative: bool = False, labels: LabelPair | None = None) -> Field | None:
    """The source positions of the points of a leaf, decoded from its views of all charts, each (GRID, GRID).

    None if no point can be decoded. `negative` swaps light and dark. In a label mask, only points with values from the
    smaller to the larger of the two `labels` count.
    """
    stack = np.stack(views)
    low, high = stack.min(axis=0), stack.max(axis=0)
    contrast = high - low
    if not np.isfinite(contrast).all() or contrast.max() <= 0:
        return None
    usual = np.percentile(contrast[contrast > 0], 95) if labels is None else labels[1] - labels[0]
    decoded = contrast > _DECODED_CONTRAST * usual
    middle = (low + high) / 2
    if labels is not None:
        slack = 0.01 * usual
        decoded &= (low >= labels[0] - slack) & (high <= labels[1] + slack)
        middle = np.full_like(middle, (labels[0] + labels[1]) / 2)
    bits = (stack > middle) ^ negative
    field = np.stack([_number(bits[:BITS]), _number(bits[BITS : 2 * BITS])], axis=-1)
    return np.where(decoded[..., None], (field + 0.5 - _STRIPE_SHIFT) / _STRIPE_SCALE, np.nan)


def extent(views: Sequence[np.ndarray]) -> tuple[np.ndarray, bool]:
    """The rectangle of a leaf that charts change, and whether something else than the chart is visible in it.

    The rectangle is (1, 4), x and y of two corners as shares of the leaf. Noise and constant fillings are nothing else:
    blocks have the same median.
    """
    stack = np.stack(views)
    low, contrast = stack.min(axis=0), np.ptp(stack, axis=0)
    usual = np.percentile(contrast[contrast > 0], 95)
    decoded = contrast > _DECODED_CONTRAST * usual
    rows, columns = (np.flatnonzero(decoded.any(axis=axis)) for axis in (1, 0))
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    holds_more = False
    for part in (contrast > _PURE_CONTRAST * usual, ~decoded):
        inside = np.where(part, low, np.nan)[top:bottom, left:right]
        rows_of_blocks = np.array_split(inside, 2 * BLOCKS)
        blocks = [block for row in rows_of_blocks for block in np.array_split(row, 2 * BLOCKS, axis=1)]
        values = [block[~np.isnan(block)] for block in blocks]
        values = [block for block in values if len(block) > _DECODED_CONTRAST * inside.size / len(blocks)]
        if values:
            noise = np.mean([block.std() / np.sqrt(len(block)) for block in values])
            spread = np.ptp([np.median(block) for block in values])
            holds_more |= bool(spread > _OTHER_CONTRAST * usual + _NOISE_ERRORS * noise)
    return np.array([[left, top, right, bottom]]) / GRID, holds_more


def label_pair_of(views: Sequence[np.ndarray]) -> LabelPair | None:
    """The two most common values of a mask where the charts change it; None unless most points have one of them."""
    stack = np.stack(views)
    values, counts = np.unique(stack[:, np.ptp(stack, axis=0) > 0], return_counts=True)
    if len(values) < 2:
        return None
    leading = np.argsort(-counts)[:2]
    low, high = sorted(float(value) for value in values[leading])
    return (low, high) if counts[leading].sum() > 0.5 * counts.sum() else None


def _number(bits: np.ndarray) -> np.ndarray:
    """The numbers that bits of Gray code encode, highest bit first."""
    number = np.zeros(bits.shape[1:], int)
    running = np.zeros(bits.shape[1:], bool)
    for bit in bits:
        running = running ^ bit
        number = number * 2 + running
    return number


def displacement(first: Field, second: Field) -> float | None:
    """The mean distance between the source positions of two leaves, as a share of the image; None if unknown.

    Positions are averaged over blocks first, so that a point between two stripes does not count.
    """
    difference = first - second
    known = ~np.isnan(difference[..., 0])
    if known.mean() < _KNOWN_SHARE:
        return None
    along = np.arange(GRID) * BLOCKS // GRID
    block = (along[:, None] * BLOCKS + along[None, :])[known]
    counts = np.bincount(block, minlength=BLOCKS * BLOCKS)
    moved = [np.bincount(block, difference[known][:, axis], minlength=BLOCKS * BLOCKS) for axis in (0, 1)]
    enough = counts >= 0.4 * (GRID / BLOCKS) ** 2  # of fewer points, those between two stripes would not cancel out
    if enough.sum() < 3:
        return None
    lengths = np.hypot(moved[0][enough] / counts[enough], moved[1][enough] / counts[enough])
    return float(np.average(lengths, weights=counts[enough]))


@dataclass(frozen=True, slots=True)
class Pose:
    """The affine map from a leaf to the image: `x = across[0] * u + across[1] * v + across[2]`, and `down` for y.

    u and v go from 0 to 1 over the leaf, x and y over the image.
    """

    across: tuple[float, float, float]
    down: tuple[float, float, float]

    @property
    def description(self) -> str:
        """What happened to the image, for a message."""
        (a, b, c), (d, e, f) = self.across, self.down
        straight = abs(b) + abs(d) < _STRAIGHT * (abs(a) + abs(e))
        if not straight:
            rotated = abs(a) + abs(e) < _STRAIGHT * (abs(b) + abs(d))
            turned = {(True, False): "rotated 90 degrees left", (False, True): "rotated 90 degrees right"}
            return turned.get((b < 0, d < 0), "transposed") if rotated else "rotated or warped"
        names = ["flipped horizontally"] if a < 0 else []
        names += ["flipped vertically"] if e < 0 else []
        (left, right), (top, bottom) = sorted((c, c + a)), sorted((f, f + e))
        if min(left, top, 1 - right, 1 - bottom) < -_EDGE_TOLERANCE:
            names.append("padded")
        if max(left, top, 1 - right, 1 - bottom) > _EDGE_TOLERANCE:
            shown = [f"{100 * max(start, 0):.0f}-{min(end, 1):.0%}" for start, end in ((left, right), (top, bottom))]
            names.append(f"cropped to {shown[0]} of its width and {shown[1]} of its height")
        return " and ".join(names) or "unchanged"


UNMOVED = Pose((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
"""That of a leaf that shows the whole image unchanged."""


def pose_of(field: Field) -> Pose | None:
    """The affine map that fits the source positions; None if none does."""
    known = ~np.isnan(field[..., 0])
    if known.mean() < _KNOWN_SHARE:
        return None
    v, u = np.meshgrid(*[(np.arange(GRID) + 0.5) / GRID] * 2, indexing="ij")
    design = np.stack([u[known], v[known], np.ones(int(known.sum()))], axis=-1)
    fitted, *_ = np.linalg.lstsq(design, field[known], rcond=None)
    rest = field[known] - design @ fitted
    if np.sqrt((rest**2).mean()) > _MISFIT:
        return None
    across, down = (tuple(float(term) for term in fitted[:, axis]) for axis in (0, 1))
    return Pose(across, down)  # type: ignore[arg-type]


def unmoved() -> Field:
    """The source positions of a leaf that shows the whole image unchanged."""
    views = [flattened(sampled(pattern(chart, GRID, GRID)[None].astype(np.float64))) for chart in range(CHARTS)]
    field = located(views)
    return np.full((GRID, GRID, 2), np.nan) if field is None else field


_ORIENTATION = 0x112
"""The EXIF tag of the orientation."""
_MOST_PIXELS = 1 << 24
"""Larger images are not replaced: a limit of time and memory."""
_MOST_LABELS = 32
"""The largest number of labels in a mask: more than Pascal VOC (21) and the classes of Cityscapes (19) have, and far
fewer than the values of a photograph."""
_LABEL_SHARE, _LABEL_REACH, _HALO_REACH = 0.005, 10, 40
"""In a lossy mask, a label has at least this share of the pixels; most others are this close to one, few are beyond.

Smaller reaches lose more masks to compression, larger ones join close labels.
"""
_LABELLED_SHARE, _CLOSE_SHARE, _BEYOND_SHARE = 0.4, 0.75, 0.25
"""The shares of pixels that have a label, that are close to one, and, of the others, that are beyond any halo.

Stricter shares lose small or heavily compressed masks, looser ones take photographs with few tones for masks.
"""

_MOST_COLOURS = 4
"""Planes of an image; more are the slices of a volume, or one for each class."""
_THUMBNAIL_SIDE = 16
"""The side of a thumbnail in points, of which `GRID` is a multiple."""
_FLAT_SHARE = 0.6
"""The share of the pixels of a mask that lie inside flat areas: smaller accepts more small objects, larger fewer
photographs with a flat background."""

Value = tuple[float, ...]
"""A label as a mask stores it: one number, or a colour."""


@dataclass(frozen=True, slots=True)
class InputImage:
    """One image that was decoded or passed to a transform: what distinguishes an image from a mask.

    `labels` are the values of a label mask, None for anything else, and `edge_labels` those that occur only at edges.
    `value_count` is larger than their number if lossy compression added values around edges. `declared` is what its
    type says it is: "image" or "mask". `position` is its number among the images of its sample, and `thumbnail` its
    brightness, (16, 16). `rotates`: its EXIF orientation says that it is not stored upright.
    """

    source: str
    size: tuple[int, int]
    planes: int
    is_integer: bool
    labels: tuple[Value, ...] | None
    edge_labels: frozenset[Value]
    value_count: int
    declared: str | None
    position: int = field(compare=False)
    thumbnail: np.ndarray = field(compare=False)
    rotates: bool = field(default=False, compare=False)

    @property
    def is_lossy_mask(self) -> bool:
        """Whether it is a label mask with lossy compression."""
        return self.labels is not None and self.value_count > len(self.labels)


def input_image(image: Any, source: str, *, lossy: bool = False, position: int = 0) -> InputImage:
    """Describes an image."""
    array = _planes_last(array_of(image), pillow=is_pillow(image))
    height, width, planes = array.shape
    labels, value_count = _labels(array, lossy=lossy)
    edge_labels = _edge_labels(array[..., 0], labels) if labels and planes == 1 else frozenset()
    declared = {"tv_tensors.Mask": "mask", "tv_tensors.Image": "image"}.get(container_of(image))
    is_integer = array.dtype.kind in "iub"
    points = sampled(np.moveaxis(array, -1, 0)).astype(np.float64).mean(0)
    blocks = points.reshape(_THUMBNAIL_SIDE, -1, _THUMBNAIL_SIDE, GRID // _THUMBNAIL_SIDE)
    thumbnail = blocks.mean((1, 3))
    kept = labels, edge_labels, value_count, declared, position, thumbnail
    return InputImage(source, (height, width), planes, is_integer, *kept, _rotates(image))


def _rotates(image: Any) -> bool:
    """Whether a Pillow image has an EXIF orientation other than upright; its tags may be broken."""
    with contextlib.suppress(Exception):
        return is_pillow(image) and image.getexif().get(_ORIENTATION, 1) > 1
    return False


def _planes_last(array: np.ndarray, *, pillow: bool) -> np.ndarray:
    """An image as (height, width, planes)."""
    if array.ndim == 2:
        return array[..., None]
    flat = array.reshape(-1, *array.shape[-3:])[0]
    return flat if pillow or planes_last(flat.shape) else np.moveaxis(flat, 0, -1)


def _labels(array: np.ndarray, *, lossy: bool) -> tuple[tuple[Value, ...] | None, int]:
    """The values of a label mask, or None, and how many values there are."""
    thin = array[:: array.shape[0] // 256 + 1]
    if thin.dtype.kind == "f" and not (np.isfinite(thin).all() and (thin == np.round(thin)).all()):
        return None, thin.size
    if thin.shape[-1] > _MOST_COLOURS and not _is_one_hot(thin):  # slices of a volume, which have the same labels
        values, counts = np.unique(thin, return_counts=True)
        common = values[np.argsort(-counts)].astype(float).tolist()
        labels = tuple((value,) * thin.shape[-1] for value in common) if len(values) <= _MOST_LABELS else None
        return labels, len(values)
    codes = thin[..., 0].astype(np.int64)  # one number for each colour, if planes have up to 16 bits
    for plane in range(1, thin.shape[-1]):
        codes = codes * 65_537 + thin[..., plane]
    sampled_count = len(np.unique(codes.ravel()[:: codes.size // 4096 + 1]))
    if sampled_count > 256:  # more than any lossy mask of one byte has: spares sorting all pixels
        return None, sampled_count
    distinct, firsts, counts = np.unique(codes, return_index=True, return_counts=True)
    if lossy and (array[..., 1:] == array[..., :1]).all():  # some formats store grey as three equal planes
        lossy_labels = _peaks(thin[..., 0].astype(np.int64)) or _plateaus(array[..., 0])
        if lossy_labels and len(distinct) > len(lossy_labels):
            return tuple(label * array.shape[-1] for label in lossy_labels), len(distinct)
    if len(distinct) > _MOST_LABELS:
        return None, len(distinct)
    common = firsts[np.argsort(-counts)]
    return tuple(tuple(map(float, pixel)) for pixel in thin.reshape(-1, thin.shape[-1])[common]), len(distinct)


def _is_one_hot(planes: np.ndarray) -> bool:
    """Whether each plane is a class."""
    return bool(((planes != 0).sum(-1) <= 1).all())


def _edge_labels(plane: np.ndarray, labels: Sequence[Value]) -> frozenset[Value]:
    """The labels that never cover a pixel together with its four neighbours."""
    inner = set(np.unique(_inner(plane)).tolist())
    return frozenset(label for label in labels if label[0] not in inner)


def _inner(plane: np.ndarray) -> np.ndarray:
    """The values of the pixels whose four neighbours have the same."""
    middle = plane[1:-1, 1:-1]
    around = (plane[:-2, 1:-1], plane[2:, 1:-1], plane[1:-1, :-2], plane[1:-1, 2:])
    inner: np.ndarray = middle[np.logical_and.reduce([middle == neighbour for neighbour in around])]
    return inner


def _plateaus(plane: np.ndarray) -> tuple[Value, ...] | None:
    """The labels of a mask whose lossy compression blurs edges between close values, such as class indices.

    None if there are none, as in a photograph.
    """
    values, counts = np.unique(_inner(plane), return_counts=True)
    common = values[counts >= _LABEL_SHARE * plane.size]
    flat = counts.sum() >= _FLAT_SHARE * plane.size
    return tuple((float(value),) for value in common) if flat and 1 < len(common) <= _MOST_LABELS else None


def _peaks(codes: np.ndarray) -> tuple[Value, ...] | None:
    """The labels of a mask with lossy compression: few values, with a halo around each; None if there are none."""
    if codes.min() < 0 or codes.max() > 255:
        return None
    shares = np.bincount(codes.ravel(), minlength=256) / codes.size
    peaks: list[int] = []
    for value in np.argsort(-shares):
        if shares[value] < _LABEL_SHARE:
            break
        if all(abs(int(value) - peak) > 2 * _LABEL_REACH for peak in peaks):
            peaks.append(int(value))
    distance = np.abs(np.arange(256)[:, None] - np.array(peaks or [0])).min(axis=1)
    close, beyond = shares[distance <= _LABEL_REACH].sum(), shares[distance > _HALO_REACH].sum()
    if len(peaks) < 2 or shares[peaks].sum() < _LABELLED_SHARE:
        return None
    if close < _CLOSE_SHARE or beyond > _BEYOND_SHARE * (1 - close):
        return None
    return tuple((float(peak),) for peak in sorted(peaks))


IsMask = Callable[[InputImage], bool]


def mask_rule(samples: Sequence[Sequence[InputImage]]) -> IsMask | None:
    """A rule that distinguishes masks from images in all samples of a loader; None if there is none."""
    for rule in MASK_RULES:
        if samples and all({rule(image) for image in inputs} >= {True, False} for inputs in samples):
            return rule
    return None


def _is_declared_mask(image: InputImage) -> bool:
    return image.declared == "mask"


def _has_one_plane(image: InputImage) -> bool:
    return image.planes == 1


def _has_labels(image: InputImage) -> bool:
    return image.labels is not None


def _is_integer(image: InputImage) -> bool:
    return image.is_integer


MASK_RULES: tuple[IsMask, ...] = (_is_declared_mask, _has_one_plane, _has_labels, _is_integer)
"""What may tell masks from images, the surest first."""


class ChartPainter:
    """Records every input image, and replaces it by a `chart` if one is set.

    `is_mask` distinguishes masks from images; `label_pair` holds the values for dark and light in a label mask. With
    `only`, images of other thumbnails are neither recorded nor replaced, as the other tiles of a mosaic.
    """

    def __init__(self) -> None:
        self.is_mask: IsMask = lambda _: False
        self.only: frozenset[bytes] | None = None
        self.label_pair: tuple[Value, Value] | None = None
        self.chart: int | None = None
        self.negative_image = self.negative_mask = False
        self.inputs: list[InputImage] = []

    def paint(self, image: Any, source: str, lossy: bool = False) -> Any:
        """The replacement of an input image: a chart of its size and type, or the image itself."""
        try:
            return self._chart_of(image, source, lossy=lossy)
        except Exception:  # noqa: BLE001 - an image of a kind that cannot be replaced stays unchanged
            return image

    def _chart_of(self, image: Any, source: str, *, lossy: bool) -> Any:
        if not is_image(image) or array_of(image).size > _MOST_PIXELS:
            return image
        described = input_image(image, source, lossy=lossy, position=len(self.inputs))
        if self.only is not None and described.thumbnail.tobytes() not in self.only:
            return image
        self.inputs.append(described)
        if self.chart is None:
            return image
        is_mask = self.is_mask(described)
        light = pattern(self.chart, *described.size, negative=self.negative_mask if is_mask else self.negative_image)
        return _as_chart(image, light, *self._values(image, described, is_mask=is_mask))

    def _values(self, image: Any, described: InputImage, *, is_mask: bool) -> tuple[Value, Value]:
        """The values for dark and light in the chart of an image."""
        if is_mask and described.labels is not None and self.label_pair and len(self.label_pair[0]) == described.planes:
            return self.label_pair
        array = array_of(image)
        if is_mask or array.dtype.kind in "fb":
            low, high = float(np.nanmin(array)), float(np.nanmax(array))
            low, high = (low, high) if high > low else (0.0, 1.0)
        else:
            low, high = 0.0, float(min(np.iinfo(array.dtype).max, 65535)) if array.dtype.kind in "iu" else 255.0
        return (low,) * described.planes, (high,) * described.planes


def _as_chart(image: Any, light: np.ndarray, dark_value: Value, light_value: Value) -> Any:
    """An image of the same container, size and type that holds two values; an alpha channel is kept."""
    array = array_of(image)
    last = _planes_last(array, pillow=is_pillow(image))
    planes = np.where(light[..., None], light_value, dark_value).astype(array.dtype)
    if last.shape[-1] == 4 or (is_pillow(image) and image.mode == "LA"):
        planes[..., -1] = last[..., -1]
    if array.ndim == 2:
        chart = planes[..., 0]
    else:
        chart = planes if is_pillow(image) or planes_last(array.shape) else np.moveaxis(planes, -1, 0)
        chart = np.broadcast_to(chart, array.shape)
    if is_pillow(image):
        return _in_pillow(image, chart)
    return as_given(chart if isinstance(image, np.ndarray) else torch.from_numpy(chart.copy()).to(image.dtype), image)


def _in_pillow(image: Any, array: np.ndarray) -> Any:
    pillow = sys.modules["PIL.Image"]
    chart = pillow.fromarray(array) if image.mode == "1" else pillow.frombytes(image.mode, image.size, array.tobytes())
    if image.mode == "P":
        chart.putpalette(image.getpalette("RGB"), "RGB")
    return chart
