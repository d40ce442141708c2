"""Images in the containers that pipelines use, and their replacement by charts of one colour.

Containers are Pillow images, arrays, tensors and torchvision's tv_tensors. None is imported: one that the user's code
has not imported does not occur.

`Painter` replaces what image decoders return. Each decoder has its own channel order and layout. A chart is the decoded
image with all pixels replaced, so that size, dtype and metadata stay the same. Masks and other images of one channel,
and palettes, are not replaced.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, is_pillow
from dataguard.lab.core.loader_facts import by_name, callables_of
from dataguard.lab.core.source_location import Place, caller, standing_in
from dataguard.lab.decoding.decoders import BRIGHTNESS, PILLOW, Decoder, Gives, Patched, giving, patch, redirect
from dataguard.lab.process.endless_reads import decoder_called
from dataguard.process.originals import os

SMALLEST_SIDE = 8
"""The smallest side of an image in pixels: a table of four columns holds boxes."""
_MOST_DEPTH = 4
"""How deep images are searched in the arguments of a transform: a guard against containers that hold themselves."""
_CHANNELS = (1, 2, 3, 4)
"""The numbers of channels that an image has last; a larger last axis is its width."""


def is_image(value: Any) -> bool:
    """Whether this is an image, a mask or a stack of them: height and width, channels first or last."""
    if is_pillow(value):
        return bool(min(value.size) >= SMALLEST_SIDE)
    return has_axes(value) and (planes_last(value.shape) or min(value.shape[-2:]) >= SMALLEST_SIDE)


def has_axes(value: Any) -> bool:
    """Whether this is an array or tensor of real numbers with two axes or more, and no boxes."""
    if isinstance(value, torch.Tensor):
        plain = value.layout is torch.strided and value.device.type != "meta"
        plain = plain and not (value.is_nested or value.is_quantized or value.is_complex() or _is_boxes(value))
    else:
        plain = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    return plain and value.ndim > 1 and 0 not in value.shape


def planes_last(shape: tuple[int, ...]) -> bool:
    """Whether an image of this shape has its channels last."""
    if len(shape) < 3 or shape[-1] not in _CHANNELS:
        return False
    return min(shape[-3:-1]) >= SMALLEST_SIDE


def _is_boxes(value: Any) -> bool:
    """Whether these are boxes or points of torchvision."""
    return type(value).__name__ in ("BoundingBoxes", "KeyPoints")


def container_of(value: Any) -> str:
    """The name of an image's container."""
    if is_pillow(value):
        return "PIL.Image"
    if isinstance(value, np.ndarray):
        return "numpy.ndarray"
    kind = type(value)
    if kind is torch.Tensor:
        return "torch.Tensor"
    return f"tv_tensors.{kind.__name__}" if kind.__module__.startswith("torchvision.") else kind.__name__


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
    if depth >= _MOST_DEPTH:
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

    User-defined code may write into what a decoder returns, and native code may depend on its memory layout.
    """
    if isinstance(chart, np.ndarray) and isinstance(given, np.ndarray) and chart.shape == given.shape:
        copied = np.empty_like(given, dtype=chart.dtype)
        copied[...] = chart
        return copied
    if isinstance(chart, torch.Tensor) and isinstance(given, torch.Tensor) and chart.shape == given.shape:
        plain, values = (tensor.detach().as_subclass(torch.Tensor) for tensor in (given, chart))
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
    pillow, tv_tensors = sys.modules.get("PIL.Image"), sys.modules.get("torchvision.tv_tensors")
    if pillow is not None:
        yield pillow.fromarray(flat)
    first = torch.from_numpy(np.ascontiguousarray(flat[None] if grey else np.moveaxis(flat, -1, 0)))
    yield first
    yield first / 255
    if tv_tensors is not None:
        yield tv_tensors.Image(first)
        yield tv_tensors.Image(first / 255)
    yield flat
    yield (flat / 255).astype(np.float32)


RGB = tuple[int, int, int]
"""Red, green and blue from 0 to 255."""

_FROM_ARRAY = "PIL.Image.fromarray"
MOST_BANDS = 32
"""The largest number of spectral bands; more are the slices of a volume. Sentinel-2 has 13, hyperspectral sensors have
hundreds."""
_BRIGHT_BYTE = 128
"""Floats are on the scale of bytes if all are integers up to 255, and one is above this: masks of few classes are
not."""


IMAGE_DECODERS = giving(Gives.PIXELS, Gives.FRAME)
"""Those that return arrays or tensors."""
ARRAY_DECODERS = giving(Gives.ARRAY, Gives.STORED)
"""Those that return arrays of any kind, of which some are images."""
Replace = Callable[[Any, str, bool], Any]
"""Returns the replacement of a decoded image: called with it, its decoder's name, and whether its file may be lossy."""


