"""Pictures in the containers that pipelines pass around: Pillow's, arrays, tensors, and torchvision's own tensors.

Nothing is imported for it: a container that the user's code has not imported does not occur.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, is_pillow

SMALLEST = 8
"""Pixels of the shorter side of a picture at least: a table of four columns holds boxes."""
_DEPTH = 4
_CHANNELS = (1, 2, 3, 4)


def is_picture(value: Any) -> bool:
    """Whether this is an image, a mask or a stack of them: two sides of some length, channels first or last."""
    if is_pillow(value):
        return bool(min(value.size) >= SMALLEST)
    if isinstance(value, torch.Tensor):
        plain = value.layout is torch.strided and value.device.type != "meta"
        plain = plain and not (value.is_nested or value.is_quantized or value.is_complex() or _is_boxes(value))
    else:
        plain = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    if not plain or value.ndim < 2 or 0 in value.shape:
        return False
    return planes_last(value.shape) or min(value.shape[-2:]) >= SMALLEST


def planes_last(shape: tuple[int, ...]) -> bool:
    """Whether the channels of a picture of this shape stand last."""
    if len(shape) < 3 or shape[-1] not in _CHANNELS:
        return False
    return min(shape[-3:-1]) >= SMALLEST


def _is_boxes(value: Any) -> bool:
    """Whether torchvision calls these numbers boxes or points."""
    return type(value).__name__ in ("BoundingBoxes", "KeyPoints")


def container_of(value: Any) -> str:
    """The name of the container of a picture."""
    if is_pillow(value):
        return "PIL.Image"
    if isinstance(value, np.ndarray):
        return "numpy.ndarray"
    own = type(value)
    if own is torch.Tensor:
        return "torch.Tensor"
    return f"tv_tensors.{own.__name__}" if own.__module__.startswith("torchvision.") else own.__name__


def planes_of(value: Any) -> np.ndarray:
    """A picture as (planes, height, width): of a stack of images all planes of all images."""
    array = array_of(value)
    if array.ndim > 2 and (is_pillow(value) or planes_last(array.shape)):
        array = np.moveaxis(array, -1, -3)
    return array.reshape(-1, *array.shape[-2:])


def size_of(value: Any) -> tuple[int, int]:
    """Height and width of a picture."""
    height, width = planes_of(value).shape[-2:]
    return height, width


def exchange(value: Any, swap: Callable[[Any], Any], depth: int = 0) -> Any:
    """A copy of a structure with every picture in it exchanged."""
    if is_picture(value):
        return swap(value)
    if depth >= _DEPTH:
        return value
    if isinstance(value, Mapping):
        inner = {key: exchange(item, swap, depth + 1) for key, item in value.items()}
        return _remade(type(value), inner)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(exchange(item, swap, depth + 1) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(exchange(item, swap, depth + 1) for item in value)
    return value


def _remade(kind: Any, inner: dict[Any, Any]) -> Any:
    try:
        return kind(inner)
    except Exception:  # noqa: BLE001 - a mapping of the user's own, built in a way of its own
        return inner


def like(given: Any, picture: np.ndarray) -> Any:
    """A picture, (height, width, 3) of bytes, in the container, type and number of channels of another one.

    None where there is no telling how: images of Pillow's in rare modes, stacks of images.
    """
    if is_pillow(given):
        image = sys.modules["PIL.Image"].fromarray(picture)
        return image.convert(given.mode) if given.mode in ("L", "P", "RGB", "RGBA", "CMYK", "1", "F") else None
    array = array_of(given)
    if array.ndim > 3:
        return None
    last = planes_last(array.shape)
    count = None if array.ndim == 2 else array.shape[-1] if last else array.shape[0]
    grey = picture[..., :1].repeat(count or 1, axis=-1)
    planes = picture[..., :3] if count == 3 else grey
    if count is None:
        planes = planes[..., 0]
    elif not last:
        planes = np.moveaxis(planes, -1, 0)
    made = _typed(np.ascontiguousarray(planes), array)
    if isinstance(given, np.ndarray):
        return made
    tensor = torch.from_numpy(made).to(given.dtype)
    return tensor if type(given) is torch.Tensor else _wrapped(tensor, given)


def _typed(planes: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Bytes in another type: whole numbers as they are, fractions from 0 to 1 unless there are larger ones."""
    if given.dtype.kind == "f":
        scale = 1 if given.size and float(np.nanmax(given)) > 2 else 255
        return (planes / scale).astype(given.dtype)
    return planes > 127 if given.dtype.kind == "b" else planes.astype(given.dtype)


def _wrapped(tensor: torch.Tensor, given: Any) -> Any:
    wrap = getattr(sys.modules.get("torchvision.tv_tensors"), "wrap", None)
    try:
        return wrap(tensor, like=given) if wrap else tensor.as_subclass(type(given))
    except Exception:  # noqa: BLE001 - a tensor type of the user's own
        return None


def forms(picture: np.ndarray, *, grey: bool) -> Iterator[Any]:
    """A picture, (height, width, 3) of bytes, in each container and type that pipelines usually pass around."""
    flat = np.ascontiguousarray(picture[..., 0]) if grey else picture
    pillow, own = sys.modules.get("PIL.Image"), sys.modules.get("torchvision.tv_tensors")
    if pillow is not None:
        yield pillow.fromarray(flat)
    first = torch.from_numpy(np.ascontiguousarray(flat[None] if grey else np.moveaxis(flat, -1, 0)))
    yield first
    yield first / 255
    if own is not None:
        yield own.Image(first)
        yield own.Image(first / 255)
    yield flat
    yield (flat / 255).astype(np.float32)
