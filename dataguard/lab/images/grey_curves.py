"""How the pixels of a sample follow greys from black to white, under one random state: where integers wrap round.

Under one random state, each pixel of a chart is a function of its grey, whatever crops, noise or brightness are drawn.
A value that exceeds its integer type starts again at the other end of the range: the function is no longer monotonic,
and is so again once a period is added from there on. Solarization and inversion change the slope instead, and
posterization is monotonic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.core.model import Location, NotApplicable
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.records import Index
from dataguard.lab.culprit.line_trace import numbered
from dataguard.lab.images.chart_fit import pixels_of
from dataguard.lab.images.chart_reader import DRAW_SECONDS, IMAGE_TRIES, ColourChartReader
from dataguard.lab.reading.sample_reader import Rooted
from dataguard.process.process_tree import undisturbed_seconds
from dataguard.targets.variants import Loader

GREYS = (0, 4, 64, 128, 192, 255)
"""Greys of each draw: a sum that wraps round shows at an end of the range, a product in between, and what makes nearly
all pixels white does so with nearly black ones."""
FINE_GREYS = (*range(8), *range(8, 248, 8), *range(248, 256))
"""Greys of a draw whose pixels do not follow monotonically: single steps at the ends, where small sums wrap round."""
MOST_DRAWS, FEWEST_DRAWS, FINE_DRAWS = 16, 2, 3
"""Draws, one of which runs a step of probability 0.2 in 97 of 100 cases, and those of evaluation, which should not
vary; and draws that do not follow, which are read again with fine greys."""
FEWEST_READS = FEWEST_DRAWS * len(GREYS)
"""Reads of the fewest draws: most follow, and are not read again with fine greys."""
LEAST_WRAPPED = 0.01
"""The smallest share of values that count as wrapped: noise at white wraps half of them, dead pixels are fewer."""
_MOST_WRAPS = 3
"""The most periods in one curve: gains of 4 and more are no augmentation, but take bits apart."""
_PERIOD_ERROR, _SLOPE_RATIO = 0.05, 3.0
"""How far periods of one curve may differ, or be less than the extent of all values, and how much steeper it may be on
one side of a jump than on the other: greys are rounded, and gamma bends a curve."""
_JUMP = 10
"""How many times further two greys are apart where one of them has wrapped: greys of one step, up to 8, become 248 and
more, and a change of contrast is less than fourfold."""
_STEP = 1e-3
"""A change that counts, as a share of the range of a leaf: one step of 8 bits is 4e-3."""
_FOLLOWING = 0.25
"""The share of pixels that must change with the grey for a draw to count: the rest may be padding."""
_GRADED = 0.5
"""The share of values that differ between all greys in a draw that does not saturate."""

_MOST_CURVES = 400
"""Pixels whose curves are looked at, evenly spaced among those that rise and fall: a limit of time."""

Curves = Mapping[str, np.ndarray]
"""The values of each leaf, (greys, pixels, channels) of float64, by path."""
Ranges = Mapping[str, np.ndarray]
"""The smallest and the largest value in each channel of a leaf, (2, channels), by path."""


@dataclass(frozen=True, slots=True)
class WrappedPixels:
    """Values of a leaf that fall back by a whole period: their share, and greys around the fall with their values."""

    path: str
    draw: int
    share: float
    before: tuple[int, float]
    after: tuple[int, float]


@dataclass(frozen=True, slots=True)
class SaturatedDraw:
    """A draw in which all greys but black become one extreme of a leaf, and the share of it in the real sample then.

    `usual` is that share in a draw that separates greys; `draws` counts those that do not.
    """

    path: str
    draws: int
    extreme: float
    share: float
    usual: float


@dataclass(frozen=True, slots=True)
class GreyCurves(Rooted):
    """How a sample follows greys; `source` names where images were replaced. `leaves` counts those that follow."""

    source: str
    index: Index
    collated: bool
    leaves: int
    draws: int
    reads: int
    wrapped: tuple[WrappedPixels, ...]
    saturated: tuple[SaturatedDraw, ...]

    @property
    def exercised(self) -> dict[str, int]:
        """How much was inspected."""
        return {"charts": self.reads, "draws": self.draws, "leaves": self.leaves}


def wrapping_line(
    build: Callable[..., Loader],
    folder: Path,
    curves: GreyCurves,
    *,
    batched: bool,
    decoded_before: bool,
) -> Location | None:
    """The line of the user's code after which two close greys are far apart, in this disposable process."""
    indices = () if curves.index is None else (curves.index,)
    reader = ColourChartReader(build, folder, indices, batched=batched, tries=IMAGE_TRIES)
    if not reader.finds_an_image(decoded_before=decoded_before):
        return None
    wrap = curves.wrapped[0]
    lower, upper = (reader.followed((grey, grey, grey), wrap.draw).looks for grey, _ in (wrap.before, wrap.after))
    uppers, first = numbered(upper), 0.0
    for key, look in numbered(lower).items():
        if key in uppers:
            state: Any = look.state
            other: Any = uppers[key].state
            apart = max((abs(high - low) for low, high in zip(state[0], other[0], strict=False)), default=0.0)
            first = first or apart
            if apart > _JUMP * first:
                return look.location
    return None


