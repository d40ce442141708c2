"""Files on their way to image decoders: which ones are handed over, and others in their place.

A file is known by its content, whether the user's code gives a path, an open file, bytes, an array or a tensor. A path
is watched by `open` as well, because some read EXIF data by a library of their own.
"""

from __future__ import annotations

import builtins
import functools
import hashlib
import io
import mmap
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.stand_ins import rebind
from dataguard.lab.decoding.decoders import Decoder, Gives, Known, giving, patch
from dataguard.lab.decoding.image_headers import Header, read_header

OPENERS = tuple(decoder for decoder in giving(Gives.PILLOW, Gives.PIXELS) if not decoder.lossy)
"""The functions that take a file and give an image, of any kind that may be handed over instead of another."""


class Seen(BaseException):
    """Enough is known of a sample: nothing of it need be decoded. No error, so that nothing that handles those does."""


@dataclass(frozen=True, slots=True)
class Handed:
    """A file that was handed to a decoder: its path, or a digest of what lies in no file of its own."""

    header: Header | None
    name: str
    decoder: str


class Handing:
    """Watches the decoders of this process, which is thrown away.

    `handed` lists the files since it was last cleared, each once, with their `contents` if `keeps`. After `enough` of
    them, `Seen` is raised. `put` has another file handed over instead of one; `taken` tells whether it was.
    """

    def __init__(self, folder: Path) -> None:
        self.handed: list[Handed] = []
        self.contents: list[bytes] = []
        self.keeps = False
        self.enough: int | None = None
        self.taken = False
        self._folder = folder
        self._instead: dict[bytes, bytes] = {}
        self._paths: dict[str, Path] = {}
        self._inside = threading.local()
        self._modules = 0
        self._known: Known = {}

    def install(self) -> None:
        """Stand in for `open` and for every decoder of a module that is imported by now."""
        if self._modules == len(sys.modules):
            return
        first, self._modules = not self._modules, len(sys.modules)
        if first:
            builtins.open = io.open = self._opening(builtins.open)
        for decoder in OPENERS:
            patch(decoder, self._known, self._around)
        rebind(self._known)

    def put(self, name: str, content: bytes, other: bytes) -> None:
        """Hand over another file in the place of the one of this name and content."""
        self._instead = {_digest(content): other, _digest(other): other}
        if Path(name).is_absolute():
            twin = self._folder / Path(name).name
            twin.write_bytes(other)
            self._paths = {name: twin}

    def _opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def opening(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if self._paths and isinstance(file, str | bytes | os.PathLike) and not set(mode) & set("wax+"):
                file = self._paths.get(os.path.realpath(os.fsdecode(file)), file)
            return original(file, mode, *arguments, **options)

        return opening

    def _around(self, original: Callable[..., Any], decoder: Decoder) -> Callable[..., Any]:
        @functools.wraps(original)
        def decode(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "busy", False):  # one decoder that calls another one
                return original(*args, **kwargs)
            file = self._hand(decoder.given(args, kwargs), decoder.spelling)
            args, kwargs = decoder.exchanged(args, kwargs, file)
            self._inside.busy = True
            try:
                return original(*args, **kwargs)
            finally:
                self._inside.busy = False

        return decode

    def _hand(self, given: Any, decoder: str) -> Any:
        """What the decoder gets in place of what it was given."""
        by_path = isinstance(given, str | os.PathLike)
        path = _path_of(given if by_path else getattr(given, "name", None))
        content, given = (_mapped(path) if path else None, given) if by_path else _content_of(given)
        if content is None:
            return given
        name = path or _digest(content).hex()
        if name not in [one.name for one in self.handed]:
            self.handed.append(Handed(read_header(content), name, decoder))
            if self.keeps:
                self.contents.append(bytes(content))
        if self.enough is not None and len(self.handed) >= self.enough:
            raise Seen
        other = self._instead.get(_digest(content)) if self._instead else None
        if other is None:
            return given
        self.taken = True
        if not by_path:
            return _in_the_form_of(given, other)
        return str(self._paths.get(path or "", given))


def _path_of(given: Any) -> str | None:
    """The file that a path leads to, if it is one."""
    if not isinstance(given, str | os.PathLike):
        return None
    path = os.path.realpath(os.fsdecode(given))
    return path if Path(path).is_file() else None


def _mapped(path: str) -> Any:
    """The content of a file, read where it is looked at."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) if os.fstat(descriptor).st_size else b""
    finally:
        os.close(descriptor)


def _content_of(given: Any) -> tuple[Any, Any]:
    """The content of an open file, bytes, an array or a tensor, and what to hand over so that it is not lost."""
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given), given
    if isinstance(given, np.ndarray | torch.Tensor):
        whole = given.dtype in (np.uint8, torch.uint8) and max(given.shape, default=0) == np.prod(given.shape)
        return (np.asarray(given).tobytes(), given) if whole else (None, given)
    if not callable(getattr(given, "read", None)):
        return None, given
    try:
        place = given.tell()
        given.seek(0)
        content = given.read()
        given.seek(place)
    except (OSError, AttributeError, ValueError):  # it cannot be wound back
        content = given.read()
        given = io.BytesIO(content)
    return (content, given) if isinstance(content, bytes) else (None, given)


def _in_the_form_of(given: Any, content: bytes) -> Any:
    if isinstance(given, torch.Tensor):
        return torch.frombuffer(bytearray(content), dtype=torch.uint8)
    if isinstance(given, np.ndarray):
        return np.frombuffer(content, np.uint8).copy()
    return content if isinstance(given, bytes | bytearray | memoryview) else io.BytesIO(content)


def _digest(content: Sequence[int] | bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()  # type: ignore[arg-type] # a memory map is a buffer, too
