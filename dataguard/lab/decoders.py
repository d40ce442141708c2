"""Image decoders that the user's code has imported, and charts of one colour in place of what they decode.

Each decoder has a convention: the order of its channels, and where they stand. A chart is the decoded image with every
pixel painted over, so that size, type and what else belongs to it stay. Masks and other images of one channel, and
palettes, are left alone.
"""

from __future__ import annotations

import copy
import functools
import os
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

RGB = tuple[int, int, int]
"""Red, green and blue from 0 to 255."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """A function that decodes images: its module and name, the order of the channels and whether they come first.

    `alpha` tells that a fourth channel is an alpha channel, and not one more spectral band.
    """

    module: str
    name: str
    order: str = "RGB"
    first: bool = False
    alpha: bool = True

    @property
    def spelling(self) -> str:
        """How users write it."""
        return f"{self.module}.{self.name}"


DECODERS = (
    Decoder("cv2", "imread", order="BGR"),
    Decoder("cv2", "imdecode", order="BGR"),
    *(
        Decoder(module, name, first=True)
        for module in ("torchvision.io", "torchvision.io.image")
        for name in ("decode_image", "decode_jpeg", "decode_png", "decode_webp", "read_image")
    ),
    Decoder("imageio", "imread"),
    Decoder("imageio.v2", "imread"),
    Decoder("imageio.v3", "imread"),
    Decoder("skimage.io", "imread"),
    Decoder("tifffile", "imread", alpha=False),
)
"""Those that give arrays; what Pillow decodes is painted as it is loaded, whoever opened it."""
_PILLOW, _FROM_ARRAY = "PIL.Image.open", "PIL.Image.fromarray"
_COLOR_RGB = 256
"""The flag `cv2.IMREAD_COLOR_RGB`."""
_TRANSFORMS = ("transform", "transforms")
UNDECODED = (_FROM_ARRAY, *_TRANSFORMS)
"""The places where arrays that are there already come by."""
MOST_BANDS = 32
"""How many bands an image has at most: spectral ones, and not slices of a volume."""
_SCALES = {"uint8": 1, "uint16": 257}
"""What a colour from 0 to 255 is multiplied by, in each type that is painted."""


Brush = Callable[[Any, str, bool], Any]
"""What takes the place of a decoded picture: called with it, its decoder's name, and whether its file may be lossy."""


