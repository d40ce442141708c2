"""Images in the containers that pipelines use: Pillow images, arrays, tensors and torchvision's tv_tensors.

Nothing is imported: a container that the user's code has not imported does not occur.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, is_pillow

SMALLEST = 8
"""The smallest side of an image in pixels: a table of four columns holds boxes."""
_DEPTH = 4
_CHANNELS = (1, 2, 3, 4)


def is_image(value: Any) -> bool:
    """Whether this is an image, a mask or a stack of them: height and width, channels first or last."""
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
    """Whether an image of this shape has its channels last."""
    if len(shape) < 3 or shape[-1] not in _CHANNELS:
        return False
    return min(shape[-3:-1]) >= SMALLEST


def _is_boxes(value: Any) -> bool:
    """Whether these are boxes or points of torchvision."""
    return type(value).__name__ in ("BoundingBoxes", "KeyPoints")


def container_of(value: Any) -> str:
    """The name of an image's container."""
    if is_pillow(value):
        return "PIL.Image"
    if isinstance(value, np.ndarray):
        return "numpy.ndarray"
    own = type(value)
    if own is torch.Tensor:
        return "torch.Tensor"
    return f"tv_tensors.{own.__name__}" if own.__module__.startswith("torchvision.") else own.__name__


def planes_of(value: Any) -> np.ndarray:
    """An image as (planes, height, width); a stack of images has all planes of all images."""
    array = array_of(value)
    if array.ndim > 2 and (is_pillow(value) or planes_last(array.shape)):
        array = np.moveaxis(array, -1, -3)
    return array.reshape(-1, *array.shape[-2:])


def size_of(value: Any) -> tuple[int, int]:
    """Height and width of an image."""
    height, width = planes_of(value).shape[-2:]
    return height, width


def replace_images(value: Any, replace: Callable[[Any], Any], depth: int = 0) -> Any:
    """A structure with every image replaced, in copies of the containers that hold one."""
    if is_image(value):
        return replace(value)
    if depth >= _DEPTH:
        return value
    if isinstance(value, Mapping):
        inner = {key: replace_images(item, replace, depth + 1) for key, item in value.items()}
        replaced = any(inner[key] is not item for key, item in value.items())
        return _remade(value, inner) if replaced else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replace_images(item, replace, depth + 1) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(replace_images(item, replace, depth + 1) for item in value)
    return value


def _remade(value: Any, inner: dict[Any, Any]) -> Any:
    try:
        remade = copy.copy(value)
        remade.update(inner)
    except Exception:  # noqa: BLE001 - a user-defined mapping that cannot be copied or changed
        return inner
    return remade


def as_given(chart: Any, given: Any) -> Any:
    """A chart in memory like that of the image that it replaces: its own, writable, and with strides in the same order.

    User-defined code may write into what a decoder returns, and native code may ask how it lies in memory.
    """
    if isinstance(chart, np.ndarray) and isinstance(given, np.ndarray) and chart.shape == given.shape:
        own = np.empty_like(given, dtype=chart.dtype)
        own[...] = chart
        return own
    if isinstance(chart, torch.Tensor) and isinstance(given, torch.Tensor) and chart.shape == given.shape:
        plain, values = (one.detach().as_subclass(torch.Tensor) for one in (given, chart))
        wrapped = _wrapped(torch.empty_like(plain, dtype=values.dtype).copy_(values), given)
        return chart if wrapped is None else wrapped
    return chart


def in_container_of(given: Any, image: np.ndarray) -> Any:
    """An image, (height, width, 3) of uint8, in the container, dtype and number of channels of another one.

    None where this is undefined: Pillow images with rare modes, stacks of images.
    """
    if is_pillow(given):
        converted = sys.modules["PIL.Image"].fromarray(image)
        return converted.convert(given.mode) if given.mode in ("L", "P", "RGB", "RGBA", "CMYK", "1", "F") else None
    array = array_of(given)
    if array.ndim > 3:
        return None
    last = planes_last(array.shape)
    count = None if array.ndim == 2 else array.shape[-1] if last else array.shape[0]
    grey = image[..., :1].repeat(count or 1, axis=-1)
    planes = image[..., :3] if count == 3 else grey
    if count is None:
        planes = planes[..., 0]
    elif not last:
        planes = np.moveaxis(planes, -1, 0)
    typed = _typed(np.ascontiguousarray(planes), array)
    return typed if isinstance(given, np.ndarray) else _wrapped(torch.from_numpy(typed).to(given.dtype), given)


def _typed(planes: np.ndarray, given: np.ndarray) -> np.ndarray:
    """uint8 values in another dtype: integers unchanged, floats scaled to 0 to 1 unless `given` has larger ones."""
    if given.dtype.kind == "f":
        scale = 1 if given.size and float(np.nanmax(given)) > 2 else 255
        return (planes / scale).astype(given.dtype)
    return planes > 127 if given.dtype.kind == "b" else planes.astype(given.dtype)


def _wrapped(tensor: torch.Tensor, given: Any) -> Any:
    """A tensor in the class of another one; None if that is impossible."""
    if type(given) is torch.Tensor:
        return tensor
    wrap = getattr(sys.modules.get("torchvision.tv_tensors"), "wrap", None)
    try:
        return wrap(tensor, like=given) if wrap else tensor.as_subclass(type(given))
    except Exception:  # noqa: BLE001 - a user-defined tensor type
        return None


def in_containers(image: np.ndarray, *, grey: bool) -> Iterator[Any]:
    """An image, (height, width, 3) of uint8, in each container and dtype that pipelines usually use."""
    flat = np.ascontiguousarray(image[..., 0]) if grey else image
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
