"""The registry of decoders: every function with which a dataset may read images or sound, and how to replace one.

All observations that replace or watch files choose their decoders here, so one entry adds a decoder to all of
them. No decoder is imported: only modules that the user's code has imported are patched.

A dataset holds its decoder in many ways: as an attribute, a default argument, a closure variable, in a partial or a
table. Names can be bound again, such references cannot. So `redirect` edits the function object itself: it keeps its
identity, name, signature and pickled form, however it is held and whenever it was bound. A Python function gets another
code object, and a built-in one another C function (CPython only), whose arguments are those of `PyObject_Call`.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dataguard.lab.core.source_location import rebind
from dataguard.lab.process.endless_reads import decoder_called

BRIGHTNESS = (0.299, 0.587, 0.114)
"""The weights of red, green and blue in the grey that decoders compute (ITU-R BT.601)."""


class Gives(Enum):
    """What a decoder returns."""

    PIXELS = "an array or tensor of pixels"
    PILLOW = "a Pillow image, which decodes its pixels on first use"
    FRAME = "a frame of a video, alone or after whether there is one"
    ARRAY = "an array that may or may not be an image"
    STORED = "a part of an array in a file, which may or may not be an image"
    BYTES = "the undecoded content of a file"
    SOUND = "a waveform, its sample rate, or an object that reads them"


Order = Callable[[tuple[Any, ...], Mapping[str, Any]], str]
"""Returns the channel order that the arguments of a call ask for: RGB, BGR, or empty for any other.

The first argument of a method is its object.
"""
Missing = Callable[[str], None]
"""Does what a decoder does for the path of a missing file: returns None or raises."""
_COLOR_RGB = 256
"""The flag `cv2.IMREAD_COLOR_RGB`."""
_TURBO_FORMATS = ("RGB", "BGR", "RGB", "BGR", "", "", "RGB", "RGB", "BGR")
"""The channel orders of TurboJPEG's pixel formats, by number; empty for those that begin with padding or alpha."""
_PYAV_FORMATS = {"rgb24": "RGB", "rgba": "RGB", "bgr24": "BGR", "bgra": "BGR"}
"""The channel orders of FFmpeg's interleaved byte formats."""


def _red_first(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    del args, kwargs
    return "RGB"


def _of_opencv(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    flags = kwargs.get("flags", next((given for given in args[1:] if isinstance(given, int)), 0))
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
        function = None if owner is None else getattr(owner, self.name, None)
        return (
            getattr(function, "__func__", function) if self.owner else function
        )  # a bound class method is a new object

    def given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The file argument of a call."""
        passed = args[1:] if self.owner else args
        return passed[0] if passed else kwargs.get(self.file)

    def exchanged(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], file: Any
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call with its file replaced."""
        bound = args[:1] if self.owner else ()
        if len(args) > len(bound):
            return (*bound, file, *args[len(bound) + 1 :]), {**kwargs}
        return bound, {name: file if name == self.file else value for name, value in kwargs.items()}


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
    Decoder("numpy", "__getitem__", "index", Gives.STORED, owner="memmap"),
    Decoder("h5py", "__getitem__", "args", Gives.STORED, owner="Dataset"),
    Decoder("zarr", "__getitem__", "selection", Gives.STORED, owner="Array"),
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


Function = Callable[..., Any]
AroundCall = Callable[[Function], Function]
"""Returns what is called in place of a function, which it gets unchanged."""
Around = Callable[[Function, Decoder], Function]
"""Makes what is called in place of a decoder's function."""
Patched = dict[int, object]
"""The functions that were replaced, by their `id`."""


def patch(decoder: Decoder, patched: Patched, around: Around) -> None:
    """Have `around(function, decoder)` called in place of a decoder's function, whoever holds it.

    Nothing is done if its module is not imported, or for a function that is `patched` already.
    """
    function = decoder.function
    if not callable(function) or id(function) in patched:
        return
    patched[id(function)] = function
    replaced = _around_decoder(decoder, around)
    if decoder.owner:
        redirect_method(getattr(sys.modules[decoder.module], decoder.owner), decoder.name, replaced)
    elif redirect(function, replaced) is None:  # an object that somebody else put in its place
        rebind({id(function): (function, replaced(function))})


def _around_decoder(decoder: Decoder, around: Around) -> AroundCall:
    def counting(original: Function) -> Function:
        replaced = around(original, decoder)

        def decode(*args: Any, **kwargs: Any) -> Any:
            decoder_called()
            return replaced(*args, **kwargs)

        return decode

    return counting


@contextlib.contextmanager
def redirected(decoders: Iterable[Decoder], around: Around) -> Iterator[None]:
    """Like `patch`, of functions of the modules that are imported, and undone after the context."""
    with contextlib.ExitStack() as stack:
        for decoder in decoders:
            function = decoder.function
            undo = None if function is None else redirect(function, _around_decoder(decoder, around))
            if undo is not None:
                stack.callback(undo)
        yield


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


def redirect(function: Function, around: AroundCall) -> Callable[[], None] | None:
    """Have `around(function)` called instead of a function; `around` gets a function that still does the original work.

    Returns what undoes it. None, and nothing is changed, for a callable that cannot be edited: an object of a class of
    its own, or a built-in function of another Python than CPython or with another calling convention.
    """
    if type(function) is types.FunctionType:
        return _redirect_python(function, around)
    if sys.implementation.name == "cpython" and _is_builtin(function):
        return _redirect_builtin(function, around)
    return None


def redirect_method(owner: type, name: str, around: AroundCall) -> None:
    """The same for a method of a class, of one that is written in C too, and for all instances that there are."""
    original = owner.__dict__[name]
    original = getattr(original, "__func__", original)  # of a class method
    if type(original) is types.FunctionType:
        redirect(original, around)
    else:  # methods of Cython have the calling convention of functions, and other arguments
        _set_method(owner, name, around(original))


_IMMUTABLE = 1 << 8
"""The flag of a class that refuses new attributes, as most in C do (`Py_TPFLAGS_IMMUTABLETYPE`)."""
_FLAGS = object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t) + 18 * ctypes.sizeof(ctypes.c_void_p)
"""Where the flags of a class are in its memory: `PyTypeObject.tp_flags` follows `ob_size` and 18 pointers."""


def _set_method(owner: type, name: str, function: Function) -> None:
    """Set an attribute of any class; this also has C call special methods, such as `__getitem__`."""
    flags = ctypes.c_ulong.from_address(id(owner) + _FLAGS)
    if flags.value != owner.__flags__:
        raise TypeError(f"the memory of {owner} has an unknown form")
    immutable = flags.value & _IMMUTABLE
    flags.value &= ~_IMMUTABLE
    try:
        setattr(owner, name, function)
    finally:
        flags.value |= immutable


def _redirect_python(function: types.FunctionType, around: AroundCall) -> Callable[[], None]:
    code = function.__code__
    original = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    original.__dict__.update(function.__dict__)
    with contextlib.suppress(Exception):  # annotations may refer to names that only type checkers import
        function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined] # what `inspect` shows
    stand_in = around(original)
    pattern = _calling.__code__
    function.__code__ = pattern.replace(
        co_consts=tuple(stand_in if value == _STAND_IN else value for value in pattern.co_consts),
        co_freevars=code.co_freevars,
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
        co_name=code.co_name,
    )

    def undo() -> None:
        function.__code__ = code
        function.__dict__.clear()
        function.__dict__.update(original.__dict__)

    return undo


