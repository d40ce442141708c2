"""The image decoders that the user's code may have imported, and how each of them orders channels."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_COLOR_RGB = 256
"""The flag `cv2.IMREAD_COLOR_RGB`."""
_TURBO_FORMATS = ("RGB", "BGR", "RGB", "BGR", "", "", "RGB", "RGB", "BGR")
"""The orders of TurboJPEG's pixel formats, by number, with anything or alpha behind; grey ones have none to lose."""

BRIGHTNESS = (0.299, 0.587, 0.114)
"""How much red, green and blue count in the grey that decoders make of colours."""

Asked = Callable[[tuple[Any, ...], Mapping[str, Any]], str]
"""The order of channels that a call asks for, by its arguments; empty where that is neither RGB nor BGR."""


def _of_opencv(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    flags = kwargs.get("flags", next((one for one in args[1:] if isinstance(one, int)), 0))
    return "RGB" if flags > 0 and flags & _COLOR_RGB else "BGR"


def _of_turbojpeg(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    number = kwargs.get("pixel_format", args[1] if len(args) > 1 else 1)
    return _TURBO_FORMATS[number] if number in range(len(_TURBO_FORMATS)) else ""


def _of_simplejpeg(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    asked = str(kwargs.get("colorspace", args[1] if len(args) > 1 else "RGB")).upper()
    return "RGB" if asked == "GRAY" else asked[:3] if asked[:3] in ("RGB", "BGR") else ""


def _red_first(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    del args, kwargs
    return "RGB"


@dataclass(frozen=True, slots=True)
class Decoder:
    """A function that decodes images, or a method: its module, its class if it has one, and its name.

    `order` tells the order of the channels, `first` whether they come first, and `alpha` that a fourth channel is an
    alpha channel, and not one more spectral band; `lossy` that it knows no formats but those that lose detail.
    """

    module: str
    name: str
    order: Asked = _red_first
    first: bool = False
    alpha: bool = True
    owner: str = ""
    lossy: bool = False

    @property
    def spelling(self) -> str:
        """How users write it."""
        return ".".join(filter(None, (self.module, self.owner, self.name)))


DECODERS = (
    Decoder("cv2", "imread", _of_opencv),
    Decoder("cv2", "imdecode", _of_opencv),
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
    Decoder("turbojpeg", "decode", _of_turbojpeg, owner="TurboJPEG", lossy=True),
    Decoder("simplejpeg", "decode_jpeg", _of_simplejpeg, lossy=True),
)
"""Those that give arrays; what Pillow decodes is painted as it is loaded, whoever opened it."""

Known = dict[int, tuple[Any, Any]]
"""Functions and their stand-ins, by the identity of the function."""


def meet(decoder: Decoder, known: Known, around: Callable[[Callable[..., Any], Decoder], Callable[..., Any]]) -> None:
    """Put a stand-in for a decoder's function among the `known` ones, if its module is imported, or for its method.

    `around` makes it of the function, or of the method of one object.
    """
    holder = sys.modules.get(decoder.module)
    holder = getattr(holder, decoder.owner, None) if decoder.owner else holder
    original = getattr(holder, decoder.name, None)
    if not callable(original) or hasattr(original, "_dataguard"):
        return

    @functools.wraps(original)
    def method(itself: Any, *args: Any, **kwargs: Any) -> Any:
        return around(functools.partial(original, itself), decoder)(*args, **kwargs)

    stand_in: Any = method if decoder.owner else around(original, decoder)
    stand_in._dataguard = True
    if decoder.owner:
        setattr(holder, decoder.name, stand_in)
    else:
        known.setdefault(id(original), (original, stand_in))
