"""Sound charts, and how a waveform or a spectrogram follows them.

A chart is a file like the user's, with steady tones of known pitch and level in each channel. In a waveform, the tones
show the sample rate, and how much of each channel it holds. In a spectrogram, a steady tone fills one bin of each frame
and, weaker, its neighbours: the bins of the tones show the frequency scale. Whether values are logarithms, powers or
magnitudes shows in how they answer to another level of the same tones.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dataguard.lab.decoding.sound_files import SoundHeader

TONES = (440.0, 640.0, 930.0, 1350.0, 1970.0, 2860.0)
"""The pitches in Hz, all within what a telephone transmits; none is close to a multiple of another one."""
LONGEST_CHART, SHORTEST_CHART = 30.0, 0.25
"""The duration of a chart in seconds: that of the file within these limits, of memory, and of the periods that a fit
needs."""
_HIGHEST_SHARE = 0.45
"""The highest tone as a share of the sample rate: resampling attenuates what is close to half of it."""


def tones_of(rate: float, channels: int) -> list[tuple[float, ...]]:
    """The pitches in each channel: no two channels share one, unless there are more channels than tones."""
    audible = [tone for tone in TONES if tone < _HIGHEST_SHARE * rate]
    return [tuple(audible[channel % len(TONES) :: min(channels, len(TONES))]) for channel in range(channels)]


def chart(header: SoundHeader, level: float) -> np.ndarray:
    """Steady tones, (frames, channels) of float64; the largest value of each channel is `level`, 1 at full scale."""
    frames = min(max(header.frames, round(SHORTEST_CHART * header.rate)), round(LONGEST_CHART * header.rate))
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


FEWEST_VALUES = 512
"""The fewest values of a waveform: 14 periods of the lowest tone at 16 kHz."""
_STEADY_SHARE = 0.1
"""How far the frames of steady tones may be apart, as a share of the range of bins, before they count as something
else."""
MOST_CHANNELS = 16
"""More rows of a leaf are those of a spectrogram."""
_FIT_VALUES = 8192
"""Values that are fitted: half a second at 16 kHz holds 220 periods of the lowest tone."""
_FITTED_SHARE = 0.9
"""The share of the variance that the tones explain in a waveform that holds them: noise of a tenth of their power, at
10 dB, is left to augmentation."""
_SEARCH_STEPS = 24
"""Steps of the search for the rate; each narrows the interval to 0.62 of its width, all to 1e-5."""


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
    tones = sorted({tone for channel_tones in channels for tone in channel_tones})
    best_rate = _rate(loudest, tones)
    if best_rate is None:
        return None
    rate = float(best_rate)
    mix = []
    for row in rows:
        parts, _ = _parts(row, tones, rate)
        held = dict(zip(tones, parts, strict=True))
        mix.append(
            tuple(
                float(np.mean([held[tone] for tone in channel_tones])) / (level * amplitude(header, channel))
                if channel_tones
                else 0.0
                for channel, channel_tones in enumerate(channels)
            )
        )
    return WaveformFit(path, str(values.dtype), rate, tuple(mix), float(loudest.mean()))


def channels_of(values: np.ndarray) -> np.ndarray | None:
    """The channels of a waveform, or of several such as stems, (channels, values); None for a leaf of another shape."""
    length = max(values.shape, default=0)
    if length < FEWEST_VALUES or values.size > MOST_CHANNELS * length:
        return None
    return np.moveaxis(values, values.shape.index(length), -1).reshape(-1, length)


def _without_padding(rows: np.ndarray) -> np.ndarray | None:
    """The values between the first and the last that differ from the ends, where silence may have been added."""
    moves = (rows != rows[:, -1:]).any(0) & (rows != rows[:, :1]).any(0)
    heard = np.flatnonzero(moves)
    if len(heard) < FEWEST_VALUES:
        return None
    return rows[:, heard[0] : heard[-1] + 1]


def _rate(row: np.ndarray, tones: Sequence[float]) -> float | None:
    """The rate at which the strongest tones have a pitch of the chart, to about 1e-5; None if none does."""
    part = row[: 1 << 16]
    spectrum = np.abs(np.fft.rfft((part - part.mean()) * np.hanning(len(part))))
    peaks = [bin_ for bin_ in np.argsort(-spectrum)[:24] if _is_peak(spectrum, int(bin_))][:3]
    candidates = [tone * len(part) / _top(spectrum, int(bin_)) for bin_ in peaks for tone in tones]
    if not candidates:
        return None
    short = row[:2048]
    rate = max(candidates, key=lambda rate: _parts(short, tones, rate)[1])
    for window in (2048, _FIT_VALUES):  # the longer the window, the narrower the peak, which must be found first
        width = 0.5 / window * rate / min(tones)
        rate = _narrowed(row[:window], tones, rate * (1 - width), rate * (1 + width))
    return rate if _parts(row[:_FIT_VALUES], tones, rate)[1] >= _FITTED_SHARE else None


def _is_peak(spectrum: np.ndarray, bin_: int) -> bool:
    return 0 < bin_ < len(spectrum) - 1 and spectrum[bin_] >= max(spectrum[bin_ - 1], spectrum[bin_ + 1])


def _narrowed(row: np.ndarray, tones: Sequence[float], low: float, high: float) -> float:
    """The rate between two others that explains the most, by golden section."""
    share = (5**0.5 - 1) / 2
    left, right = high - share * (high - low), low + share * (high - low)
    at_left, at_right = (_parts(row, tones, rate)[1] for rate in (left, right))
    for _ in range(_SEARCH_STEPS):
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
    row = row[:_FIT_VALUES]
    times = 2 * np.pi * np.arange(len(row)) / rate
    waves = [wave(tone * times) for tone in tones for wave in (np.sin, np.cos)]
    table = np.stack([*waves, np.ones(len(row))], 1)
    coefficients, *_ = np.linalg.lstsq(table.T @ table, table.T @ row, rcond=None)
    left = row - table @ coefficients
    variance = float(((row - row.mean()) ** 2).sum())
    amplitudes = np.hypot(coefficients[:-1:2], coefficients[1:-1:2])
    return amplitudes, 1 - float((left**2).sum()) / variance if variance else 0.0


def following_rows(silence: np.ndarray, values: np.ndarray) -> np.ndarray | None:
    """Which channels differ from those for silence, if not all do: the others hold the sound of other files."""
    quiet, rows = channels_of(silence), channels_of(values)
    if quiet is None or rows is None or quiet.shape != rows.shape:
        return None
    moved = (rows != quiet).any(1)
    return None if moved.all() else np.asarray(moved)


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


FEWEST_BINS, FEWEST_FRAMES = 20, 4
"""The least size of a spectrogram: the 13 or so coefficients of MFCCs hold no peaks, and of four frames two are left
between the ends, where tones begin."""
MOST_BINS = 4200
"""The most bins of a frame: a transform of 8,192 values has 4,097."""
LOUDER = 4.0
"""The ratio of the levels of the two charts that are compared: powers then differ by 16, magnitudes by 4."""
_MOST_OFF = 0.6
"""How many bins a tone may be off its place on a frequency scale: half a bin, and some blur."""


@dataclass(frozen=True, slots=True)
class SpectrogramFit:
    """A leaf whose frames hold the tones of a chart as peaks.

    `bins` is the number of bins of a frame, `peaks` are the places of the tones among them, and `values` says whether
    they hold "logarithms", "powers" or "magnitudes". `scale` is the frequency scale that the peaks fit best, empty if
    none does; `low` and `high` are the frequencies in Hz at which the bins begin and end on it. `level` is the value of
    the highest peak for the louder chart, `step` how much lower it is for the softer one.
    """

    path: str
    dtype: str
    bins: int
    peaks: tuple[float, ...]
    values: str
    scale: str
    low: float
    high: float
    level: float
    step: float

    @property
    def rate(self) -> float | None:
        """The sample rate in Hz if bins are evenly spaced from 0 to half of it; otherwise unknown."""
        return 2 * self.high if self.scale == "linear" else None

    def full_scale(self, amplitude: float) -> float | None:
        """What full scale in the file becomes, for tones of this amplitude and Hann windows of all bins.

        Other windows and normalizations change it by less than the number of bins. None for logarithms, whose scale is
        relative, and for bins that are not those of a Fourier transform.
        """
        if self.scale != "linear" or self.values == "logarithms":
            return None
        magnitude = self.level if self.values == "magnitudes" else math.sqrt(self.level)
        return magnitude / (amplitude * (self.bins - 1) / 2)


def fit_spectrogram(
    path: str, silence: np.ndarray, soft: np.ndarray, loud: np.ndarray, tones: Sequence[float]
) -> SpectrogramFit | None:
    """How a leaf follows the tones, read with no sound and at two levels; None if it is no spectrogram of them."""
    read = [_frames(values) for values in (silence, soft, loud)]
    if any(frames is None or frames.shape != read[0].shape for frames in read):  # type: ignore[union-attr]
        return None
    fits = [fit for turned in (False, True) for fit in [_fit(path, *read, tones, turned=turned)] if fit]  # type: ignore[misc,arg-type]
    return max(fits, key=lambda fit: (bool(fit.scale), len(fit.peaks)), default=None)


def _frames(values: np.ndarray) -> np.ndarray | None:
    """The values of one channel, (rows, columns); None for a leaf of another shape."""
    values = values.squeeze()
    if values.ndim == 3 and len(values) <= 16:
        values = values[0]
    big = values.ndim == 2 and min(values.shape) >= FEWEST_FRAMES and max(values.shape) >= FEWEST_BINS
    return values.astype(np.float64) if big and np.isfinite(values).all() else None


def _fit(
    path: str, silence: np.ndarray, soft: np.ndarray, loud: np.ndarray, tones: Sequence[float], *, turned: bool
) -> SpectrogramFit | None:
    """The fit with bins as rows or, `turned`, as columns."""
    if turned:
        silence, soft, loud = silence.T, soft.T, loud.T
    if not FEWEST_BINS <= len(loud) <= MOST_BINS:
        return None
    heard = np.flatnonzero((loud != silence).any(0))  # frames that are no padding
    if len(heard) < FEWEST_FRAMES:
        return None
    middle = heard[len(heard) // 4 : -(len(heard) // 4) or None]
    columns = [np.median(levels[:, middle], 1) for levels in (soft, loud)]
    if np.median(np.abs(loud[:, middle] - columns[1][:, None])) > _STEADY_SHARE * np.ptp(columns[1]):
        return None  # the tones are steady, so these are no frames
    kind, power = _powers(*columns)
    if not kind:
        return None
    peaks = _peaks(power, len(tones))
    scale, low, high = _scale(power, peaks, tones)
    bins = tuple(_top(power, bin_) for bin_ in peaks)
    return SpectrogramFit(
        path,
        str(loud.dtype),
        len(power),
        bins,
        kind,
        scale,
        low,
        high,
        float(columns[1].max()),
        float(columns[1].max() - columns[0].max()),
    )


def _powers(soft: np.ndarray, loud: np.ndarray) -> tuple[str, np.ndarray]:
    """What values are, by how they answer to a louder chart, and the power in each bin."""
    top = int(np.argmax(loud))
    ratio = loud[top] / soft[top] if soft[top] > 0 else 0.0
    for kind, expected, exponent in (("powers", LOUDER**2, 1.0), ("magnitudes", LOUDER, 2.0)):
        if abs(ratio / expected - 1) < _NEAR_RATIO and loud.min() >= 0:
            return kind, loud**exponent
    step = loud[top] - soft[top]
    if step <= 0:
        return "", loud
    return "logarithms", np.exp((loud - loud[top]) * 2 * math.log(LOUDER) / step)


_NEAR_RATIO = 0.25
"""How far values may be off the ratio that a power or a magnitude has: 12 to 20, and 3 to 5, which do not meet."""


def _peaks(power: np.ndarray, most: int) -> list[int]:
    """The bins of the highest peaks, in order."""
    inner = np.flatnonzero((power[1:-1] > power[:-2]) & (power[1:-1] >= power[2:])) + 1
    clear = [int(bin_) for bin_ in inner if power[bin_] > _FAINT_SHARE * power.max()]
    return sorted(sorted(clear, key=lambda bin_: -power[bin_])[:most])


_FAINT_SHARE = 0.01
"""Peaks below this share of the highest power, by 20 dB, are no tones: the side lobes of a Hann window are 31 dB
lower."""


def _top(power: np.ndarray, bin_: int) -> float:
    """The place of a tone between the bins of a Fourier transform: the top of a parabola through the logarithms."""
    left, middle, right = np.log(power[bin_ - 1 : bin_ + 2] + 1e-30)
    curvature = left - 2 * middle + right
    return float(bin_ + (0.5 * (left - right) / curvature if curvature else 0.0))


Scale = Callable[[np.ndarray], np.ndarray]


def _htk(hertz: np.ndarray) -> np.ndarray:
    return np.asarray(2595 * np.log10(1 + hertz / 700))


def _slaney(hertz: np.ndarray) -> np.ndarray:
    low = 3 * hertz / 200
    return np.asarray(np.where(hertz < 1000, low, 15 + 27 * np.log(np.maximum(hertz, 1e-9) / 1000) / math.log(6.4)))


_SCALES: Mapping[str, Scale] = {"linear": np.asarray, "mel (HTK)": _htk, "mel (Slaney)": _slaney}
"""Frequency scales on which bins are evenly spaced; those of mel filters as torchaudio and librosa define them."""


def _scale(power: np.ndarray, peaks: Sequence[int], tones: Sequence[float]) -> tuple[str, float, float]:
    """The frequency scale that the peaks fit, and the frequencies in Hz at its ends; empty if they fit none."""
    best = ("", 0.0, 0.0)
    least = _MOST_OFF
    for name, scale in _SCALES.items():
        for chosen in _assignments(peaks, tones):
            places = scale(np.array(chosen))
            if name == "linear":  # from 0 Hz in the first bin to half of the sample rate in the last one
                at = np.array([_top(power, bin_) for bin_ in peaks])
                slope, start = float(places @ at / (places @ places)), 0.0
                ends = (0.0, len(power) - 1.0)
            else:  # the first and the last filter begin and end one bin beyond
                at = np.array([_between(power, bin_) for bin_ in peaks])
                slope, start = np.polyfit(places, at, 1)
                ends = (-1.0, float(len(power)))
            off = float(np.abs(slope * places + start - at).max())
            if slope > 0 and off < least:
                low, high = (_inverse(scale, (end - start) / slope) for end in ends)
                best, least = (name, low, high), off
    return best


def _between(power: np.ndarray, bin_: int) -> float:
    """The place of a tone between two triangular filters: it moves power from one to the next in proportion."""
    step = 1 if power[bin_ + 1] > power[bin_ - 1] else -1
    return float(bin_ + step * power[bin_ + step] / (power[bin_] + power[bin_ + step]))


def _assignments(peaks: Sequence[int], tones: Sequence[float]) -> list[list[float]]:
    """Which tones the peaks may be: all of them in order, or those of one channel."""
    sets = [list(tones), *(list(tones[start::2]) for start in (0, 1))]
    return [tone_set for tone_set in sets if len(tone_set) == len(peaks) >= _FEWEST_TONES]


_FEWEST_TONES = 3
"""Tones that fit a scale if it is the right one: two fit any."""


def _inverse(scale: Scale, value: float) -> float:
    """The frequency in Hz at a place of a scale, by bisection; 0 below it."""
    low, high = 0.0, 200_000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float(scale(np.array(middle))) < value else (low, middle)
    return low
