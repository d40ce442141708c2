"""How a waveform follows the tones of a chart: its sample rate, and how much of each channel it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dataguard.lab.decoding.sound_headers import SoundHeader
from dataguard.lab.sound.tones import amplitude, tones_of

FEWEST = 512
"""The fewest values of a waveform."""
MOST_CHANNELS = 16
_WINDOW = 8192
"""Values that are fitted: half a second at 16 kHz holds 220 periods of the lowest tone."""
_FITS = 0.9
"""The share of the variance that the tones explain in a waveform that holds them."""
_STEPS = 24
"""Steps of the search for the rate; each narrows the interval to 0.62 of its width."""


@dataclass(frozen=True, slots=True)
class WaveformFit:
    """A leaf that holds the tones of a chart of some level.

    `rate` is its sample rate in Hz: the one at which the tones have their pitch. `mix` is, for each channel of the
    leaf, what it holds of each channel of the file: 1 if full scale in the file is 1 in the leaf. `offset` is its mean.
    """

    path: str
    dtype: str
    rate: float
    mix: tuple[tuple[float, ...], ...]
    offset: float

    @property
    def full_scale(self) -> float:
        """What full scale in all channels of the file becomes, in the channel of the leaf with the most."""
        return max(sum(row) for row in self.mix)

    @property
    def is_float(self) -> bool:
        """Whether values are floats; integers are raw, and scaled later."""
        return "float" in self.dtype


def channels_of(values: np.ndarray) -> np.ndarray | None:
    """The channels of a waveform, or of several such as stems, (channels, values); None for a leaf of another shape."""
    length = max(values.shape, default=0)
    if length < FEWEST or values.size > MOST_CHANNELS * length:
        return None
    return np.moveaxis(values, values.shape.index(length), -1).reshape(-1, length)


def following_rows(silence: np.ndarray, values: np.ndarray) -> np.ndarray | None:
    """Which channels differ from those for silence, if not all do: the others hold the sound of other files."""
    quiet, rows = channels_of(silence), channels_of(values)
    if quiet is None or rows is None or quiet.shape != rows.shape:
        return None
    moved = (rows != quiet).any(1)
    return None if moved.all() else np.asarray(moved)


def fit_waveform(path: str, values: np.ndarray, header: SoundHeader, level: float) -> WaveformFit | None:
    """How a leaf follows a chart of this level for this file; None if it is no waveform that holds its tones."""
    rows = channels_of(values)
    if rows is None or not np.isfinite(rows).all():
        return None
    rows = _without_padding(rows.astype(np.float64))
    if rows is None:
        return None
    loudest = rows[np.argmax(rows.std(1))]
    channels = tones_of(header.rate, header.channels)
    tones = sorted({tone for own in channels for tone in own})
    found = _rate(loudest, tones)
    if found is None:
        return None
    rate = float(found)
    mix = []
    for row in rows:
        parts, _ = _parts(row, tones, rate)
        held = dict(zip(tones, parts, strict=True))
        mix.append(
            tuple(
                float(np.mean([held[tone] for tone in own])) / (level * amplitude(header, channel)) if own else 0.0
                for channel, own in enumerate(channels)
            )
        )
    return WaveformFit(path, str(values.dtype), rate, tuple(mix), float(loudest.mean()))


def extremes(values: np.ndarray) -> tuple[float, float] | None:
    """The share of values at the ends of the range, and the largest step between two values as a share of the range.

    Both are small for tones: the first one is large where they are clipped, the second where they overflow. None for a
    leaf that is no waveform.
    """
    rows = channels_of(values)
    row = None if rows is None else rows[np.argmax(rows.std(1))].astype(np.float64)
    if row is None or not np.ptp(row):
        return None
    margin = 1e-6 * np.ptp(row)
    return float(((row > row.max() - margin) | (row < row.min() + margin)).mean()), float(
        np.abs(np.diff(row)).max() / np.ptp(row)
    )


def joined_as(values: np.ndarray, header: SoundHeader, level: float) -> str | None:
    """How the channels of a file became one: "interleaved" or "one after the other"; None if they did not."""
    rows = channels_of(values)
    if rows is None or len(rows) > 1 or header.channels < 2:
        return None
    row = rows[0]
    half = len(row) // 2
    for name, parts in (("one after the other", (row[:half], row[half:])), ("interleaved", (row[::2], row[1::2]))):
        fits = [fit_waveform("", part, header, level) for part in parts]
        held = {int(np.argmax(fit.mix[0])) for fit in fits if fit and _holds_one(fit.mix[0])}
        if all(fits) and len(held) == 2:
            return name
    return None


def _holds_one(mix: Sequence[float]) -> bool:
    """Whether a channel of the file is ten times stronger than any other."""
    first, second, *_ = sorted(mix, reverse=True)
    return first > 10 * second


def _without_padding(rows: np.ndarray) -> np.ndarray | None:
    """The values between the first and the last that differ from the ends, where silence may have been added."""
    moves = (rows != rows[:, -1:]).any(0) & (rows != rows[:, :1]).any(0)
    heard = np.flatnonzero(moves)
    if len(heard) < FEWEST:
        return None
    return rows[:, heard[0] : heard[-1] + 1]


def _rate(row: np.ndarray, tones: Sequence[float]) -> float | None:
    """The rate at which the strongest tones have a pitch of the chart, to about 1e-5; None if none does."""
    part = row[: 1 << 16]
    spectrum = np.abs(np.fft.rfft((part - part.mean()) * np.hanning(len(part))))
    peaks = [bin_ for bin_ in np.argsort(-spectrum)[:24] if _is_peak(spectrum, int(bin_))][:3]
    candidates = [tone * len(part) / _refined(spectrum, int(bin_)) for bin_ in peaks for tone in tones]
    if not candidates:
        return None
    short = row[:2048]
    rate = max(candidates, key=lambda rate: _parts(short, tones, rate)[1])
    for window in (2048, _WINDOW):  # the longer the window, the narrower the peak, which must be found first
        width = 0.5 / window * rate / min(tones)
        rate = _narrowed(row[:window], tones, rate * (1 - width), rate * (1 + width))
    return rate if _parts(row[:_WINDOW], tones, rate)[1] >= _FITS else None


def _is_peak(spectrum: np.ndarray, bin_: int) -> bool:
    return 0 < bin_ < len(spectrum) - 1 and spectrum[bin_] >= max(spectrum[bin_ - 1], spectrum[bin_ + 1])


def _refined(spectrum: np.ndarray, bin_: int) -> float:
    """The place of a peak between bins: the top of a parabola through the logarithms."""
    left, middle, right = np.log(spectrum[bin_ - 1 : bin_ + 2] + 1e-30)
    curvature = left - 2 * middle + right
    return bin_ + (0.5 * (left - right) / curvature if curvature else 0.0)


def _narrowed(row: np.ndarray, tones: Sequence[float], low: float, high: float) -> float:
    """The rate between two others that explains the most, by golden section."""
    share = (5**0.5 - 1) / 2
    left, right = high - share * (high - low), low + share * (high - low)
    at_left, at_right = (_parts(row, tones, rate)[1] for rate in (left, right))
    for _ in range(_STEPS):
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - share * (high - low)
            at_left = _parts(row, tones, left)[1]
        else:
            low, left, at_left = left, right, at_right
            right = low + share * (high - low)
            at_right = _parts(row, tones, right)[1]
    return (low + high) / 2


def _parts(row: np.ndarray, tones: Sequence[float], rate: float) -> tuple[np.ndarray, float]:
    """The amplitude of each tone at this rate, and the share of the variance that all explain."""
    row = row[:_WINDOW]
    times = 2 * np.pi * np.arange(len(row)) / rate
    waves = [wave(tone * times) for tone in tones for wave in (np.sin, np.cos)]
    table = np.stack([*waves, np.ones(len(row))], 1)
    found, *_ = np.linalg.lstsq(table.T @ table, table.T @ row, rcond=None)
    left = row - table @ found
    variance = float(((row - row.mean()) ** 2).sum())
    amplitudes = np.hypot(found[:-1:2], found[1:-1:2])
    return amplitudes, 1 - float((left**2).sum()) / variance if variance else 0.0
