"""How a spectrogram follows the tones of a chart: the bins of the tones, its frequency scale, and its level.

A steady tone fills one bin of each frame and, weaker, its neighbours. Whether values are logarithms, powers or
magnitudes shows in how they answer to another level of the same tones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

FEWEST_BINS, FEWEST_FRAMES = 20, 4
MOST_BINS = 4200
LOUDER = 4.0
"""The ratio of the levels of the two charts that are compared."""
_NEAR = 0.25
"""How far values may be off the ratio that a power or a magnitude has."""
_FAINT = 0.01
"""Peaks below this share of the highest power are no tones."""
_OFF = 0.6
"""How many bins a tone may be off its place on a frequency scale."""
_FEWEST_TONES = 3

Scale = Callable[[np.ndarray], np.ndarray]


def _htk(hertz: np.ndarray) -> np.ndarray:
    return np.asarray(2595 * np.log10(1 + hertz / 700))


def _slaney(hertz: np.ndarray) -> np.ndarray:
    low = 3 * hertz / 200
    return np.asarray(np.where(hertz < 1000, low, 15 + 27 * np.log(np.maximum(hertz, 1e-9) / 1000) / math.log(6.4)))


_SCALES: Mapping[str, Scale] = {"linear": np.asarray, "mel (HTK)": _htk, "mel (Slaney)": _slaney}
"""Frequency scales on which bins are evenly spaced; those of mel filters as torchaudio and librosa define them."""


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
    if any(one is None or one.shape != read[0].shape for one in read):  # type: ignore[union-attr]
        return None
    found = [fit for turned in (False, True) for fit in [_fit(path, *read, tones, turned=turned)] if fit]  # type: ignore[misc,arg-type]
    return max(found, key=lambda fit: (bool(fit.scale), len(fit.peaks)), default=None)


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
    columns = [np.median(one[:, middle], 1) for one in (soft, loud)]
    if np.median(np.abs(loud[:, middle] - columns[1][:, None])) > 0.1 * np.ptp(columns[1]):
        return None  # the tones are steady, so these are no frames
    kind, power = _powers(*columns)
    if not kind:
        return None
    peaks = _peaks(power, len(tones))
    scale, low, high = _scale(power, peaks, tones)
    places = tuple(_top(power, bin_) for bin_ in peaks)
    return SpectrogramFit(
        path,
        str(loud.dtype),
        len(power),
        places,
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
        if abs(ratio / expected - 1) < _NEAR and loud.min() >= 0:
            return kind, loud**exponent
    step = loud[top] - soft[top]
    if step <= 0:
        return "", loud
    return "logarithms", np.exp((loud - loud[top]) * 2 * math.log(LOUDER) / step)


def _peaks(power: np.ndarray, most: int) -> list[int]:
    """The bins of the highest peaks, in order."""
    inner = np.flatnonzero((power[1:-1] > power[:-2]) & (power[1:-1] >= power[2:])) + 1
    clear = [int(bin_) for bin_ in inner if power[bin_] > _FAINT * power.max()]
    return sorted(sorted(clear, key=lambda bin_: -power[bin_])[:most])


def _top(power: np.ndarray, bin_: int) -> float:
    """The place of a tone between the bins of a Fourier transform: the top of a parabola through the logarithms."""
    left, middle, right = np.log(power[bin_ - 1 : bin_ + 2] + 1e-30)
    curvature = left - 2 * middle + right
    return float(bin_ + (0.5 * (left - right) / curvature if curvature else 0.0))


def _between(power: np.ndarray, bin_: int) -> float:
    """The place of a tone between two triangular filters: it moves power from one to the next in proportion."""
    step = 1 if power[bin_ + 1] > power[bin_ - 1] else -1
    return float(bin_ + step * power[bin_ + step] / (power[bin_] + power[bin_ + step]))


def _scale(power: np.ndarray, peaks: Sequence[int], tones: Sequence[float]) -> tuple[str, float, float]:
    """The frequency scale that the peaks fit, and the frequencies in Hz at its ends; empty if they fit none."""
    best = ("", 0.0, 0.0)
    least = _OFF
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


def _assignments(peaks: Sequence[int], tones: Sequence[float]) -> list[list[float]]:
    """Which tones the peaks may be: all of them in order, or those of one channel."""
    sets = [list(tones), *(list(tones[start::2]) for start in (0, 1))]
    return [own for own in sets if len(own) == len(peaks) >= _FEWEST_TONES]


def _inverse(scale: Scale, value: float) -> float:
    """The frequency in Hz at a place of a scale, by bisection; 0 below it."""
    low, high = 0.0, 200_000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float(scale(np.array(middle))) < value else (low, middle)
    return low