class Painter:
    """Replaces decoded images by a `colour`, if one is set, in this disposable process.

    `sources` names the decoders whose images were replaced since it was last cleared, or seen if there is no colour;
    `places` are the lines of the user's code that first called them, and `orders` the orders of their channels.
    `undecoded` names other sources of images. With `grey`, images without colours are replaced as well: those of one
    channel, and those with spectral bands, whose number is `bands`. With a function `replace`, that is called instead
    for whatever these `decoders` or Pillow decode or read, masks included.
    """

    def __init__(self, replace: Replace | None = None, decoders: Sequence[Decoder] = IMAGE_DECODERS) -> None:
        self.replace = replace
        self._decoders = decoders
        self.colour: RGB | None = None
        self.grey = False
        self.bands = 0
        self.sources: set[str] = set()
        self.places: dict[str, Place] = {}
        self.orders: dict[str, str] = {}
        self.undecoded = {_FROM_ARRAY}
        self._modules = 0
        self._patched: Patched = {}
        self._pillow = False

    def install(self) -> None:
        """Patch every decoder of the modules imported so far."""
        if self._modules == len(sys.modules):
            return
        self._modules = len(sys.modules)
        for decoder in self._decoders:
            patch(decoder, self._patched, self._painting_output)
        if not self._pillow and "PIL.ImageFile" in sys.modules:
            self._watch_pillow(sys.modules["PIL.ImageFile"].ImageFile)
            self._pillow = True

    def patch_fromarray(self, replace: Callable[[Any, str], Any] | None = None) -> bool:
        """Also replace the arrays passed to `Image.fromarray`, or call `replace` for them.

        Returns whether Pillow is imported.
        """
        module = sys.modules.get("PIL.Image")
        if module is None:
            return False

        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def fromarray(obj: Any, *args: Any, **kwargs: Any) -> Any:
                return original((replace or self._paint)(obj, _FROM_ARRAY), *args, **kwargs)

            return fromarray

        redirect(module.fromarray, around)
        return True

    def patch_arrays(self) -> None:
        """Also replace what is read from arrays in files, where it has the shape and the values of a colour image."""
        for decoder in ARRAY_DECODERS:
            patch(decoder, self._patched, self._painting_array)

    def _painting_array(self, original: Callable[..., Any], decoder: Decoder) -> Any:
        def read(*args: Any, **kwargs: Any) -> Any:
            given = original(*args, **kwargs)
            painted = _is_store(args, decoder) and not _is_mapped_stack(given)
            return self.paint_array(given, decoder.spelling) if painted else given

        return read

    def paint_array(self, image: Any, name: str) -> Any:
        """The chart for an array, tensor or Pillow image of colours whose channel order is unknown; else the image."""
        if self.colour is None:
            return image
        if is_pillow(image):
            return self._paint(image, name)
        chart = _paint_planes(image, self.colour)
        if chart is None:
            return image
        self.undecoded.add(name)
        self._note(name)
        return as_given(chart, image)

    def patch_transforms(self, dataset: Any) -> bool:
        """Also replace the images that callables of a dataset, and of those that it wraps, are called with.

        Returns whether there are any.
        """
        found = list(callables_of(dataset, by_name))
        for state, name, original in found:
            self.undecoded.add(name)
            state[name] = standing_in(original, self._painting_input(original, name))
        return bool(found)

    def _painting_input(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def transform(*args: Any, **kwargs: Any) -> Any:
            if "image" in kwargs:
                kwargs["image"] = self._paint(kwargs["image"], name)
            return original(*(self._paint(args[0], name), *args[1:]) if args else (), **kwargs)

        return transform

    def _painting_output(self, original: Callable[..., Any], decoder: Decoder) -> Any:
        def decode(*args: Any, **kwargs: Any) -> Any:
            given = original(*args, **kwargs)
            if self.replace is not None and (_is_mapped_stack(given) or not _is_store(args, decoder)):
                return given
            if self.replace is not None:
                lossy = decoder.lossy or _is_lossy(decoder.given(args, kwargs))
                replace = self.replace
                return _each_frame(given, lambda image: replace(image, decoder.spelling, lossy))
            order = decoder.order(args, kwargs)
            if not order:
                return given
            self.orders[decoder.spelling] = order
            channels = (3, 4) if decoder.alpha else (3,)
            paint = functools.partial(
                self._paint, name=decoder.spelling, order=order, channels=channels, channels_first=decoder.first
            )
            return _each_frame(given, paint)

        return decode

    def _paint(
        self,
        image: Any,
        name: str,
        order: str = "RGB",
        channels: tuple[int, ...] = (3,),
        *,
        channels_first: bool = False,
    ) -> Any:
        """The chart for an image; the image itself unless it has 8 or 16 bits and colour channels."""
        if self.colour is None:
            self._note(name)
            return image
        colour = self.colour[::-1] if order == "BGR" else self.colour
        chart: Any = None
        if isinstance(image, torch.Tensor):
            chart = _paint_tensor(image, colour, channels)
        elif isinstance(image, np.ndarray) and not channels_first:
            chart = _paint_array(image, colour, channels)
        elif type(image).__module__.startswith("PIL.") and getattr(image, "mode", "") == "RGB":
            chart = sys.modules["PIL.Image"].new("RGB", image.size, colour)
        if chart is None and self.grey:
            chart = self._paint_grey(image, _shade(self.colour))
        if chart is None:
            return image
        self._note(name)
        return as_given(chart, image)

    def _note(self, source: str) -> None:
        self.sources.add(source)
        line = None if source in self.places else caller(qualified=True)
        if line:
            self.places[source] = line

    def _paint_grey(self, image: Any, shade: int) -> Any:
        """A uniform image for one with 8 bits and one channel, or with 8 or 16 bits and many bands; None for others."""
        if type(image).__module__.startswith("PIL.") and getattr(image, "mode", "") == "L":
            return sys.modules["PIL.Image"].new("L", image.size, shade)
        if not isinstance(image, np.ndarray | torch.Tensor) or image.ndim not in (2, 3):
            return None
        bands = 1 if image.ndim == 2 else min(image.shape[0], image.shape[-1])
        scale = _scale_of(image)
        if scale is None or not ((bands == 1 and scale == 1) or 4 < bands <= MOST_BANDS):
            return None
        self.bands = bands
        chart = image.copy() if isinstance(image, np.ndarray) else image.clone()
        chart[...] = shade * scale
        return chart

    def _watch_pillow(self, opened: Any) -> None:
        """Replace every image file that is opened from now on when it is loaded: Pillow decodes lazily."""
        original = opened.__init__

        @functools.wraps(original)
        def __init__(image: Any, *args: Any, **kwargs: Any) -> None:
            original(image, *args, **kwargs)
            image.load = functools.partial(self._load, image, image.load)

        opened.__init__ = __init__

    def _load(self, image: Any, load: Callable[[], Any]) -> Any:
        decoder_called()
        pixels = load()
        image.__dict__.pop("load", None)  # later changes by the user are kept
        if self.replace is not None:
            replaced = self.replace(image, PILLOW.spelling, image.format in ("JPEG", "MPO", "WEBP"))
            if replaced is image:
                return pixels
            image.im, image.readonly = replaced.im, 0
            return image.load()
        if self.colour is None:
            self._note(PILLOW.spelling)
            return pixels
        pixel = _pixel(image.mode, self.colour)
        if self.grey and image.mode == "L":
            pixel, self.bands = (_shade(self.colour),), 1
        if pixel is None:
            return pixels
        image.im, image.readonly = sys.modules["PIL.Image"].new(image.mode, image.size, pixel).im, 0
        self._note(PILLOW.spelling)
        return image.load()


def _each_frame(given: Any, replace: Callable[[Any], Any]) -> Any:
    """What a decoder returns with its images replaced: an image, a list of them, or whether there is one, and it."""
    if isinstance(given, tuple):
        return given[0], replace(given[1]) if given[0] else given[1]
    return [replace(frame) for frame in given] if isinstance(given, list) else replace(given)


def _pixel(mode: str, colour: RGB) -> tuple[int, ...] | None:
    """A colour as a pixel of a Pillow mode; None for masks and other images without colour channels."""
    if mode in ("RGBA", "RGBX"):
        return (*colour, 255)
    if mode == "CMYK":
        return (*(255 - part for part in colour), 0)
    return colour if mode == "RGB" else None


def _shade(colour: RGB) -> int:
    """The brightness of a colour, from 0 to 255."""
    return round(sum(weight * part for weight, part in zip(BRIGHTNESS, colour, strict=True)))


def _scale_of(image: np.ndarray | torch.Tensor) -> int | None:
    """The factor for colours from 0 to 255 in an image of this dtype; None if it is not replaced.

    8-bit values in 16 bits are not replaced: their scale is ambiguous.
    """
    kind = str(image.dtype).removeprefix("torch.")
    if kind == "uint8":
        return 1
    array = np.asarray(image) if kind == "uint16" or kind.startswith("float") else np.empty(0)
    if not array.size:
        return None
    if kind == "uint16":
        return 257 if array.max() > 255 else None
    in_range = bool(array.min() >= 0) and bool(_BRIGHT_BYTE < array.max() <= 255)
    return 1 if in_range and bool((array == np.round(array)).all()) else None


def _paint_array(image: np.ndarray, colour: RGB, channels: tuple[int, ...]) -> np.ndarray | None:
    scale = _scale_of(image)
    if scale is None or image.ndim != 3 or image.shape[-1] not in channels:
        return None
    chart = image.copy()
    chart[..., :3] = [part * scale for part in colour]
    return chart


def _paint_planes(image: Any, colour: RGB) -> Any:
    """A chart for an array or tensor with three channels, last or first, or a stack of them; None for others."""
    if not is_image(image) or image.ndim < 3:
        return None
    scale, last = _scale_of(image), planes_last(image.shape)
    if scale is None or image.shape[-1 if last else -3] != len(colour):
        return None
    chart = image.clone() if isinstance(image, torch.Tensor) else np.array(image)
    for channel, part in enumerate(colour):
        chart[(..., channel) if last else (..., channel, slice(None), slice(None))] = part * scale
    return chart


def _is_mapped_stack(given: Any) -> bool:
    """Whether images are mapped from a file, all in one array, of which a sample is a part that is read later."""
    if not isinstance(given, np.memmap) or given.ndim < 3 or isinstance(given.base, np.ndarray):
        return False
    return given.ndim > 3 or not (planes_last(given.shape) or given.shape[0] in _CHANNELS)


def _is_store(args: Sequence[Any], decoder: Decoder) -> bool:
    """Whether what a function reads from is in a file, and no part of what was read before, such as its flip."""
    if decoder.gives is not Gives.STORED or not isinstance(args[0], np.memmap):
        return True
    return getattr(args[0], "_mmap", None) is not None and not isinstance(args[0].base, np.ndarray)


def _paint_tensor(image: torch.Tensor, colour: RGB, channels: tuple[int, ...]) -> torch.Tensor | None:
    scale = _scale_of(image)
    if scale is None or image.ndim != 3 or image.shape[0] not in channels:
        return None
    chart = image.clone()
    for channel, part in enumerate(colour):
        chart[channel] = part * scale
    return chart


_LOSSY = (".jpg", ".jpeg", ".webp")


def _is_lossy(source: Any) -> bool:
    """Whether a decoder's argument is a file or bytes of a lossy format."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source).lower().endswith(_LOSSY)
    if isinstance(source, torch.Tensor | np.ndarray) and source.ndim == 1:
        source = bytes(source[:2].tolist())
    return isinstance(source, bytes) and source.startswith(b"\xff\xd8")
