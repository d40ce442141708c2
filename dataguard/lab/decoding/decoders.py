"""The registry of decoders: each function that a dataset may read images with, and how to treat it.

Whoever paints, exchanges or watches images takes its decoders from here, so that one entry makes another decoder known
everywhere. Nothing is imported for it: a decoder counts once the user's code has imported its module.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dataguard.lab.decoding.video_decoders import Paint, opencv_video, pyav_video

BRIGHTNESS = (0.299, 0.587, 0.114)
"""How much red, green and blue count in the grey that decoders make of colours."""
_COLOR_RGB = 256
"""The flag `cv2.IMREAD_COLOR_RGB`."""
_TURBO_FORMATS = ("RGB", "BGR", "RGB", "BGR", "", "", "RGB", "RGB", "BGR")
"""The orders of TurboJPEG's pixel formats, by number, with anything or alpha behind; grey ones have none to lose."""

Order = Callable[[tuple[Any, ...], Mapping[str, Any]], str]
"""The order of channels that a call asks for, by its arguments; empty where that is neither RGB nor BGR."""

Missing = Callable[[str], None]
"""What a decoder does with the path of a file that does not exist."""


def _red_first(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    del args, kwargs
    return "RGB"


def _of_opencv(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    flags = kwargs.get("flags", next((one for one in args[1:] if isinstance(one, int)), 0))
    return "RGB" if flags > 0 and flags & _COLOR_RGB else "BGR"


def _of_turbojpeg(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    number = kwargs.get("pixel_format", args[1] if len(args) > 1 else 1)
    return _TURBO_FORMATS[number] if number in range(len(_TURBO_FORMATS)) else ""


def _of_simplejpeg(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    asked = str(kwargs.get("colorspace", args[1] if len(args) > 1 else "RGB")).upper()
    return "RGB" if asked == "GRAY" else asked[:3] if asked[:3] in ("RGB", "BGR") else ""


def _none(path: str) -> None:
    del path


def _raises(path: str) -> None:
    raise RuntimeError(f"[Errno 2] No such file or directory: '{path}'")


class Gives(Enum):
    """What a decoder returns."""

    PIXELS = "an array or tensor of pixels"
    PILLOW = "an image of Pillow's, which decodes its pixels when they are asked for"
    VIDEO = "an open video, which gives frame after frame"
    ARRAY = "an array, which may or may not be an image"
    BYTES = "the bytes of a file"


@dataclass(frozen=True, slots=True)
class Decoder:
    """A function of a module, or a method of its class `owner`, that is called with a file or with its content."""

    module: str
    name: str
    file: str
    """The name of its first parameter: a path, an open file or its bytes."""
    gives: Gives = Gives.PIXELS
    order: Order = _red_first
    first: bool = False
    """Whether channels come first, as torch has them."""
    alpha: bool = True
    """Whether a fourth channel is an alpha channel, and not one more spectral band."""
    lossy: bool = False
    """Whether it knows only formats that lose detail."""
    owner: str = ""
    video: Callable[[Any, Paint], Any] | None = None
    """Makes a stand-in for what opens videos, of which every frame is painted."""
    missing: Missing | None = None
    """Given for those that open files by themselves, and not by Python's `open`."""

    @property
    def spelling(self) -> str:
        """How users write it."""
        return ".".join(filter(None, (self.module, self.owner, self.name)))

    def given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The file that it is called with."""
        return args[0] if args else kwargs.get(self.file)

    def exchanged(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], file: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call with another file."""
        if args:
            return (file, *args[1:]), {**kwargs}
        return (), {name: file if name == self.file else value for name, value in kwargs.items()}


PILLOW = Decoder("PIL.Image", "open", "fp", Gives.PILLOW)
DECODERS = (
    PILLOW,
    Decoder("cv2", "imread", "filename", order=_of_opencv, missing=_none),
    Decoder("cv2", "imdecode", "buf", order=_of_opencv),
    *(
        decoder
        for module in ("torchvision.io", "torchvision.io.image")
        for decoder in (
            Decoder(module, "read_file", "path", Gives.BYTES, missing=_raises),  # which the others call for a path
            Decoder(module, "read_image", "path", first=True),
            Decoder(module, "decode_image", "input", first=True),
            Decoder(module, "decode_jpeg", "input", first=True),
            Decoder(module, "decode_png", "input", first=True),
            Decoder(module, "decode_webp", "input", first=True),
        )
    ),
    Decoder("imageio", "imread", "uri"),
    Decoder("imageio.v2", "imread", "uri"),
    Decoder("imageio.v3", "imread", "uri"),
    Decoder("skimage.io", "imread", "fname"),
    Decoder("tifffile", "imread", "files", alpha=False),
    Decoder("turbojpeg", "decode", "jpeg_buf", order=_of_turbojpeg, owner="TurboJPEG", lossy=True),
    Decoder("simplejpeg", "decode_jpeg", "data", order=_of_simplejpeg, lossy=True),
    Decoder("cv2", "VideoCapture", "filename", Gives.VIDEO, video=opencv_video),
    Decoder("av", "open", "file", Gives.VIDEO, video=pyav_video),
    Decoder("numpy", "load", "file", Gives.ARRAY),
)


def giving(*kinds: Gives) -> tuple[Decoder, ...]:
    """The decoders that return something of these kinds."""
    return tuple(decoder for decoder in DECODERS if decoder.gives in kinds)


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