class Painter:
    """Paints over what is decoded in this process, which is thrown away, while there is a `colour`.

    `painted` names the decoders whose images were painted since it was last cleared. With `grey`, images without
    colours are painted as well: those of one channel, and those of more bands than colours have, of which `bands` tells
    the number. With a `brush`, whatever is decoded goes through it instead, masks included, by these `decoders` or by
    Pillow.
    """

    def __init__(self, brush: Brush | None = None, decoders: Sequence[Decoder] = DECODERS) -> None:
        self.brush = brush
        self._decoders = decoders
        self.colour: RGB | None = None
        self.grey = False
        self.bands = 0
        self.painted: set[str] = set()
        self._modules = 0
        self._known: dict[int, tuple[Any, Any]] = {}
        self._pillow = False

    def install(self) -> None:
        """Stand in for every decoder of a module that is imported by now, wherever a module has a name for it."""
        if self._modules == len(sys.modules):
            return
        self._modules = len(sys.modules)
        for decoder in self._decoders:
            module = sys.modules.get(decoder.module)
            original = getattr(module, decoder.name, None)
            if callable(original) and not hasattr(original, "_dataguard"):
                self._known.setdefault(id(original), (original, self._around(original, decoder)))
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
        """Paint what the transforms of a dataset, and of those that it wraps, are called with."""
        for part in chain(dataset):
            for name in _TRANSFORMS:
                original = vars(part).get(name)
                if callable(original):
                    vars(part)[name] = standing_in(original, self._before(original, name))

    def _before(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def transform(*args: Any, **kwargs: Any) -> Any:
            if "image" in kwargs:
                kwargs["image"] = self._paint(kwargs["image"], name)
            return original(*(self._paint(args[0], name), *args[1:]) if args else (), **kwargs)

        return transform

    def _around(self, original: Callable[..., Any], decoder: Decoder) -> Callable[..., Any]:
        @functools.wraps(original)
        def decode(*args: Any, **kwargs: Any) -> Any:
            given = original(*args, **kwargs)
            if self.brush is not None:
                return self.brush(given, decoder.spelling, _is_lossy(args))
            order = "RGB" if decoder.module == "cv2" and _asks_for_rgb(args, kwargs) else decoder.order
            deep = (3, 4) if decoder.alpha else (3,)
            if isinstance(given, list):
                return [self._paint(one, decoder.spelling, order, deep, first=decoder.first) for one in given]
            return self._paint(given, decoder.spelling, order, deep, first=decoder.first)

        decode._dataguard = True  # type: ignore[attr-defined]
        return decode

    def _paint(
        self, image: Any, name: str, order: str = "RGB", deep: tuple[int, ...] = (3,), *, first: bool = False
    ) -> Any:
        """A chart like an image, or what was given where it is none of 8 or 16 bits with colour channels."""
        if self.colour is None:
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
        scale = _SCALES.get(str(image.dtype).removeprefix("torch."))
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
            drawn = self.brush(image, _PILLOW, image.format in ("JPEG", "MPO", "WEBP"))
            if drawn is image:
                return pixels
            image.im, image.readonly = drawn.im, 0
            return image.load()
        ink = None if self.colour is None else _ink(image.mode, self.colour)
        if self.grey and self.colour is not None and image.mode == "L":
            ink, self.bands = (_shade(self.colour),), 1
        if ink is None:
            return pixels
        image.im, image.readonly = sys.modules["PIL.Image"].new(image.mode, image.size, ink).im, 0
        self.painted.add(_PILLOW)
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
    red, green, blue = colour
    return round(0.299 * red + 0.587 * green + 0.114 * blue)


def _paint_array(image: np.ndarray, colour: RGB, deep: tuple[int, ...]) -> np.ndarray | None:
    scale = _SCALES.get(str(image.dtype))
    if scale is None or image.ndim != 3 or image.shape[-1] not in deep:
        return None
    painted = image.copy()
    painted[..., :3] = [part * scale for part in colour]
    return painted


def _paint_tensor(image: torch.Tensor, colour: RGB, deep: tuple[int, ...]) -> torch.Tensor | None:
    scale = _SCALES.get(str(image.dtype).removeprefix("torch."))
    if scale is None or image.ndim != 3 or image.shape[0] not in deep:
        return None
    painted = image.clone()
    for channel, part in enumerate(colour):
        painted[channel] = part * scale
    return painted


_LOSSY = (".jpg", ".jpeg", ".webp")


def _is_lossy(args: tuple[Any, ...]) -> bool:
    """Whether a decoder is given a file or bytes of a format that loses detail."""
    source = args[0] if args else None
    if isinstance(source, str | os.PathLike):
        return os.fspath(source).lower().endswith(_LOSSY)
    if isinstance(source, torch.Tensor | np.ndarray) and source.ndim == 1:
        source = bytes(source[:2].tolist())
    return isinstance(source, bytes) and source.startswith(b"\xff\xd8")


def _asks_for_rgb(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    flags = kwargs.get("flags", next((one for one in args[1:] if isinstance(one, int)), 0))
    return bool(flags > 0 and flags & _COLOR_RGB)


def standing_in(original: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """What is called as the function, and is of the original's own type, where that is a class of the user's side."""
    try:
        stand_in = copy.copy(original)
        calls = {"__call__": lambda _, *args, **kwargs: function(*args, **kwargs)}
        stand_in.__class__ = type(type(original).__name__, (type(original),), calls)
    except Exception:  # noqa: BLE001 - functions and other built-in types have no such twin
        return function
    return stand_in  # type: ignore[no-any-return]


def rebind(known: dict[int, tuple[Any, Any]]) -> None:
    """Put the stand-in of each function into every module that has a name for the function."""
    for module in list(sys.modules.values()):
        names = module.__dict__ if isinstance(module, types.ModuleType) else {}
        for name, value in list(names.items()):
            if id(value) in known:
                names[name] = known[id(value)][1]


def chain(dataset: Any, depth: int = 0) -> list[Any]:
    """A dataset and those that it wraps: what `Subset` and `ConcatDataset` hold."""
    if depth > 4 or not hasattr(dataset, "__dict__"):
        return []
    held = vars(dataset)
    inner = [held.get("dataset"), *(held["datasets"] if isinstance(held.get("datasets"), list) else [])]
    return [dataset, *(part for one in inner if one is not None for part in chain(one, depth + 1))]
