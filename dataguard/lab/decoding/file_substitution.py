"""Watches the files and encoded content that a dataset reads, and replaces some of them or makes them appear missing.

A file is identified by its content, whether it is passed to a decoder as a path, an open file, bytes, an array or a
tensor. `open` is patched as well, because some projects read EXIF data with another library. Readers in C++ go past it;
inotify shows that they opened a file (`opens_of`).
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import errno
import functools
import hashlib
import io
import mmap
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from dataguard.lab.core.source_location import replaced
from dataguard.lab.decoding.decoders import (
    DECODERS,
    Decoder,
    Gives,
    Patched,
    giving,
    patch,
    redirected,
)
from dataguard.lab.decoding.image_files import Content, Header, read_header
from dataguard.lab.decoding.sound_files import SoundHeader, read_sound_header
from dataguard.lab.process.write_protection import forbid_writes
from dataguard.process.originals import os

H = TypeVar("H")
"""The header of a file."""


@dataclass(frozen=True, slots=True)
class Media(Generic[H]):
    """A kind of files: the functions that decode any format of them, and what reads a header."""

    decoders: tuple[Decoder, ...]
    read_header: Callable[[Content], H | None]


IMAGES: Media[Header] = Media(
    tuple(decoder for decoder in giving(Gives.PILLOW, Gives.PIXELS) if not decoder.lossy), read_header
)
SOUNDS: Media[SoundHeader] = Media(giving(Gives.SOUND), read_sound_header)


class EnoughFiles(BaseException):
    """Stops reading a sample once enough of its files are known. No `Exception`: user code must not catch it."""


@dataclass(frozen=True, slots=True)
class DecodedFile(Generic[H]):
    """A file that was passed to a decoder: its header and its path, or a digest if it has no path."""

    header: H | None
    name: str


class FileSubstitution(Generic[H]):
    """Watches the decoders of one kind of files in this disposable process.

    `files` lists those decoded since it was last cleared, each once, with their `contents` if `keeps`. After `enough`
    of them, `EnoughFiles` is raised; once the user's code catches that and reads on, there is no `enough` any more.
    `substitute` replaces a file; `substituted` says whether that one was decoded, and
    `by_path` whether the decoder got its path, so that nothing need open the file itself.
    """

    def __init__(self, folder: Path, media: Media[H]) -> None:
        self.files: list[DecodedFile[H]] = []
        self._media = media
        self.contents: list[bytes] = []
        self.keeps = False
        self.enough: int | None = None
        self.stopped = False
        self.substituted = False
        self.by_path = False
        self._originals: dict[str, bytes] = {}
        self._folder = folder
        self._replacements: dict[bytes, bytes] = {}
        self._paths: dict[str, Path] = {}
        self._in_decoder = threading.local()
        self._modules = 0
        self._patched: Patched = {}

    def install(self) -> None:
        """Patch `open` and every decoder of the modules imported so far."""
        if self._modules == len(sys.modules):
            return
        first, self._modules = not self._modules, len(sys.modules)
        if first:
            builtins.open = io.open = self._opening(builtins.open)
        for decoder in self._media.decoders:
            patch(decoder, self._patched, self._around)

    def substitute(self, name: str, content: bytes, other: bytes) -> None:
        """Replace the file with this name and content by another one, from now on, beside those replaced before."""
        forbid_writes()
        self._replacements |= {digest_of(content): other, digest_of(other): other}
        if Path(name).is_absolute():
            copy = self._folder / str(len(self._paths)) / Path(name).name
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(other)
            self._originals[name], self._paths[name] = content, copy

    def _opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def opening(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if self._paths and (path := read_path(file, mode)):
                file = self._paths.get(path, file)
            return original(file, mode, *arguments, **options)

        return opening

    def _around(self, original: Callable[..., Any], decoder: Decoder) -> Callable[..., Any]:
        def decode(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._in_decoder, "busy", False):  # a decoder that calls another one
                return original(*args, **kwargs)
            file = self._substituted_argument(decoder.given(args, kwargs))
            args, kwargs = decoder.exchanged(args, kwargs, file)
            self._in_decoder.busy = True
            try:
                return original(*args, **kwargs)
            finally:
                self._in_decoder.busy = False

        return decode

    def _substituted_argument(self, given: Any) -> Any:
        """The argument that the decoder gets in place of the given one."""
        by_path = isinstance(given, str | os.PathLike)
        path = _path_of(given if by_path else getattr(given, "name", None))
        content, given = (self._read(path) if path else None, given) if by_path else content_of(given)
        if content is None:
            return given
        name = path or digest_of(content).hex()
        if name not in [file.name for file in self.files]:
            self.files.append(DecodedFile(self._media.read_header(content), name))
            if self.keeps:
                self.contents.append(bytes(content))
        if self.enough is not None and len(self.files) >= self.enough:
            if self.stopped:
                self.enough = None
            else:
                self.stopped = True
                raise EnoughFiles
        other = self._replacements.get(digest_of(content)) if self._replacements else None
        if other is None:
            return given
        self.substituted, self.by_path = True, by_path
        if not by_path:
            return in_the_type_of(given, other)
        return str(self._paths.get(path or "", given))

    def _read(self, path: str) -> Any:
        """The content of a file, which is known if it is replaced: then nobody has to open it."""
        return self._originals[path] if path in self._paths else _mapped(path)


def read_path(file: Any, mode: str) -> str | None:
    """The real path of what `open` opens for reading only; None of anything else."""
    is_path = isinstance(file, str | bytes | os.PathLike)
    return os.path.realpath(os.fsdecode(file)) if is_path and not set(mode) & set("wax+") else None


@contextlib.contextmanager
def open_replaced(function: Callable[..., Any]) -> Iterator[None]:
    """While it lasts, this function stands in place of `open`, whoever calls it."""
    with replaced(builtins, "open", function), replaced(io, "open", function):
        yield


def _path_of(given: Any) -> str | None:
    """The real path of a file, if it is one."""
    if not isinstance(given, str | os.PathLike):
        return None
    path = os.path.realpath(os.fsdecode(given))
    return path if Path(path).is_file() else None


def _mapped(path: str) -> Any:
    """The content of a file as a memory map."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) if os.fstat(descriptor).st_size else b""
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def watched(fails: Callable[[str], bool], garbage: Path | None = None) -> Iterator[None]:
    """Call `fails` with the path of every file that is opened for reading; if it returns True, the file is missing.

    With `garbage`, that file is opened in its place.
    """
    opening = builtins.open

    def watched_open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        path = read_path(file, mode)
        if path is not None and fails(path):
            if garbage is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(file))
            file = garbage
        return opening(file, mode, *arguments, **options)

    def watched_decoder(function: Callable[..., Any], decoder: Decoder) -> Callable[..., Any]:
        def decode(*arguments: Any, **options: Any) -> Any:
            path = decoder.given(arguments, options)
            is_path = isinstance(path, str | os.PathLike)
            if is_path and decoder.missing is not None and fails(os.path.realpath(path)):
                return decoder.missing(os.fspath(path))
            return function(*arguments, **options)

        return decode

    with contextlib.ExitStack() as stack:
        stack.enter_context(open_replaced(watched_open))
        native = (decoder for decoder in DECODERS if decoder.missing is not None)
        stack.enter_context(redirected(native, watched_decoder))
        yield


