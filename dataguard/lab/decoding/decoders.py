"""The registry of decoders: every function with which a dataset may read images or sound, and its conventions.

All observations that replace or watch files choose their decoders here, so one entry adds a decoder to all of
them. No decoder is imported: only modules that the user's code has imported are patched.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dataguard.lab.core.stand_ins import rebind
from dataguard.lab.decoding.redirection import redirect, redirect_method

BRIGHTNESS = (0.299, 0.587, 0.114)
"""The weights of red, green and blue in the grey that decoders compute."""
_COLOR_RGB = 256
"""The flag `cv2.IMREAD_COLOR_RGB`."""
_TURBO_FORMATS = ("RGB", "BGR", "RGB", "BGR", "", "", "RGB", "RGB", "BGR")
"""The channel orders of TurboJPEG's pixel formats, by number; empty for those that begin with padding or alpha."""
_PYAV_FORMATS = {"rgb24": "RGB", "rgba": "RGB", "bgr24": "BGR", "bgra": "BGR"}
"""The channel orders of FFmpeg's interleaved byte formats."""

Order = Callable[[tuple[Any, ...], Mapping[str, Any]], str]
"""Returns the channel order that the arguments of a call ask for: RGB, BGR, or empty for any other.

The first argument of a method is its object.
"""

Missing = Callable[[str], None]
"""Does what a decoder does for the path of a missing file: returns None or raises."""


