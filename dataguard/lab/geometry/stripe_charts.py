"""Charts that tell every pixel where it comes from: stripes across and down, as structured light uses.

Each pixel of a sample shows light or dark in each chart. These bits are the number of the stripe that it was taken
from, in Gray's code, so that a pixel between two stripes is one number off at most. Cropping, flipping, turning and
resizing move the numbers; brightness, contrast and normalization leave them; what is erased or filled has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BITS = 3
STRIPES = 1 << BITS
_SCALE, _SHIFT = STRIPES - 0.6, 0.4
"""Stripes begin off the simple fractions of a side, where a resize would leave an edge as sharp as it was."""
CHARTS = 2 * BITS + 1
"""Stripes across, stripes down, and the first chart turned to its negative: each pixel is light once and dark once."""
COARSE = (0, BITS, 2 * BITS)
"""The charts of two halves."""
GRID = 64
"""Points of a leaf that are looked at along each side, spread evenly over it."""
BLOCKS = 6
_CONTRAST = 0.3
"""The share of the usual difference between light and dark that a pixel must show to be read."""
_EDGE = 0.04
"""How far the edge of a leaf may lie from that of the picture, to count as there."""
_KNOWN = 0.15
"""The share of points at least that two leaves must both tell."""

Ends = tuple[float, float]
"""Two values of a map, the smaller one first."""
Field = np.ndarray
"""Where the points of a leaf come from, (GRID, GRID, 2): x and y as shares of the picture, NaN where it is unknown."""


def pattern(chart: int, height: int, width: int, *, negative: bool = False) -> np.ndarray:
    """Where a chart of this size is light, (height, width)."""
    across = chart < BITS or chart == 2 * BITS
    length = width if across else height
    stripe = ((np.arange(length) + 0.5) * _SCALE / length + _SHIFT).astype(int)
    light = ((stripe ^ (stripe >> 1)) >> (BITS - 1 - chart % BITS)) & 1 == 1
    light = light ^ (chart == 2 * BITS) ^ negative
    return np.broadcast_to(light[None, :] if across else light[:, None], (height, width))


def sampled(planes: np.ndarray) -> np.ndarray:
    """The points of a leaf that are looked at: (planes, height, width) to (planes, GRID, GRID)."""
    rows, columns = (
        np.minimum(((np.arange(GRID) + 0.5) * length / GRID).astype(int), length - 1) for length in planes.shape[-2:]
    )
    return np.asarray(planes[..., rows[:, None], columns[None, :]])


def flattened(planes: np.ndarray) -> np.ndarray:
    """One number for each point, in which light and dark differ also where a plane stands for a class."""
    weights = np.arange(1, len(planes) + 1, dtype=np.float64)
    return np.tensordot(weights, planes.astype(np.float64), axes=1)


def located(shots: Sequence[np.ndarray], *, negative: bool = False, ends: Ends | None = None) -> Field | None:
    """Where the points of a leaf come from, as its views of all charts tell, each (GRID, GRID).

    None where nothing is told. `negative` takes light for dark. `ends` are the only values that tell something in a
    map of labels, together with what lies between them.
    """
    stack = np.stack(shots)
    low, high = stack.min(axis=0), stack.max(axis=0)
    contrast = high - low
    if not np.isfinite(contrast).all() or contrast.max() <= 0:
        return None
    usual = np.percentile(contrast[contrast > 0], 95) if ends is None else ends[1] - ends[0]
    known = contrast > _CONTRAST * usual
    middle = (low + high) / 2
    if ends is not None:
        slack = 0.01 * usual
        known &= (low >= ends[0] - slack) & (high <= ends[1] + slack)
        middle = np.full_like(middle, (ends[0] + ends[1]) / 2)
    bits = (stack > middle) ^ negative
    field = np.stack([_number(bits[:BITS]), _number(bits[BITS : 2 * BITS])], axis=-1)
    return np.where(known[..., None], (field + 0.5 - _SHIFT) / _SCALE, np.nan)


def ends_of(shots: Sequence[np.ndarray]) -> Ends | None:
    """The two values that most points of a map show where the charts change it; None where most show others."""
    stack = np.stack(shots)
    values, counts = np.unique(stack[:, np.ptp(stack, axis=0) > 0], return_counts=True)
    if len(values) < 2:
        return None
    leading = np.argsort(-counts)[:2]
    low, high = sorted(float(one) for one in values[leading])
    return (low, high) if counts[leading].sum() > 0.5 * counts.sum() else None


def _number(bits: np.ndarray) -> np.ndarray:
    """The numbers that bits of Gray's code spell, the highest first."""
    number = np.zeros(bits.shape[1:], int)
    running = np.zeros(bits.shape[1:], bool)
    for bit in bits:
        running = running ^ bit
        number = number * 2 + running
    return number


