"""Reads sound files with the libraries that the user's code has imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

import numpy as np


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