def _red_first(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    del args, kwargs
    return "RGB"


def _of_opencv(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    flags = kwargs.get("flags", next((one for one in args[1:] if isinstance(one, int)), 0))
    return "RGB" if flags > 0 and flags & _COLOR_RGB else "BGR"


def _of_turbojpeg(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    number = kwargs.get("pixel_format", args[2] if len(args) > 2 else 1)
    return _TURBO_FORMATS[number] if number in range(len(_TURBO_FORMATS)) else ""


def _of_simplejpeg(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    asked = str(kwargs.get("colorspace", args[1] if len(args) > 1 else "RGB")).upper()
    return "RGB" if asked == "GRAY" else asked[:3] if asked[:3] in ("RGB", "BGR") else ""


def _of_pyav(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    frame, *given = args
    asked = kwargs.get("format") or frame.format
    asked = given[0] if given and isinstance(given[0], str) else asked
    return _PYAV_FORMATS.get(getattr(asked, "name", asked), "")


def _none(path: str) -> None:
    del path


def _raises(path: str) -> None:
    raise RuntimeError(f"[Errno 2] No such file or directory: '{path}'")


class Gives(Enum):
    """What a decoder returns."""

    PIXELS = "an array or tensor of pixels"
    PILLOW = "a Pillow image, which decodes its pixels on first use"
    FRAME = "a frame of a video, alone or after whether there is one"
    ARRAY = "an array that may or may not be an image"
    BYTES = "the undecoded content of a file"
    SOUND = "a waveform, its sample rate, or an object that reads them"


@dataclass(frozen=True, slots=True)
class Decoder:
    """A function of a module, or a method of its class `owner`, that takes a file or its content."""

    module: str
    name: str
    file: str
    """The name of its first parameter: a path, an open file or encoded bytes. Empty for a method of an open video."""
    gives: Gives = Gives.PIXELS
    order: Order = _red_first
    first: bool = False
    """Whether the channels are the first dimension, as in torch."""
    alpha: bool = True
    """Whether a fourth channel is alpha; otherwise it is another spectral band."""
    lossy: bool = False
    """Whether it reads lossy formats only."""
    owner: str = ""
    missing: Missing | None = None
    """For decoders that open files in native code, where patching Python's `open` has no effect."""

    @property
    def spelling(self) -> str:
        """How users write it."""
        return ".".join(filter(None, (self.module, self.owner, self.name)))

    @property
    def function(self) -> Any:
        """The function itself; None unless its module is imported."""
        owner: Any = sys.modules.get(self.module)
        owner = getattr(owner, self.owner, None) if self.owner else owner
        found = None if owner is None else getattr(owner, self.name, None)
        return getattr(found, "__func__", found) if self.owner else found  # a bound class method is a new object

    def given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The file argument of a call."""
        own = args[1:] if self.owner else args
        return own[0] if own else kwargs.get(self.file)

    def exchanged(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], file: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call with its file replaced."""
        own = args[:1] if self.owner else ()
        if len(args) > len(own):
            return (*own, file, *args[len(own) + 1 :]), {**kwargs}
        return own, {name: file if name == self.file else value for name, value in kwargs.items()}


PILLOW = Decoder("PIL.Image", "open", "fp", Gives.PILLOW)
DECODERS = (
    PILLOW,
    Decoder("cv2", "imread", "filename", order=_of_opencv, missing=_none),
    Decoder("cv2", "imdecode", "buf", order=_of_opencv),
    *(
        decoder
        for module in ("torchvision.io", "torchvision.io.image")
        for decoder in (
            Decoder(module, "read_image", "path", first=True, missing=_raises),
            Decoder(module, "decode_image", "input", first=True),
            Decoder(module, "decode_jpeg", "input", first=True),
            Decoder(module, "decode_png", "input", first=True),
            Decoder(module, "decode_webp", "input", first=True),
        )
    ),
    Decoder("torchvision.io", "read_file", "path", Gives.BYTES, missing=_raises),
    Decoder("imageio", "imread", "uri"),
    Decoder("imageio.v2", "imread", "uri"),
    Decoder("imageio.v3", "imread", "uri"),
    Decoder("skimage.io", "imread", "fname"),
    Decoder("tifffile", "imread", "files", alpha=False),
    Decoder("turbojpeg", "decode", "jpeg_buf", order=_of_turbojpeg, owner="TurboJPEG", lossy=True),
    Decoder("simplejpeg", "decode_jpeg", "data", order=_of_simplejpeg, lossy=True),
    Decoder("cv2", "read", "", Gives.FRAME, order=_of_opencv, owner="VideoCapture"),
    Decoder("cv2", "retrieve", "", Gives.FRAME, order=_of_opencv, owner="VideoCapture"),
    Decoder("av", "to_ndarray", "", Gives.FRAME, order=_of_pyav, owner="VideoFrame"),
    Decoder("av", "to_image", "", Gives.FRAME, owner="VideoFrame"),
    Decoder("numpy", "load", "file", Gives.ARRAY),
    Decoder("numpy.lib.npyio", "__getitem__", "key", Gives.ARRAY, owner="NpzFile"),
    Decoder("torchaudio", "load", "uri", Gives.SOUND, missing=_raises),
    Decoder("torchaudio", "info", "uri", Gives.SOUND, missing=_raises),
    Decoder("torchcodec.decoders", "__init__", "source", Gives.SOUND, owner="AudioDecoder", missing=_raises),
    Decoder("soundfile", "__init__", "file", Gives.SOUND, owner="SoundFile", missing=_raises),
    Decoder("scipy.io.wavfile", "read", "filename", Gives.SOUND),
    Decoder("wave", "open", "f", Gives.SOUND),
    Decoder("audioread", "audio_open", "path", Gives.SOUND),
    Decoder("pydub", "from_file", "file", Gives.SOUND, owner="AudioSegment"),
    Decoder("av", "open", "file", Gives.SOUND),
)


def giving(*kinds: Gives) -> tuple[Decoder, ...]:
    """The decoders that return one of these kinds."""
    return tuple(decoder for decoder in DECODERS if decoder.gives in kinds)


Patched = dict[int, object]
"""The functions that were replaced, by their `id`."""


Around = Callable[[Callable[..., Any], Decoder], Callable[..., Any]]
"""Makes what is called in place of a decoder's function."""


def _around(decoder: Decoder, around: Around) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda original: around(original, decoder)


def patch(decoder: Decoder, patched: Patched, around: Around) -> None:
    """Have `around(function, decoder)` called in place of a decoder's function, whoever holds it.

    Nothing is done if its module is not imported, or for a function that is `patched` already.
    """
    function = decoder.function
    if not callable(function) or id(function) in patched:
        return
    patched[id(function)] = function

    replaced = _around(decoder, around)
    if decoder.owner:
        redirect_method(getattr(sys.modules[decoder.module], decoder.owner), decoder.name, replaced)
    elif redirect(function, replaced) is None:  # an object that somebody else put in its place
        rebind({id(function): (function, replaced(function))})


@contextlib.contextmanager
def decoding_noted() -> Iterator[list[str]]:
    """Collect the decoders of images that are called inside the context, of modules that are imported before."""
    called: list[str] = []

    def noting(function: Callable[..., Any], decoder: Decoder) -> Callable[..., Any]:
        def decode(*args: Any, **kwargs: Any) -> Any:
            called.append(decoder.spelling)
            return function(*args, **kwargs)

        return decode

    with redirected(giving(Gives.PILLOW, Gives.PIXELS), noting):
        yield called


@contextlib.contextmanager
def redirected(decoders: Iterable[Decoder], around: Around) -> Iterator[None]:
    """Like `patch`, of functions of the modules that are imported, and undone after the context."""
    with contextlib.ExitStack() as stack:
        for decoder in decoders:
            function = decoder.function
            undo = None if function is None else redirect(function, _around(decoder, around))
            if undo is not None:
                stack.callback(undo)
        yield
