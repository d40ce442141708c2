"""Records the files that are passed to decoders of images or sound, and replaces some of them.

A file is identified by its content, whether it is passed as a path, an open file, bytes, an array or a tensor. `open`
is patched as well, because some projects read EXIF data with another library.
"""

from __future__ import annotations

import builtins
import functools
import io
import mmap
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from dataguard.lab.decoding.decoders import Decoder, Gives, Patched, giving, patch
from dataguard.lab.decoding.encoded_content import content_of, digest_of, in_the_type_of
from dataguard.lab.decoding.image_headers import Content, Header, read_header
from dataguard.lab.decoding.sound_headers import SoundHeader, read_sound_header
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
    of them, `EnoughFiles` is raised. `substitute` replaces a file; `substituted` says whether that one was decoded, and
    `by_path` whether the decoder got its path, so that nothing need open the file itself.
    """

    def __init__(self, folder: Path, media: Media[H]) -> None:
        self.files: list[DecodedFile[H]] = []
        self._media = media
        self.contents: list[bytes] = []
        self.keeps = False
        self.enough: int | None = None
        self.substituted = False
        self.by_path = False
        self._original = b""
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
        """Replace the file with this name and content by another one."""
        self._original = content
        self._replacements = {digest_of(content): other, digest_of(other): other}
        if Path(name).is_absolute():
            copy = self._folder / Path(name).name
            copy.write_bytes(other)
            self._paths = {name: copy}

    def _opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def opening(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if self._paths and isinstance(file, str | bytes | os.PathLike) and not set(mode) & set("wax+"):
                file = self._paths.get(os.path.realpath(os.fsdecode(file)), file)
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
        if name not in [one.name for one in self.files]:
            self.files.append(DecodedFile(self._media.read_header(content), name))
            if self.keeps:
                self.contents.append(bytes(content))
        if self.enough is not None and len(self.files) >= self.enough:
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
        return self._original if path in self._paths else _mapped(path)


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
