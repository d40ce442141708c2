"""The headers of sound files: sample rate, channels, depth and length."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from io import BytesIO
from mmap import mmap

from tinytag import TinyTag, TinyTagException

Content = bytes | mmap

_FLOAT = 3
"""The format code of floats in a WAV file (`WAVE_FORMAT_IEEE_FLOAT`)."""
_LEADS = (b"RIFF", b"fLaC", b"OggS", b"FORM", b"ID3")
"""How sound files begin that are not MPEG streams."""


@dataclass(frozen=True, slots=True)
class SoundHeader:
    """A file's format, its sample rate in Hz, channels, bits per value and number of frames.

    `bits` is 0 for compressed formats, and `is_float` says that values are stored as floats.
    """

    format: str
    rate: int
    channels: int
    bits: int
    frames: int
    is_float: bool = False


def read_sound_header(content: Content) -> SoundHeader | None:
    """The header of a sound file; None if the format is unknown or the file damaged."""
    start = bytes(content[:12])
    if not start.startswith(_LEADS) and start[:1] != b"\xff" and start[4:8] != b"ftyp":
        return None  # quickly: most files in a dataset are no sound
    try:
        tag = TinyTag.get(file_obj=BytesIO(content), tags=False)
    except (TinyTagException, struct.error, ValueError, IndexError):
        return None
    if not tag.samplerate or not tag.channels or not tag.duration:
        return None
    name = type(tag).__name__.lstrip("_")
    is_float = start[:4] == b"RIFF" and _code(content) == _FLOAT
    frames = round(tag.duration * tag.samplerate)
    return SoundHeader(name, tag.samplerate, tag.channels, tag.bitdepth or 0, frames, is_float)


def _code(content: Content) -> int:
    """The format code of a WAV file."""
    place = 12
    while place + 8 <= len(content):
        name, length = struct.unpack("<4sI", content[place : place + 8])
        if name == b"fmt ":
            (code,) = struct.unpack("<H", content[place + 8 : place + 10])
            return int(code)
        place += 8 + length + length % 2
    return 0