_STAND_IN = "what is called instead"


def _calling(*args: Any, **kwargs: Any) -> Any:
    stand_in: Any = "what is called instead"  # a constant of its code, for which `_redirect_python` puts another one
    return stand_in(*args, **kwargs)


_CALLERS = {
    0x0001: "PyObject_CallObject",  # METH_VARARGS
    0x0003: "PyObject_Call",  # METH_VARARGS | METH_KEYWORDS, as in OpenCV
    0x0082: "PyObject_Vectorcall",  # METH_FASTCALL | METH_KEYWORDS, as in Cython
}
_METHODS = {flags: name for flags, name in _CALLERS.items() if hasattr(ctypes.pythonapi, name)}
"""By the calling convention of a built-in function: a function of the C API that takes the same arguments, of which the
first is the object to call instead of the module. Python 3.10 has the last one as a macro only."""


class _Definition(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Builtin(ctypes.Structure):
    """`PyCFunctionObject`, with which functions of Cython begin too."""

    _fields_ = (
        ("head", ctypes.c_byte * object.__basicsize__),
        ("definition", ctypes.c_void_p),
        ("owner", ctypes.c_void_p),
        ("module", ctypes.c_void_p),
    )


class _Callee(types.ModuleType):
    """What a built-in function calls: a module, as its owner usually is, so that it is still pickled by name."""

    def __init__(self, name: str, function: Function) -> None:
        super().__init__(name)
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


_kept: list[object] = []
"""What edited functions refer to without counting it."""


def _is_builtin(function: Function) -> bool:
    """Whether it is a built-in function, or one of Cython, with a known calling convention."""
    kind = type(function)
    if kind is not types.BuiltinFunctionType and kind.__name__ != "cython_function_or_method":
        return False
    return _Definition.from_address(_Builtin.from_address(id(function)).definition).flags in _METHODS


def _redirect_builtin(function: Any, around: AroundCall) -> Callable[[], None]:
    edited = _Builtin.from_address(id(function))
    before, owner = edited.definition, edited.owner
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype, create.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object)
    original = create(before, owner, function.__module__)
    callee = _Callee(function.__module__ or "", around(original))
    definition = _Definition.from_buffer_copy(_Definition.from_address(before))
    caller = getattr(ctypes.pythonapi, _METHODS[definition.flags])
    definition.function = ctypes.cast(caller, ctypes.c_void_p).value
    _kept.extend((callee, definition))
    edited.owner, edited.definition = id(callee), ctypes.addressof(definition)

    def undo() -> None:
        edited.owner, edited.definition = owner, before

    return undo
