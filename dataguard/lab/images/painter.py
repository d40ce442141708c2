"""Image decoders that the user's code has imported, and charts of one colour in place of what they decode.

Each decoder has a convention: the order of its channels, and where they stand. A chart is the decoded image with every
pixel painted over, so that size, type and what else belongs to it stay. Masks and other images of one channel, and
palettes, are left alone.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.stand_ins import rebind, standing_in
from dataguard.lab.core.wrapped_datasets import by_name, callables_of
from dataguard.lab.decoding.decoders import BRIGHTNESS, PILLOW, Decoder, Gives, Known, giving, patch

RGB = tuple[int, int, int]
"""Red, green and blue from 0 to 255."""

_FROM_ARRAY = "PIL.Image.fromarray"
MOST_BANDS = 32
"""How many bands an image has at most: spectral ones, and not slices of a volume."""
_BRIGHT = 128
"""Floating point numbers are bytes where all are whole, none is above 255, and one at least is above this."""


Brush = Callable[[Any, str, bool], Any]
"""What takes the place of a decoded picture: called with it, its decoder's name, and whether its file may be lossy."""


class Painter:
    """Paints over what is decoded in this process, which is thrown away, while there is a `colour`.

    `painted` names the decoders whose images were painted since it was last cleared, or came by where there is no
    colour. `undecoded` are the places where arrays that are there already come by. With `grey`, images without
    colours are painted as well: those of one channel, and those of more bands than colours have, of which `bands` tells
    the number. With a `brush`, whatever is decoded goes through it instead, masks included, by these `decoders` or by
    Pillow.
    """

    def __init__(
        self, brush: Brush | None = None, decoders: Sequence[Decoder] = giving(Gives.PIXELS, Gives.VIDEO)
    ) -> None:
        self.brush = brush
        self._decoders = decoders
        self.colour: RGB | None = None
        self.grey = False
        self.bands = 0
        self.painted: set[str] = set()
        self.undecoded = {_FROM_ARRAY}
        self._modules = 0
        self._known: Known = {}
        self._pillow = False

    def install(self) -> None:
        """Stand in for every decoder of a module that is imported by now, wherever a module has a name for it."""
        if self._modules == len(sys.modules):
            return
        self._modules = len(sys.modules)
        for decoder in self._decoders:
            patch(decoder, self._known, self._around)
        rebind(self._known)
        if not self._pillow and "PIL.ImageFile" in sys.modules:
            self._watch_pillow(sys.modules["PIL.ImageFile"].ImageFile)
            self._pillow = True

    def take_arrays(self, brush: Callable[[Any, str], Any] | None = None) -> None:
        """Paint arrays on their way into `Image.fromarray`, too, or let them go through a brush."""
        module = sys.modules.get("PIL.Image")
        if module is None:
            return
        original = module.fromarray

        @functools.wraps(original)
        def fromarray(obj: Any, *args: Any, **kwargs: Any) -> Any:
            return original((brush or self._paint)(obj, _FROM_ARRAY), *args, **kwargs)

        rebind({id(original): (original, fromarray)})

    def take_inputs(self, dataset: Any) -> None:
        """Paint what the transforms of a dataset, and of those that it wraps, are called with, whatever their names."""
        for state, name, original in callables_of(dataset, by_name):
            self.undecoded.add(name)
            state[name] = standing_in(original, self._before(original, name))

    def _before(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def transform(*args: Any, **kwargs: Any) -> Any:
            if "image" in kwargs:
                kwargs["image"] = self._paint(kwargs["image"], name)
            return original(*(self._paint(args[0], name), *args[1:]) if args else (), **kwargs)

        return transform

    def _around(self, original: Callable[..., Any], decoder: Decoder) -> Any:
        if decoder.video is not None:
            return decoder.video(original, lambda frame, order: self._paint(frame, decoder.spelling, order, (3, 4)))

        @functools.wraps(original)
        def decode(*args: Any, **kwargs: Any) -> Any:
            given = original(*args, **kwargs)
            if self.brush is not None:
                return self.brush(given, decoder.spelling, decoder.lossy or _is_lossy(decoder.given(args, kwargs)))
            order = decoder.order(args, kwargs)
            if not order:
                return given
            deep = (3, 4) if decoder.alpha else (3,)
            if isinstance(given, list):
                return [self._paint(one, decoder.spelling, order, deep, first=decoder.first) for one in given]
            return self._paint(given, decoder.spelling, order, deep, first=decoder.first)

        return decode

    def _paint(
        self, image: Any, name: str, order: str = "RGB", deep: tuple[int, ...] = (3,), *, first: bool = False
    ) -> Any:
        """A chart like an image, or what was given where it is none of 8 or 16 bits with colour channels."""
        if self.colour is None:
            self.painted.add(name)
            return image
        colour = self.colour[::-1] if order == "BGR" else self.colour
        painted: Any = None
        if isinstance(image, torch.Tensor):
            painted = _paint_tensor(image, colour, deep)
        elif isinstance(image, np.ndarray) and not first:
            painted = _paint_array(image, colour, deep)
        elif type(image).__module__.startswith("PIL.") and getattr(image, "mode", "") == "RGB":
            painted = sys.modules["PIL.Image"].new("RGB", image.size, colour)
        if painted is None and self.grey:
            painted = self._paint_grey(image, _shade(self.colour))
        if painted is None:
            return image
        self.painted.add(name)
        return painted

    def _paint_grey(self, image: Any, shade: int) -> Any:
        """An even image like one of 8 bits and one channel, or of 8 or 16 bits and many bands; None for others."""
        if type(image).__module__.startswith("PIL.") and getattr(image, "mode", "") == "L":
            return sys.modules["PIL.Image"].new("L", image.size, shade)
        if not isinstance(image, np.ndarray | torch.Tensor) or image.ndim not in (2, 3):
            return None
        bands = 1 if image.ndim == 2 else min(image.shape[0], image.shape[-1])
        scale = _scale_of(image)
        if scale is None or not ((bands == 1 and scale == 1) or 4 < bands <= MOST_BANDS):
            return None
        self.bands = bands
        painted = image.copy() if isinstance(image, np.ndarray) else image.clone()
        painted[...] = shade * scale
        return painted

    def _watch_pillow(self, opened: Any) -> None:
        """Let every image file that is opened from now on be painted once it is loaded: decoding is put off."""
        original = opened.__init__

        @functools.wraps(original)
        def __init__(image: Any, *args: Any, **kwargs: Any) -> None:
            original(image, *args, **kwargs)
            image.load = functools.partial(self._load, image, image.load)

        opened.__init__ = __init__

    def _load(self, image: Any, load: Callable[[], Any]) -> Any:
        pixels = load()
        image.__dict__.pop("load", None)  # what the user draws on it later stays
        if self.brush is not None:
            drawn = self.brush(image, PILLOW.spelling, image.format in ("JPEG", "MPO", "WEBP"))
            if drawn is image:
                return pixels
            image.im, image.readonly = drawn.im, 0
            return image.load()
        if self.colour is None:
            self.painted.add(PILLOW.spelling)
            return pixels
        ink = _ink(image.mode, self.colour)
        if self.grey and image.mode == "L":
            ink, self.bands = (_shade(self.colour),), 1
        if ink is None:
            return pixels
        image.im, image.readonly = sys.modules["PIL.Image"].new(image.mode, image.size, ink).im, 0
        self.painted.add(PILLOW.spelling)
        return image.load()


def _ink(mode: str, colour: RGB) -> tuple[int, ...] | None:
    """A colour as Pillow writes it in a mode; None for masks and other images without colour channels."""
    if mode in ("RGBA", "RGBX"):
        return (*colour, 255)
    if mode == "CMYK":
        return (*(255 - part for part in colour), 0)
    return colour if mode == "RGB" else None


def _shade(colour: RGB) -> int:
    """How bright a colour is, from 0 to 255."""
    return round(sum(weight * part for weight, part in zip(BRIGHTNESS, colour, strict=True)))


def _scale_of(image: np.ndarray | torch.Tensor) -> int | None:
    """What a colour from 0 to 255 is multiplied by in an image of this type; None for one that is not painted.

    Bytes in 16 bits are left alone: nothing tells which of both scales they have.
    """
    kind = str(image.dtype).removeprefix("torch.")
    if kind == "uint8":
        return 1
    array = np.asarray(image) if kind == "uint16" or kind.startswith("float") else np.empty(0)
    if not array.size:
        return None
    if kind == "uint16":
        return 257 if array.max() > 255 else None
    whole = bool(array.min() >= 0) and bool(_BRIGHT < array.max() <= 255)
    return 1 if whole and bool((array == np.round(array)).all()) else None


def _paint_array(image: np.ndarray, colour: RGB, deep: tuple[int, ...]) -> np.ndarray | None:
    scale = _scale_of(image)
    if scale is None or image.ndim != 3 or image.shape[-1] not in deep:
        return None
    painted = image.copy()
    painted[..., :3] = [part * scale for part in colour]
    return painted


def _paint_tensor(image: torch.Tensor, colour: RGB, deep: tuple[int, ...]) -> torch.Tensor | None:
    scale = _scale_of(image)
    if scale is None or image.ndim != 3 or image.shape[0] not in deep:
        return None
    painted = image.clone()
    for channel, part in enumerate(colour):
        painted[channel] = part * scale
    return painted


_LOSSY = (".jpg", ".jpeg", ".webp")


def _is_lossy(source: Any) -> bool:
    """Whether what a decoder is given is a file or bytes of a format that loses detail."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source).lower().endswith(_LOSSY)
    if isinstance(source, torch.Tensor | np.ndarray) and source.ndim == 1:
        source = bytes(source[:2].tolist())
    return isinstance(source, bytes) and source.startswith(b"\xff\xd8")
