"""Distinguishes images from their masks (or depth maps), and replaces both by charts.

An image has colours, or many values; a mask has one channel, or a few values in flat areas. The charts of a mask use
two of its own values, so that the user's code still works on them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, is_pillow
from dataguard.lab.geometry.stripe_charts import GRID, pattern, sampled
from dataguard.lab.images.image_containers import as_given, container_of, is_image, planes_last

_MOST_PIXELS = 1 << 24
_FEW = 32
"""The largest number of labels in a mask."""
_PEAK, _REACH, _HALO = 0.005, 10, 40
"""In a lossy mask, a label has at least this share of the pixels; most others are this close to one, few are beyond."""
_AT, _CLOSE, _BEYOND = 0.4, 0.75, 0.25
"""The shares of pixels that have a label, that are close to one, and, of the others, that are beyond any halo."""

_MOST_COLOURS = 4
"""Planes of an image; more are the slices of a volume, or one for each class."""
_SIDE = 16
_FLAT = 0.6
"""The share of the pixels of a mask that lie inside flat areas."""

Value = tuple[float, ...]
"""A label as a mask stores it: one number, or a colour."""


@dataclass(frozen=True, slots=True)
class InputImage:
    """One image that was decoded or passed to a transform: what distinguishes an image from a mask.

    `labels` are the values of a label mask, None for anything else, and `edge_labels` those that occur only at edges.
    `value_count` is larger than their number if lossy compression added values around edges. `declared` is what its
    type says it is: "image" or "mask". `position` is its number among the images of its sample, and `thumbnail` its
    brightness, (16, 16).
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
    thumbnail = points.reshape(_SIDE, GRID // _SIDE, _SIDE, GRID // _SIDE).mean((1, 3))
    size = height, width
    return InputImage(source, size, planes, is_integer, labels, edge_labels, value_count, declared, position, thumbnail)


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
        return (tuple((value,) * thin.shape[-1] for value in common) if len(values) <= _FEW else None), len(values)
    codes = thin[..., 0].astype(np.int64)
    for plane in range(1, thin.shape[-1]):
        codes = codes * 65_537 + thin[..., plane]
    few = len(np.unique(codes.ravel()[:: codes.size // 4096 + 1]))
    if few > 256:
        return None, few
    found, places, counts = np.unique(codes, return_index=True, return_counts=True)
    if lossy and (array[..., 1:] == array[..., :1]).all():  # some formats store grey as three equal planes
        known = _peaks(thin[..., 0].astype(np.int64)) or _plateaus(array[..., 0])
        if known and len(found) > len(known):
            return tuple(label * array.shape[-1] for label in known), len(found)
    if len(found) > _FEW:
        return None, len(found)
    common = places[np.argsort(-counts)]
    return tuple(tuple(map(float, pixel)) for pixel in thin.reshape(-1, thin.shape[-1])[common]), len(found)


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
    inner: np.ndarray = middle[np.logical_and.reduce([middle == one for one in around])]
    return inner


def _plateaus(plane: np.ndarray) -> tuple[Value, ...] | None:
    """The labels of a mask whose lossy compression blurs edges between close values, such as class indices.

    None if there are none, as in a photograph.
    """
    values, counts = np.unique(_inner(plane), return_counts=True)
    common = values[counts >= _PEAK * plane.size]
    flat = counts.sum() >= _FLAT * plane.size
    return tuple((float(value),) for value in common) if flat and 1 < len(common) <= _FEW else None


def _peaks(codes: np.ndarray) -> tuple[Value, ...] | None:
    """The labels of a mask with lossy compression: few values, with a halo around each; None if there are none."""
    if codes.min() < 0 or codes.max() > 255:
        return None
    shares = np.bincount(codes.ravel(), minlength=256) / codes.size
    peaks: list[int] = []
    for value in np.argsort(-shares):
        if shares[value] < _PEAK:
            break
        if all(abs(int(value) - peak) > 2 * _REACH for peak in peaks):
            peaks.append(int(value))
    distance = np.abs(np.arange(256)[:, None] - np.array(peaks or [0])).min(axis=1)
    close, beyond = shares[distance <= _REACH].sum(), shares[distance > _HALO].sum()
    if len(peaks) < 2 or shares[peaks].sum() < _AT or close < _CLOSE or beyond > _BEYOND * (1 - close):
        return None
    return tuple((float(peak),) for peak in sorted(peaks))


IsMask = Callable[[InputImage], bool]


def mask_rule(samples: Sequence[Sequence[InputImage]]) -> IsMask | None:
    """A rule that distinguishes masks from images in all samples of a loader; None if there is none."""
    for rule in (_is_declared_mask, _has_one_plane, _has_labels, _is_integer):
        if samples and all({rule(one) for one in inputs} >= {True, False} for inputs in samples):
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


class ChartPainter:
    """Records every input image, and replaces it by a `chart` if one is set.

    `is_mask` distinguishes masks from images; `label_pair` holds the values for dark and light in a label mask.
    """

    def __init__(self) -> None:
        self.is_mask: IsMask = lambda _: False
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
        found = input_image(image, source, lossy=lossy, position=len(self.inputs))
        self.inputs.append(found)
        if self.chart is None:
            return image
        is_mask = self.is_mask(found)
        light = pattern(self.chart, *found.size, negative=self.negative_mask if is_mask else self.negative_image)
        return _as_chart(image, light, *self._values(image, found, is_mask=is_mask))

    def _values(self, image: Any, found: InputImage, *, is_mask: bool) -> tuple[Value, Value]:
        """The values for dark and light in the chart of an image."""
        if is_mask and found.labels is not None and self.label_pair and len(self.label_pair[0]) == found.planes:
            return self.label_pair
        array = array_of(image)
        if is_mask or array.dtype.kind in "fb":
            low, high = float(np.nanmin(array)), float(np.nanmax(array))
            low, high = (low, high) if high > low else (0.0, 1.0)
        else:
            low, high = 0.0, float(min(np.iinfo(array.dtype).max, 65535)) if array.dtype.kind in "iu" else 255.0
        return (low,) * found.planes, (high,) * found.planes


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
