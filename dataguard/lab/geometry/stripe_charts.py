"""Charts that encode the position of every pixel: vertical and horizontal stripes, as in structured light.

Each pixel of a sample is light or dark in each chart. These bits are the number of its stripe in Gray code, so that a
pixel between two stripes is off by one at most. Cropping, flipping, rotating and resizing move the numbers; brightness,
contrast and normalization do not change them; erased or filled pixels have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BITS = 3
STRIPES = 1 << BITS
_SCALE, _SHIFT = STRIPES - 0.6, 0.4
"""Stripes start off the simple fractions of a side, where a resize would keep edges sharp."""
CHARTS = 2 * BITS + 1
"""Vertical stripes, horizontal stripes, and the negative of the first chart: each pixel is light once and dark once."""
COARSE = (0, BITS, 2 * BITS)
"""The charts with two halves."""
GRID = 64
"""Points of a leaf that are sampled along each side, evenly spaced."""
BLOCKS = 6
_CONTRAST = 0.3
"""The share of the usual contrast between light and dark that a pixel needs to be decoded."""
_FULL, _OTHER, _NOISE = 0.9, 0.25, 8
"""The share of the usual contrast at which a pixel shows nothing but the chart. Another image is visible if the darkest
values of blocks vary by more than this share, and by so many standard errors."""
_EDGE = 0.04
"""How far the edge of a leaf may be from that of the image to count as the same edge."""
_KNOWN = 0.15
"""The smallest share of points that must be known in a leaf, or in two that are compared."""

LabelPair = tuple[float, float]
"""Two values of a mask, the smaller one first."""
Field = np.ndarray
"""The source positions of the points of a leaf, (GRID, GRID, 2): x and y as shares of the image, NaN if unknown."""


def pattern(chart: int, height: int, width: int, *, negative: bool = False) -> np.ndarray:
    """Where a chart of this size is light: bool, (height, width)."""
    across = chart < BITS or chart == 2 * BITS
    length = width if across else height
    stripe = ((np.arange(length) + 0.5) * _SCALE / length + _SHIFT).astype(int)
    light = ((stripe ^ (stripe >> 1)) >> (BITS - 1 - chart % BITS)) & 1 == 1
    light = light ^ (chart == 2 * BITS) ^ negative
    return np.broadcast_to(light[None, :] if across else light[:, None], (height, width))


def sampled(planes: np.ndarray) -> np.ndarray:
    """Samples the points of a leaf: (planes, height, width) to (planes, GRID, GRID)."""
    rows, columns = (
        np.minimum(((np.arange(GRID) + 0.5) * length / GRID).astype(int), length - 1) for length in planes.shape[-2:]
    )
    return np.asarray(planes[..., rows[:, None], columns[None, :]])


def flattened(planes: np.ndarray) -> np.ndarray:
    """One number per point, in which light and dark differ even if each plane is a class."""
    weights = np.arange(1, len(planes) + 1, dtype=np.float64)
    return np.tensordot(weights, planes.astype(np.float64), axes=1)


def located(views: Sequence[np.ndarray], *, negative: bool = False, labels: LabelPair | None = None) -> Field | None:
    """The source positions of the points of a leaf, decoded from its views of all charts, each (GRID, GRID).

    None if no point can be decoded. `negative` swaps light and dark. In a label mask, only points with values from the
    smaller to the larger of the two `labels` count.
    """
    stack = np.stack(views)
    low, high = stack.min(axis=0), stack.max(axis=0)
    contrast = high - low
    if not np.isfinite(contrast).all() or contrast.max() <= 0:
        return None
    usual = np.percentile(contrast[contrast > 0], 95) if labels is None else labels[1] - labels[0]
    known = contrast > _CONTRAST * usual
    middle = (low + high) / 2
    if labels is not None:
        slack = 0.01 * usual
        known &= (low >= labels[0] - slack) & (high <= labels[1] + slack)
        middle = np.full_like(middle, (labels[0] + labels[1]) / 2)
    bits = (stack > middle) ^ negative
    field = np.stack([_number(bits[:BITS]), _number(bits[BITS : 2 * BITS])], axis=-1)
    return np.where(known[..., None], (field + 0.5 - _SHIFT) / _SCALE, np.nan)


def extent(views: Sequence[np.ndarray]) -> tuple[np.ndarray, bool]:
    """The rectangle of a leaf that charts change, and whether something else than the chart is visible in it.

    The rectangle is (1, 4), x and y of two corners as shares of the leaf. Noise and constant fillings are nothing else:
    blocks have the same median.
    """
    stack = np.stack(views)
    low, contrast = stack.min(axis=0), np.ptp(stack, axis=0)
    usual = np.percentile(contrast[contrast > 0], 95)
    known = contrast > _CONTRAST * usual
    rows, columns = (np.flatnonzero(known.any(axis=axis)) for axis in (1, 0))
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    holds_more = False
    for part in (contrast > _FULL * usual, ~known):
        inside = np.where(part, low, np.nan)[top:bottom, left:right]
        rows_of_blocks = np.array_split(inside, 2 * BLOCKS)
        blocks = [block for row in rows_of_blocks for block in np.array_split(row, 2 * BLOCKS, axis=1)]
        values = [block[~np.isnan(block)] for block in blocks]
        values = [block for block in values if len(block) > _CONTRAST * inside.size / len(blocks)]
        if values:
            noise = np.mean([block.std() / np.sqrt(len(block)) for block in values])
            holds_more |= bool(np.ptp([np.median(block) for block in values]) > _OTHER * usual + _NOISE * noise)
    return np.array([[left, top, right, bottom]]) / GRID, holds_more


def label_pair_of(views: Sequence[np.ndarray]) -> LabelPair | None:
    """The two most common values of a mask where the charts change it; None unless most points have one of them."""
    stack = np.stack(views)
    values, counts = np.unique(stack[:, np.ptp(stack, axis=0) > 0], return_counts=True)
    if len(values) < 2:
        return None
    leading = np.argsort(-counts)[:2]
    low, high = sorted(float(one) for one in values[leading])
    return (low, high) if counts[leading].sum() > 0.5 * counts.sum() else None


def _number(bits: np.ndarray) -> np.ndarray:
    """The numbers that bits of Gray code encode, highest bit first."""
    number = np.zeros(bits.shape[1:], int)
    running = np.zeros(bits.shape[1:], bool)
    for bit in bits:
        running = running ^ bit
        number = number * 2 + running
    return number


def displacement(one: Field, other: Field) -> float | None:
    """The mean distance between the source positions of two leaves, as a share of the image; None if unknown.

    Positions are averaged over blocks first, so that a point between two stripes does not count.
    """
    difference = one - other
    known = ~np.isnan(difference[..., 0])
    if known.mean() < _KNOWN:
        return None
    places = np.arange(GRID) * BLOCKS // GRID
    block = (places[:, None] * BLOCKS + places[None, :])[known]
    counts = np.bincount(block, minlength=BLOCKS * BLOCKS)
    moved = [np.bincount(block, difference[known][:, axis], minlength=BLOCKS * BLOCKS) for axis in (0, 1)]
    enough = counts >= 0.4 * (GRID / BLOCKS) ** 2
    if enough.sum() < 3:
        return None
    lengths = np.hypot(moved[0][enough] / counts[enough], moved[1][enough] / counts[enough])
    return float(np.average(lengths, weights=counts[enough]))


@dataclass(frozen=True, slots=True)
class Pose:
    """The affine map from a leaf to the image: `x = across[0] * u + across[1] * v + across[2]`, and `down` for y.

    u and v go from 0 to 1 over the leaf, x and y over the image.
    """

    across: tuple[float, float, float]
    down: tuple[float, float, float]

    @property
    def description(self) -> str:
        """What happened to the image, for a message."""
        (a, b, c), (d, e, f) = self.across, self.down
        straight = abs(b) + abs(d) < 0.15 * (abs(a) + abs(e))
        if not straight:
            rotated = abs(a) + abs(e) < 0.15 * (abs(b) + abs(d))
            turned = {(True, False): "rotated 90 degrees left", (False, True): "rotated 90 degrees right"}
            return turned.get((b < 0, d < 0), "transposed") if rotated else "rotated or warped"
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
    """The affine map that fits the source positions; None if none does."""
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


def unmoved() -> Field:
    """The source positions of a leaf that shows the whole image unchanged."""
    views = [flattened(sampled(pattern(chart, GRID, GRID)[None].astype(np.float64))) for chart in range(CHARTS)]
    field = located(views)
    return np.full((GRID, GRID, 2), np.nan) if field is None else field
