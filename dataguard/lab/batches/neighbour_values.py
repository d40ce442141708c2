"""How the values of rows differ between two batches: by scale and offset, or by a share of another row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

FEWEST = 8
"""Rows of fewer values may be offsets, distances, or sizes relative to the longest."""
NEAR = 1e-3
"""Differences below this share of the range of a row are those of rounding in batches of another size."""
MOST_VALUES = 50_000
"""Values of a row beyond these are left out."""


def rescaled(before: Sequence[Tensor], after: Sequence[Tensor], fewest: int = FEWEST) -> float | None:
    """The largest difference between rows that factors and offsets map to each other, relative to their range.

    One factor and one offset serve all values, or those at each place along an axis, or those at each place: what
    statistics of the batch along any axis do. None if there are none, as for a mixture with other samples. Rows of
    fewer than 8 values have another factor, too.
    """
    if not before or [row.shape for row in before] != [row.shape for row in after]:
        return None
    if all(map(torch.equal, before, after)):
        return 0.0
    x, y = (torch.cat([row.double().flatten()[:MOST_VALUES] for row in rows]) for rows in (before, after))
    least = min(row.numel() if row.ndim == before[0].ndim else 0 for row in before)
    span = float(x.max() - x.min()) if before[0].is_floating_point() and least >= fewest else 0.0
    if not span > 0 or not bool(x.isfinite().all() & y.isfinite().all()):
        return None
    axes = range(before[0].ndim)
    ways = dict.fromkeys([(), *((axis,) for axis in axes), tuple(axes)])
    found = (_linear(x, y, _groups(before, kept), is_scaled=least < FEWEST) for kept in ways)
    return next((difference / span for difference in found if difference is not None), None)


def _groups(rows: Sequence[Tensor], kept: Sequence[int]) -> Tensor:
    """For each value of all rows, the number of its place along the axes that are kept."""
    parts = []
    most = [max(row.shape[axis] for row in rows) for axis in kept]
    for row in rows:
        group = torch.zeros(row.shape, dtype=torch.int64)
        for axis, size in zip(kept, most, strict=True):
            steps = torch.arange(row.shape[axis]).reshape([-1 if n == axis else 1 for n in range(row.ndim)])
            group = group * size + steps
        parts.append(group.flatten()[:MOST_VALUES])
    return torch.cat(parts)


def _linear(x: Tensor, y: Tensor, groups: Tensor, *, is_scaled: bool) -> float | None:
    """The largest difference, if a positive factor and an offset map each group to its counterpart.

    Two values are mapped to any two others, and prove nothing: values between the extremes of their group do.
    """
    count = int(groups.max()) + 1
    sizes = torch.bincount(groups, minlength=count).clamp(min=1)

    def of_group(values: Tensor) -> Tensor:
        return torch.bincount(groups, values, minlength=count)

    mean_x, mean_y = of_group(x) / sizes, of_group(y) / sizes
    dx, dy = x - mean_x[groups], y - mean_y[groups]
    factor = of_group(dx * dy) / of_group(dx * dx).clamp(min=1e-12)
    span = torch.zeros(count, dtype=torch.double).scatter_reduce(0, groups, dy.abs(), "amax")
    largest = torch.zeros(count, dtype=torch.double).scatter_reduce(0, groups, dx, "amax")
    least = torch.zeros(count, dtype=torch.double).scatter_reduce(0, groups, dx, "amin")
    scale = float(x.max() - x.min())
    varies = largest - least > NEAR * scale
    if bool(((dy - factor[groups] * dx).abs() > NEAR * span[groups]).any()) or bool((factor[varies] <= 0).any()):
        return None
    between = (dx < largest[groups] - NEAR * scale) & (dx > least[groups] + NEAR * scale)
    moved = of_group((x - y).abs()) > 0
    if is_scaled:
        moved &= (factor - 1).abs() > NEAR
    proof = between & moved[groups]
    return float((x - y).abs()[proof].max()) if int(proof.sum()) >= FEWEST else None


def shares(row: Tensor, own: Sequence[Tensor], position: int) -> Iterator[tuple[int, float]]:
    """The positions of the rows that are blended, or pasted, into the row at a position, each with its share."""
    base = own[position].double()
    rest = row.double() - base
    span = float(base.max() - base.min())
    for other, content in enumerate(own):
        step = content.double() - base if content.shape == base.shape else base.new_zeros(())
        differs = step.abs() > NEAR * span
        if other == position or span == 0 or int(differs.sum()) < FEWEST:
            continue
        share = float((rest * step).sum() / (step * step).sum())
        if bool(((rest - share * step).abs() <= NEAR * span).all()):
            yield other, share
        pasted = (rest - step).abs() <= NEAR * span
        if bool((pasted | (rest.abs() <= NEAR * span)).all()):
            yield other, int((pasted & differs).sum()) / int(differs.sum())