def read_curves(
    build: Callable[..., Loader],
    folder: Path,
    indices: Sequence[Index],
    *,
    batched: bool,
    decoded_before: bool,
    unread: bool = False,
    most: int = MOST_DRAWS,
) -> GreyCurves:
    """Read one sample with grey charts, in this disposable process, in at most so many draws."""
    reader = ColourChartReader(build, folder, indices, batched=batched, tries=IMAGE_TRIES)
    reader.require_an_image(decoded_before=decoded_before, unread=unread)
    reader.keep_sample()
    curves, started = [], undisturbed_seconds()
    for draw in range(most):
        curves.append(_curves(reader, draw, GREYS))
        if draw and undisturbed_seconds() - started > DRAW_SECONDS:
            break
    ranges = _ranges(curves)
    if not ranges:
        raise NotApplicable("nothing in the sample follows the brightness of its image")
    broken = [draw for draw, values in enumerate(curves) if any(_breaks(values, ranges))][:FINE_DRAWS]
    fine = 0
    wrapped: tuple[WrappedPixels, ...] = ()
    for draw in broken:
        fine += len(FINE_GREYS)
        wrapped = tuple(_wrapped(_curves(reader, draw, FINE_GREYS), ranges, draw))
        if wrapped:
            break
    return GreyCurves(
        source=reader.source,
        index=reader.index,
        collated=reader.collated,
        leaves=len(ranges),
        draws=len(curves),
        reads=len(curves) * len(GREYS) + fine,
        wrapped=wrapped,
        saturated=tuple(_saturated(reader, curves, ranges)),
    )


def _curves(reader: ColourChartReader, draw: int, greys: Sequence[int]) -> Curves:
    """The values of a sample for each grey; without leaves whose shape depends on the grey."""
    samples = [reader.measured((grey, grey, grey), draw, _values) or {} for grey in greys]
    shapes = Counter((path, values.shape) for sample in samples for path, values in sample.items())
    return {
        path: np.stack([sample[path] for sample in samples])
        for (path, _), count in shapes.items()
        if count == len(greys)
    }


def _values(sample: Any, bands: int) -> dict[str, np.ndarray]:
    leaves = ((path, pixels_of(leaf, bands)) for path, leaf in iter_leaves(sample))
    return {path: pixels.astype(np.float64) for path, pixels in leaves if pixels is not None}


def _ranges(curves: Sequence[Curves]) -> Ranges:
    """The extremes of the channels of leaves all of which change with the grey."""
    ranges = {}
    for path in dict.fromkeys(path for values in curves for path in values):
        channels = Counter(values[path].shape[-1] for values in curves if path in values)
        found = [values[path] for values in curves if path in values and values[path].shape[-1] == max(channels)]
        ends = np.array([[each.min((0, 1)), each.max((0, 1))] for each in found])
        low, high = ends[:, 0].min(0), ends[:, 1].max(0)
        if np.isfinite([low, high]).all() and any((np.ptp(each, axis=0) > 0).any(0).all() for each in found):
            ranges[path] = np.array([low, high])
    return ranges


def _breaks(curves: Curves, ranges: Ranges) -> Iterator[bool]:
    """Whether enough values of a leaf both rise and fall."""
    for path, (low, high) in ranges.items():
        if path in curves:
            yield float(_turning(curves[path], low, high).mean()) >= LEAST_WRAPPED