def apart(one: Field, other: Field) -> float | None:
    """How far the sources of the same points lie apart in two leaves, as a share of the picture; None if untold.

    It is averaged over blocks first, so that a point between two stripes does not count.
    """
    difference = one - other
    known = ~np.isnan(difference[..., 0])
    if known.mean() < _KNOWN:
        return None
    places = np.arange(GRID) * BLOCKS // GRID
    block = (places[:, None] * BLOCKS + places[None, :])[known]
    counts = np.bincount(block, minlength=BLOCKS * BLOCKS)
    moved = [np.bincount(block, difference[known][:, axis], minlength=BLOCKS * BLOCKS) for axis in (0, 1)]
    told = counts >= 0.4 * (GRID / BLOCKS) ** 2
    if told.sum() < 3:
        return None
    lengths = np.hypot(moved[0][told] / counts[told], moved[1][told] / counts[told])
    return float(np.average(lengths, weights=counts[told]))


@dataclass(frozen=True, slots=True)
class Pose:
    """How a leaf shows the picture: `x = across[0] * u + across[1] * v + across[2]`, and so `down` for y.

    u and v count from 0 to 1 over the leaf, x and y over the picture.
    """

    across: tuple[float, float, float]
    down: tuple[float, float, float]

    @property
    def words(self) -> str:
        """What happened to the picture, for a reader."""
        (a, b, c), (d, e, f) = self.across, self.down
        straight = abs(b) + abs(d) < 0.15 * (abs(a) + abs(e))
        if not straight:
            turned = abs(a) + abs(e) < 0.15 * (abs(b) + abs(d))
            return "rotated 90 degrees" if turned else "rotated or warped"
        names = ["flipped horizontally"] if a < 0 else []
        names += ["flipped vertically"] if e < 0 else []
        (left, right), (top, bottom) = sorted((c, c + a)), sorted((f, f + e))
        if min(left, top, 1 - right, 1 - bottom) < -_EDGE:
            names.append("padded")
        if max(left, top, 1 - right, 1 - bottom) > _EDGE:
            shown = [f"{100 * max(one, 0):.0f}-{min(two, 1):.0%}" for one, two in ((left, right), (top, bottom))]
            names.append(f"cropped to {shown[0]} of its width and {shown[1]} of its height")
        return " and ".join(names) or "unchanged"


def pose_of(field: Field) -> Pose | None:
    """The straight map that explains where points come from; None where there is none that does."""
    known = ~np.isnan(field[..., 0])
    if known.mean() < _KNOWN:
        return None
    v, u = np.meshgrid(*[(np.arange(GRID) + 0.5) / GRID] * 2, indexing="ij")
    design = np.stack([u[known], v[known], np.ones(int(known.sum()))], axis=-1)
    found, *_ = np.linalg.lstsq(design, field[known], rcond=None)
    rest = field[known] - design @ found
    if np.sqrt((rest**2).mean()) > 0.7 / STRIPES:
        return None
    across, down = (tuple(float(one) for one in found[:, axis]) for axis in (0, 1))
    return Pose(across, down)  # type: ignore[arg-type]


def still() -> Field:
    """Where the points of a leaf come from that shows the whole picture as it was."""
    shots = [flattened(sampled(pattern(chart, GRID, GRID)[None].astype(np.float64))) for chart in range(CHARTS)]
    field = located(shots)
    return np.full((GRID, GRID, 2), np.nan) if field is None else field
