"""Pictures and the maps that belong to them (masks, depth), told apart, and charts drawn over both in one place.

A picture has colours, or many values; a map has one channel, or a few values in flat areas. A map is drawn in two of
the values that it really holds, so that whatever the user's code does with its values goes on working.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, is_pillow
from dataguard.lab.geometry.stripe_charts import pattern
from dataguard.lab.images.image_containers import container_of, is_picture, planes_last

_MOST_PIXELS = 1 << 24
_FEW = 32
"""How many values one label map has at most."""
_PEAK, _REACH, _HALO = 0.005, 10, 40
"""A label of a lossy map holds this share of the pixels; most others lie so close to one, and few beyond a halo."""
_AT, _CLOSE, _BEYOND = 0.4, 0.75, 0.25
"""The shares of pixels that hold a label, that lie close to one, and, of the others, that lie beyond any halo."""

Value = tuple[float, ...]
"""A label as a map writes it: one number, or a colour."""


@dataclass(frozen=True, slots=True)
class Given:
    """One image that was decoded, or handed to a transform: what tells a picture from a map.

    `labels` are the values of a label map, None for anything else, and `edges` those of them that nowhere stand in an
    area of their own; `values` is how many different ones there are in truth, which is more where a lossy file has put
    haloes around them. `said` is what its type says that it is.
    """

    source: str
    size: tuple[int, int]
    planes: int
    whole: bool
    labels: tuple[Value, ...] | None
    edges: frozenset[Value]
    values: int
    said: str | None

    @property
    def is_spoilt(self) -> bool:
        """Whether it is a label map that was stored lossily."""
        return self.labels is not None and self.values > len(self.labels)


def given_of(image: Any, source: str, *, lossy: bool = False) -> Given:
    """What can be told of an image."""
    array = _planes_last(array_of(image), pillow=is_pillow(image))
    height, width, planes = array.shape
    labels, values = _labels(array, lossy=lossy)
    edges = _edges(array[..., 0], labels) if labels and planes == 1 else frozenset()
    said = {"tv_tensors.Mask": "map", "tv_tensors.Image": "picture"}.get(container_of(image))
    return Given(source, (height, width), planes, array.dtype.kind in "iub", labels, edges, values, said)


def _planes_last(array: np.ndarray, *, pillow: bool) -> np.ndarray:
    """An image as (height, width, planes)."""
    if array.ndim == 2:
        return array[..., None]
    flat = array.reshape(-1, *array.shape[-3:])[0]
    return flat if pillow or planes_last(flat.shape) else np.moveaxis(flat, 0, -1)


def _labels(array: np.ndarray, *, lossy: bool) -> tuple[tuple[Value, ...] | None, int]:
    """The values of a label map, or None, and how many values there are."""
    thin = array[:: array.shape[0] // 256 + 1]
    if thin.dtype.kind == "f" and not (np.isfinite(thin).all() and (thin == np.round(thin)).all()):
        return None, thin.size
    codes = thin[..., 0].astype(np.int64)
    for plane in range(1, thin.shape[-1]):
        codes = codes * 65_537 + thin[..., plane]
    few = len(np.unique(codes.ravel()[:: codes.size // 4096 + 1]))
    if few > 256:
        return None, few
    found, places, counts = np.unique(codes, return_index=True, return_counts=True)
    peaks = _peaks(codes) if lossy and thin.shape[-1] == 1 else None
    if peaks and len(found) > len(peaks):
        return peaks, len(found)
    if len(found) > _FEW:
        return None, len(found)
    common = places[np.argsort(-counts)]
    return tuple(tuple(map(float, pixel)) for pixel in thin.reshape(-1, thin.shape[-1])[common]), len(found)


def _edges(plane: np.ndarray, labels: Sequence[Value]) -> frozenset[Value]:
    """The values that nowhere cover a pixel and its four neighbours."""
    middle = plane[1:-1, 1:-1]
    around = (plane[:-2, 1:-1], plane[2:, 1:-1], plane[1:-1, :-2], plane[1:-1, 2:])
    inner = set(np.unique(middle[np.logical_and.reduce([middle == one for one in around])]).tolist())
    return frozenset(label for label in labels if label[0] not in inner)


def _peaks(codes: np.ndarray) -> tuple[Value, ...] | None:
    """The labels of a map that was stored lossily: few values, with a halo around each; None where there are none."""
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


IsMap = Callable[[Given], bool]


def rule_of(samples: Sequence[Sequence[Given]]) -> IsMap | None:
    """How pictures and maps are told apart in the samples of one loader; None where they cannot be."""
    for rule in (_said, _has_one_plane, _has_labels, _is_whole):
        if samples and all({rule(one) for one in given} >= {True, False} for given in samples):
            return rule
    return None


def _said(given: Given) -> bool:
    return given.said == "map"


def _has_one_plane(given: Given) -> bool:
    return given.planes == 1


def _has_labels(given: Given) -> bool:
    return given.labels is not None


def _is_whole(given: Given) -> bool:
    return given.whole


class Easel:
    """Takes down every image that comes along, and draws a `chart` over it as long as there is one.

    `is_map` tells maps from pictures, and `ends` are the values of light and dark in a label map.
    """

    def __init__(self) -> None:
        self.is_map: IsMap = lambda _: False
        self.ends: tuple[Value, Value] | None = None
        self.chart: int | None = None
        self.negative_picture = self.negative_map = False
        self.given: list[Given] = []

    def draw(self, image: Any, source: str, lossy: bool = False) -> Any:
        """The image that takes the place of one that came along: the same, or a chart of its size and type."""
        try:
            return self._drawn_over(image, source, lossy=lossy)
        except Exception:  # noqa: BLE001 - an image of a kind that cannot be drawn over stays as it is
            return image

    def _drawn_over(self, image: Any, source: str, *, lossy: bool) -> Any:
        if not is_picture(image) or array_of(image).size > _MOST_PIXELS:
            return image
        given = given_of(image, source, lossy=lossy)
        self.given.append(given)
        if self.chart is None:
            return image
        is_map = self.is_map(given)
        light = pattern(self.chart, *given.size, negative=self.negative_map if is_map else self.negative_picture)
        dark_ink, light_ink = self._inks(image, given, is_map=is_map)
        return _drawn(image, light, dark_ink, light_ink)

    def _inks(self, image: Any, given: Given, *, is_map: bool) -> tuple[Value, Value]:
        """The values of dark and light in an image."""
        if is_map and given.labels is not None and self.ends and len(self.ends[0]) == given.planes:
            return self.ends
        array = array_of(image)
        if is_map or array.dtype.kind in "fb":
            low, high = float(np.nanmin(array)), float(np.nanmax(array))
            low, high = (low, high) if high > low else (0.0, 1.0)
        else:
            low, high = 0.0, float(min(np.iinfo(array.dtype).max, 65535)) if array.dtype.kind in "iu" else 255.0
        return (low,) * given.planes, (high,) * given.planes


def _drawn(image: Any, light: np.ndarray, dark_ink: Value, light_ink: Value) -> Any:
    """An image of the same container, size and type in which two values stand; an alpha channel stays."""
    array = array_of(image)
    last = _planes_last(array, pillow=is_pillow(image))
    planes = np.where(light[..., None], light_ink, dark_ink).astype(array.dtype)
    if last.shape[-1] == 4 or (is_pillow(image) and image.mode == "LA"):
        planes[..., -1] = last[..., -1]
    if array.ndim == 2:
        made = planes[..., 0]
    else:
        made = planes if is_pillow(image) or planes_last(array.shape) else np.moveaxis(planes, -1, 0)
        made = np.broadcast_to(made, array.shape)
    made = np.ascontiguousarray(made)
    if is_pillow(image):
        return _in_pillow(image, made)
    if isinstance(image, np.ndarray):
        return made
    drawn = torch.from_numpy(made).to(image.dtype)
    wrap = getattr(sys.modules.get("torchvision.tv_tensors"), "wrap", None)
    return drawn if type(image) is torch.Tensor or wrap is None else wrap(drawn, like=image)


def _in_pillow(image: Any, array: np.ndarray) -> Any:
    pillow = sys.modules["PIL.Image"]
    drawn = pillow.fromarray(array) if image.mode == "1" else pillow.frombytes(image.mode, image.size, array.tobytes())
    if image.mode == "P":
        drawn.putpalette(image.getpalette("RGB"), "RGB")
    return drawn