def _turning(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Which values both rise and fall from black to white."""
    steps = np.diff(values, axis=0) / (high - low)
    turning: np.ndarray = (steps > _STEP).any(0) & (steps < -_STEP).any(0)
    return turning


def _wrapped(curves: Curves, ranges: Ranges, draw: int) -> Iterator[WrappedPixels]:
    for path, (low, high) in ranges.items():
        if path not in curves:
            continue
        turning = _turning(curves[path], low, high)
        places = np.argwhere(turning)
        places = places[:: len(places) // _MOST_CURVES + 1]
        found = [
            (curve, jump)
            for pixel, channel in places
            for curve in [curves[path][:, pixel, channel]]
            if (jump := _jump(curve, float(high[channel] - low[channel]))) is not None
        ]
        share = float(turning.mean()) * len(found) / max(len(places), 1)
        if share >= LEAST_WRAPPED:
            curve, jump = found[len(found) // 2]
            ends = ((FINE_GREYS[at], float(curve[at])) for at in (jump, jump + 1))
            yield WrappedPixels(path, draw, share, *ends)


def _jump(curve: np.ndarray, extent: float) -> int | None:
    """Where a curve falls back by a period after which it continues as before; None if it does not.

    It is a straight or bent line modulo a period that holds all values of its leaf, which have this extent: monotonic,
    and about as steep on both sides of each jump, once the period is added.
    """
    slopes = np.diff(curve) / np.diff(FINE_GREYS)
    if not slopes.any():
        return None
    sign = 1.0 if np.median(slopes[slopes != 0]) > 0 else -1.0
    changes = sign * np.diff(curve)
    jumps = np.flatnonzero(changes < -extent / 2)
    if not 1 <= len(jumps) <= _MOST_WRAPS or jumps[0] == 0 or jumps[-1] == len(changes) - 1:
        return None
    if not set(jumps).isdisjoint(jumps + 1):
        return None
    around = np.sort(np.stack([sign * slopes[jumps - 1], sign * slopes[jumps + 1]]), axis=0)
    if (around[0] <= 0).any() or (around[1] > _SLOPE_RATIO * around[0]).any():
        return None
    periods = around.mean(0) * np.diff(FINE_GREYS)[jumps] - changes[jumps]
    period = float(np.median(periods))
    if np.ptp(periods) > _PERIOD_ERROR * period or period < (1 - _PERIOD_ERROR) * extent:
        return None
    rest = np.delete(changes, jumps)
    return int(jumps[0]) if (rest >= -_STEP * extent).all() else None


def _saturated(reader: ColourChartReader, curves: Sequence[Curves], ranges: Ranges) -> Iterator[SaturatedDraw]:
    """Leaves of which some draws make one extreme of all greys but black, while others tell them apart."""
    for path, extremes in ranges.items():
        drawn = {draw: _following(values[path]) for draw, values in enumerate(curves) if path in values}
        graded = [draw for draw, values in drawn.items() if _graded(values) > _GRADED]
        for extreme in extremes:
            full = [draw for draw, values in drawn.items() if _share_of(values[1:], extreme) > 1 - LEAST_WRAPPED]
            if graded and full:
                real = [reader.measured(None, draw, _values) or {} for draw in (full[0], graded[0])]
                share, usual = (_share_of(sample.get(path), extreme) for sample in real)
                yield SaturatedDraw(path, len(full), float(extreme[0]), share, usual)


def _following(values: np.ndarray) -> np.ndarray:
    """The pixels that change with the grey, (greys, pixels, channels), without padding; none if they are few."""
    following = (np.ptp(values, axis=0) > 0).all(-1)
    return values[:, following] if following.mean() >= _FOLLOWING else values[:, :0]


def _graded(values: np.ndarray) -> float:
    """The share of values that differ between all greys."""
    return float((np.diff(np.sort(values, axis=0), axis=0) > 0).all(0).mean()) if values.size else 0.0


def _share_of(values: np.ndarray | None, extreme: np.ndarray) -> float:
    """The share of values that are the extreme of their channel, as far as float16 shows."""
    if values is None or not values.size or values.shape[-1] != len(extreme):
        return 0.0
    return float(np.isclose(values, extreme, rtol=1e-3, atol=1e-6).mean())
