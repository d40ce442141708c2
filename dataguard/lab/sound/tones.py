"""Sound charts: tones of known pitch and level in each channel, as files like the user's."""

from __future__ import annotations

import struct

import numpy as np

from dataguard.lab.decoding.sound_headers import SoundHeader

TONES = (440.0, 640.0, 930.0, 1350.0, 1970.0, 2860.0)
"""The pitches in Hz, all within what a telephone transmits; none is close to a multiple of another one."""
LONGEST, SHORTEST = 30.0, 0.25
"""The duration of a chart in seconds: that of the file within these limits."""
_HIGHEST = 0.45
"""The highest tone as a share of the sample rate: resampling attenuates what is close to half of it."""


def tones_of(rate: float, channels: int) -> list[tuple[float, ...]]:
    """The pitches in each channel: no two channels share one, unless there are more channels than tones."""
    audible = [tone for tone in TONES if tone < _HIGHEST * rate]
    return [tuple(audible[channel % len(TONES) :: min(channels, len(TONES))]) for channel in range(channels)]


def chart(header: SoundHeader, level: float) -> np.ndarray:
    """Steady tones, (frames, channels) of float64; the largest value of each channel is `level`, 1 at full scale."""
    frames = min(max(header.frames, round(SHORTEST * header.rate)), round(LONGEST * header.rate))
    times = np.arange(frames) / header.rate
    values = np.zeros((frames, header.channels))
    for channel, tones in enumerate(tones_of(header.rate, header.channels)):
        values[:, channel] = sum(np.sin(2 * np.pi * tone * times + 0.7 * order) for order, tone in enumerate(tones))
    peaks = np.abs(values).max(0)
    return level * values / np.where(peaks > 0, peaks, 1)


def amplitude(header: SoundHeader, channel: int) -> float:
    """The amplitude of each tone of a channel in a chart of level 1."""
    loud = chart(header, 1.0)[:, channel]
    tones = tones_of(header.rate, header.channels)[channel]
    times = 2 * np.pi * np.arange(len(loud)) / header.rate
    waves = np.stack([wave(tone * times) for tone in tones for wave in (np.sin, np.cos)], 1)
    parts, *_ = np.linalg.lstsq(waves[:8192], loud[:8192], rcond=None)
    return float(np.hypot(parts[::2], parts[1::2]).mean())


def wav(values: np.ndarray, rate: int, header: SoundHeader) -> bytes:
    """A WAV file of values, (frames, channels), of the depth that the header names, otherwise of 16 bits."""
    bits = header.bits if header.format == "Wave" and header.bits in (8, 16, 24, 32) else 16
    channels = values.shape[1]
    if header.is_float and bits == 32:
        code, data = 3, values.astype("<f4").tobytes()
    else:
        code, data = 1, _integers(values, bits)
    width = bits // 8 * channels
    described = struct.pack("<HHIIHH", code, channels, rate, rate * width, width, bits)
    parts = ((b"fmt ", described), (b"data", data))
    body = b"WAVE" + b"".join(name + struct.pack("<I", len(part)) + part + bytes(len(part) % 2) for name, part in parts)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _integers(values: np.ndarray, bits: int) -> bytes:
    """Values from -1 to 1 as little-endian integers; those of 8 bits are unsigned."""
    whole = np.round(values * (2 ** (bits - 1) - 1))
    if bits == 8:
        return bytes((whole + 128).astype(np.uint8))
    if bits == 24:
        return bytes(np.ascontiguousarray(whole.astype("<i4").reshape(-1, 1).view(np.uint8)[:, :3]))
    return bytes(whole.astype(f"<i{bits // 8}"))