@contextlib.contextmanager
def decoded(fails: Callable[[str], bool], garbage: bytes | None = None) -> Iterator[None]:
    """Call `fails` with every file that is decoded: its path, or a digest of content that has none.

    If it returns True for content and there is `garbage`, that is decoded in its place, repeated to the same length.
    """

    def watching(function: Callable[..., Any], decoder: Decoder) -> Callable[..., Any]:
        def decode(*args: Any, **kwargs: Any) -> Any:
            given = decoder.given(args, kwargs)
            if isinstance(given, str | os.PathLike):
                fails(os.path.realpath(given))
                return function(*args, **kwargs)
            content, given = content_of(given)
            if content is not None and fails(digest_of(content).hex()) and garbage:
                other = (garbage * (len(content) // len(garbage) + 1))[: len(content)]
                given = in_the_type_of(given, other)
            args, kwargs = decoder.exchanged(args, kwargs, given)
            return function(*args, **kwargs)

        return decode

    with redirected(giving(Gives.PILLOW, Gives.PIXELS, Gives.ARRAY, Gives.SOUND), watching):
        yield


OPEN_ATTEMPTS = 3
"""A library opens a file each time; another process, such as a training run beside the scan, only now and then."""
_IN_OPEN = 0x20
"""The event of `inotify`: a file was opened."""


@dataclass(slots=True)
class Opened:
    """Whether any process opened the file meanwhile."""

    seen: bool = False


@contextlib.contextmanager
def opens_of(path: str) -> Iterator[Opened]:
    """Watch a file by inotify; without it, nothing is ever seen."""
    opened = Opened()
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "inotify_init1"):
        yield opened
        return
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    libc.inotify_add_watch(watch, os.fsencode(path), _IN_OPEN)
    try:
        yield opened
    finally:
        with contextlib.suppress(OSError):  # nothing to read; or the user's code closed it
            opened.seen = any(mask & _IN_OPEN for mask in _masks(os.read(watch, 4096)))
        with contextlib.suppress(OSError):
            os.close(watch)


def _masks(events: bytes) -> Iterator[int]:
    """The mask of each `inotify_event`: a file that is replaced meanwhile has one too, though nobody opened it."""
    offset = 0
    while offset < len(events):
        _, mask, _, length = struct.unpack_from("iIII", events, offset)
        yield mask
        offset += 16 + length


def content_of(given: Any) -> tuple[Any, Any]:
    """The content of an open file, bytes, an array or a tensor, and an argument from which it can be read again."""
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given), given
    if isinstance(given, np.ndarray | torch.Tensor):
        is_flat = given.dtype in (np.uint8, torch.uint8) and max(given.shape, default=0) == np.prod(given.shape)
        return (np.asarray(given).tobytes(), given) if is_flat else (None, given)
    if not callable(getattr(given, "read", None)):
        return None, given
    try:
        offset = given.tell()
        given.seek(0)
        content = given.read()
        given.seek(offset)
    except (OSError, AttributeError, ValueError):  # it is not seekable
        content = given.read()
        given = io.BytesIO(content)
    return (content, given) if isinstance(content, bytes) else (None, given)


def in_the_type_of(given: Any, content: bytes) -> Any:
    """Other content as an argument of the same type."""
    if isinstance(given, torch.Tensor):
        return torch.frombuffer(bytearray(content), dtype=torch.uint8)
    if isinstance(given, np.ndarray):
        return np.frombuffer(content, np.uint8).copy()
    return content if isinstance(given, bytes | bytearray | memoryview) else io.BytesIO(content)


def digest_of(content: Sequence[int] | bytes) -> bytes:
    """A digest of content, by which it is recognized."""
    return hashlib.blake2b(content, digest_size=16).digest()  # type: ignore[arg-type] # a memory map is a buffer
