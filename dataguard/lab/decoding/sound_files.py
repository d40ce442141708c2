"""Sound files: their headers (sample rate, channels, depth, length), and their values.

Values are read with the libraries that the user's code has imported.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from mmap import mmap
from typing import Any

import numpy as np
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
    offset = 12
    while offset + 8 <= len(content):
        name, length = struct.unpack("<4sI", content[offset : offset + 8])
        if name == b"fmt ":
            (code,) = struct.unpack("<H", content[offset + 8 : offset + 10])
            return int(code)
        offset += 8 + length + length % 2
    return 0


def decoded_sound(content: bytes) -> np.ndarray | None:
    """The values of a file, (frames, channels) from -1 to 1; None if no imported library can read it."""
    for module, read in _READERS.items():
        if module in sys.modules:
            try:
                values = read(sys.modules[module], content)
            except Exception:  # noqa: BLE001 - a damaged file or an old library: try the next one
                continue
            return np.asarray(values, np.float64).reshape(len(values), -1)
    return None


def _by_soundfile(soundfile: Any, content: bytes) -> Any:
    return soundfile.read(BytesIO(content), always_2d=True)[0]


def _by_torchcodec(decoders: Any, content: bytes) -> Any:
    return decoders.AudioDecoder(content).get_all_samples().data.numpy().T


def _by_scipy(wavfile: Any, content: bytes) -> Any:
    values = wavfile.read(BytesIO(content))[1]
    if values.dtype == np.uint8:
        return (values - 128.0) / 128
    return values / float(np.iinfo(values.dtype).max) if values.dtype.kind == "i" else values


def _by_wave(wave: Any, content: bytes) -> Any:
    with wave.open(BytesIO(content)) as file:
        if file.getsampwidth() != 2:
            raise ValueError("only 16 bits")
        values = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return values.reshape(-1, file.getnchannels()) / 32767


_READERS: Mapping[str, Callable[[Any, bytes], Any]] = {
    "soundfile": _by_soundfile,
    "torchcodec.decoders": _by_torchcodec,
    "scipy.io.wavfile": _by_scipy,
    "wave": _by_wave,
}
"""A reader for each library, by module and in order of preference."""
