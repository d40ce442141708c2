"""Whether a row of a batch depends on the samples beside it, beyond padding.

Samples are collated with one and with another neighbour. Rows are compared as sets, because collate_fn may sort them:
the sample that both batches have in common must have a row in common, too. The values of rows may differ by scale and
offset (`rescaled`), or by a share of another row (`shares`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from dataguard.lab.batches.batch_rows import (
    Content,
    columns,
    contents_of,
    far_corner,
    holds,
    near_corner,
    padding_of,
    sample_contents,
)
from dataguard.lab.batches.collate_trials import BATCH_SEEDS, CollateInputs, Refused
from dataguard.lab.core.records import Index

FEWEST_ROW_VALUES = 8
"""Rows of fewer values may be offsets, distances, or sizes relative to the longest."""
FEWEST_ALIKE = 2
"""The same if samples are of one shape: nothing is relative to the longest."""
ROUNDING = 1e-3
"""Differences below this share of the range of a row are those of rounding in batches of another size.

Half precision rounds by 5e-4 of a value.
"""
COLLATED_BESIDE = 40
"""How many batches are collated."""
BLEND_DRAWS = 6
"""How many batches are drawn to find one that is blended: many mixtures hold little of another sample."""
LEAST_BLENDED = 0.4
"""The least share of another sample of which labels should say something: less may be noise."""
LEAST_RESCALED = 1e-2
"""Differences above this share depend on the neighbours."""

Contents = Mapping[str, Content]
"""The leaves of a sample by path."""
Rows = Mapping[str, tuple[Content, ...]]
"""The rows of each leaf of a batch that has as many rows as samples."""


@dataclass(frozen=True, slots=True)
class NeighbourEffect:
    """A leaf whose rows depend on neighbours: `sample` is a position among those collated, as are the neighbours.

    `cut` holds how many values of a row remain of how many; without, the values differ, by `difference`, or are those
    of a neighbour by `share`, although the row of the sample in `label` is its own.
    """

    leaf: str
    sample: int
    neighbours: tuple[int, ...]
    cut: tuple[int, int] | None = None
    difference: float = 0.0
    share: float = 0.0
    label: str = ""


def find_neighbour_effects(inputs: CollateInputs) -> tuple[NeighbourEffect, ...]:
    """The leaves that are truncated like a shorter sample, or whose values depend on the other samples."""
    sizes = [sum(map(math.prod, _shapes(sample))) for sample in inputs.samples]
    short, long = sizes.index(min(sizes)), sizes.index(max(sizes))
    effects = [] if sizes[short] == sizes[long] else list(_truncated(inputs, short, long))
    positions = range(len(inputs.samples))
    doubled = [_rows(inputs, [position] * 2, 0) for position in positions]
    effects += [*_rescaled(inputs, doubled), *_blended(inputs, doubled)]
    return tuple({effect.leaf: effect for effect in reversed(effects)}.values())


def _shapes(sample: Any) -> tuple[torch.Size, ...]:
    return tuple(content.shape for content in sample_contents(sample).values() if isinstance(content, Tensor))


def _truncated(inputs: CollateInputs, short: int, long: int) -> Iterator[NeighbourEffect]:
    """The leaves of the longest sample that lose values beside the shortest one."""
    whole, short_rows = (_single_rows(inputs, position) for position in (long, short))
    for order in ([short, long], [long, short]):
        rows = _steady_rows(inputs, order)
        for name in whole.keys() & rows.keys():
            full, others = whole[name][0], short_rows.get(name, ())
            if not isinstance(full, Tensor) or any(_is_padded(row, full) for row in rows[name]):
                continue
            for row in rows[name]:
                is_other = any(_is_padded(row, other) for other in others)
                if isinstance(row, Tensor) and not is_other and _is_part(row, full):
                    yield NeighbourEffect(name, long, (short,), (row.numel(), full.numel()))


def _single_rows(inputs: CollateInputs, position: int) -> Rows:
    """The rows of a sample alone, or twice where there are none; edges have two rows whatever the batch holds."""
    if rows := _steady_rows(inputs, [position]):
        return rows
    thrice = _rows(inputs, [position] * 3, 0)
    return {name: rows for name, rows in _steady_rows(inputs, [position] * 2).items() if name in thrice}


def _rescaled(inputs: CollateInputs, doubled: Sequence[Rows]) -> Iterator[NeighbourEffect]:
    """The leaves whose values are on another scale when any one of the samples is missing from the batch."""
    positions = range(len(inputs.samples))
    full = _steady_rows(inputs, positions)
    is_ragged = len({_shapes(sample) for sample in inputs.samples}) > 1
    for out in positions:
        kept = [position for position in positions if position != out]
        rest = _steady_rows(inputs, kept)
        for name in sorted(full.keys() & rest.keys()):
            if is_ragged:
                doubled_rows = [doubled[position].get(name, (b"",))[0] for position in kept]
                contents = contents_of(inputs.samples[position] for position in kept)
                differences = _of_ragged(
                    [full[name][position] for position in kept], rest[name], doubled_rows, contents
                )
            else:  # collate_fn may sort: the row that is missing may be any
                ways = ([row for n, row in enumerate(full[name]) if n != missing] for missing in (out, *kept))
                differences = (rescaled(_tensors(way), _tensors(rest[name]), FEWEST_ALIKE) for way in ways)
            difference = min((value for value in differences if value is not None), default=0.0)
            if difference > LEAST_RESCALED:
                yield NeighbourEffect(name, kept[0], (out,), difference=difference)


def _of_ragged(
    before: Sequence[Content], after: Sequence[Content], single_rows: Sequence[Content], contents: Sequence[Contents]
) -> Iterator[float | None]:
    """The difference of rows without their padding, if they are contents of samples on another scale."""
    shapes = [row.shape for row in _tensors(single_rows)]
    for start in (True, False):
        cropped_before, cropped_after = (_cropped(_tensors(rows), shapes, start=start) for rows in (before, after))
        difference = rescaled(cropped_before, cropped_after)
        for path in contents[0] if difference else ():
            given = _tensors([leaves.get(path, b"") for leaves in contents])
            if [row.shape for row in given] == shapes and None not in (
                rescaled(given, cropped_before),
                rescaled(given, cropped_after),
            ):
                yield difference


def _cropped(rows: Sequence[Tensor], shapes: Sequence[torch.Size], *, start: bool) -> list[Tensor]:
    """The rows without what is beyond these shapes, at the end or at the start; none if one is smaller."""
    if len(rows) != len(shapes) or any(row.ndim != len(shape) for row, shape in zip(rows, shapes, strict=True)):
        return []
    pairs = zip(rows, shapes, strict=True)
    return [row[near_corner(shape) if start else far_corner(shape, row.shape)] for row, shape in pairs]


def _tensors(rows: Sequence[Content]) -> list[Tensor]:
    return [row for row in rows if isinstance(row, Tensor)]


MOST_ROW_VALUES = 50_000
"""Values of a row beyond these are left out."""


def rescaled(before: Sequence[Tensor], after: Sequence[Tensor], fewest: int = FEWEST_ROW_VALUES) -> float | None:
    """The largest difference between rows that factors and offsets map to each other, relative to their range.

    One factor and one offset serve all values, or those at each place along an axis, or those at each place: what
    statistics of the batch along any axis do. None if there are none, as for a mixture with other samples. Rows of
    fewer than 8 values have another factor, too.
    """
    if not before or [row.shape for row in before] != [row.shape for row in after]:
        return None
    if all(map(torch.equal, before, after)):
        return 0.0
    x, y = (torch.cat([row.double().flatten()[:MOST_ROW_VALUES] for row in rows]) for rows in (before, after))
    least = min(row.numel() if row.ndim == before[0].ndim else 0 for row in before)
    span = float(x.max() - x.min()) if before[0].is_floating_point() and least >= fewest else 0.0
    if not span > 0 or not bool(x.isfinite().all() & y.isfinite().all()):
        return None
    axes = range(before[0].ndim)
    ways = dict.fromkeys([(), *((axis,) for axis in axes), tuple(axes)])
    differences = (_linear(x, y, _groups(before, kept), is_scaled=least < FEWEST_ROW_VALUES) for kept in ways)
    return next((difference / span for difference in differences if difference is not None), None)


def _groups(rows: Sequence[Tensor], kept: Sequence[int]) -> Tensor:
    """For each value of all rows, the number of its place along the axes that are kept."""
    parts = []
    most = [max(row.shape[axis] for row in rows) for axis in kept]
    for row in rows:
        group = torch.zeros(row.shape, dtype=torch.int64)
        for axis, size in zip(kept, most, strict=True):
            steps = torch.arange(row.shape[axis]).reshape([-1 if n == axis else 1 for n in range(row.ndim)])
            group = group * size + steps
        parts.append(group.flatten()[:MOST_ROW_VALUES])
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
    varies = largest - least > ROUNDING * scale
    if bool(((dy - factor[groups] * dx).abs() > ROUNDING * span[groups]).any()) or bool((factor[varies] <= 0).any()):
        return None
    between = (dx < largest[groups] - ROUNDING * scale) & (dx > least[groups] + ROUNDING * scale)
    moved = of_group((x - y).abs()) > 0
    if is_scaled:
        moved &= (factor - 1).abs() > ROUNDING
    proof = between & moved[groups]
    return float((x - y).abs()[proof].max()) if int(proof.sum()) >= FEWEST_ROW_VALUES else None


def _blended(inputs: CollateInputs, doubled: Sequence[Rows]) -> Iterator[NeighbourEffect]:
    """The leaves that hold a share of another sample, if the labels are those of the samples alone.

    `doubled` are the rows of batches that hold one sample twice, which is blended with itself there.
    """
    positions = range(len(inputs.samples))
    for draw in range(BLEND_DRAWS):
        rows = _rows(inputs, positions, *((draw, 0) if draw < len(BATCH_SEEDS) else (len(BATCH_SEEDS), draw)))
        names = [name for name in rows if all(name in sample_rows for sample_rows in doubled)]
        changed = {name for name in names if any(not _is_equal(rows[name][n], doubled[n][name][0]) for n in positions)}
        labels = [name for name in names if name not in changed and _is_label(rows[name], inputs.indices)]
        if len(changed) != 1 or rows.keys() != set(names) or not labels:
            continue
        (name,) = changed
        single_rows = _tensors([sample_rows[name][0] for sample_rows in doubled])
        whole = _tensors(rows[name])
        if (
            len(single_rows) != len(doubled)
            or not _is_like(whole, single_rows)
            or not single_rows[0].is_floating_point()
        ):
            continue
        if any(_is_like(rows[other], whole) for other in names if other != name):
            continue  # what is to be recovered from the mixture stands beside it
        for position, label in product(positions, labels):
            for other, share in shares(whole[position], single_rows, position):
                if LEAST_BLENDED <= share <= 1 - ROUNDING and not _is_equal(rows[label][position], rows[label][other]):
                    yield NeighbourEffect(name, position, (other,), share=share, label=label)
                    return


def shares(row: Tensor, contents: Sequence[Tensor], position: int) -> Iterator[tuple[int, float]]:
    """The positions of the rows that are blended, or pasted, into the row at a position, each with its share."""
    base = contents[position].double()
    rest = row.double() - base
    span = float(base.max() - base.min())
    for other, content in enumerate(contents):
        step = content.double() - base if content.shape == base.shape else base.new_zeros(())
        differs = step.abs() > ROUNDING * span
        if other == position or span == 0 or int(differs.sum()) < FEWEST_ROW_VALUES:
            continue
        share = float((rest * step).sum() / (step * step).sum())
        if bool(((rest - share * step).abs() <= ROUNDING * span).all()):
            yield other, share
        pasted = (rest - step).abs() <= ROUNDING * span
        if bool((pasted | (rest.abs() <= ROUNDING * span)).all()):
            yield other, int((pasted & differs).sum()) / int(differs.sum())


def _is_label(rows: Sequence[Content], indices: Sequence[Index]) -> bool:
    """Whether rows are class indices, one-hot or not, and not the numbers of the samples."""
    tensors = _tensors(rows)
    if len(tensors) != len(rows) or {row.ndim for row in tensors} - {0, 1} or len({row.shape for row in tensors}) > 1:
        return False
    if tensors[0].ndim:
        return tensors[0].numel() > 1 and all(float(row.sum()) == float(row.max()) == 1 for row in tensors)
    numbers = [row.item() for row in tensors]
    return not tensors[0].is_floating_point() and numbers != list(indices)


def _is_like(rows: Sequence[Content], others: Sequence[Tensor]) -> bool:
    """Whether rows have the shapes of others."""
    return [row.shape for row in _tensors(rows)] == [row.shape for row in others]


def _rows(inputs: CollateInputs, positions: Sequence[int], seed: int, number: int = 0) -> Rows:
    """The rows of each leaf that has one per sample; none if collate_fn refuses these samples alone."""
    try:
        batch = inputs.collate(positions, seed, number)
    except Refused:
        return {}
    count = len(positions)
    return {column.name: column.rows for column in columns(batch, count) if len(column.rows) == count}


def _steady_rows(inputs: CollateInputs, positions: Sequence[int]) -> Rows:
    """The rows of each leaf that no random state changes."""
    first, second = (_rows(inputs, positions, seed) for seed in range(len(BATCH_SEEDS)))
    count = len(positions)
    return {
        name: rows
        for name, rows in first.items()
        if len(second.get(name, ())) == count
        and all(_is_equal(row, other) for row, other in zip(rows, second[name], strict=True))
    }


def _is_equal(row: Content, other: Content) -> bool:
    if isinstance(row, Tensor) and isinstance(other, Tensor):
        return row.shape == other.shape and holds(row, other)
    return isinstance(row, bytes) and isinstance(other, bytes) and row == other


def _is_padded(row: Content, content: Content) -> bool:
    """Whether a row is this content, or more of it than padding."""
    if not isinstance(row, Tensor) or not isinstance(content, Tensor):
        return _is_equal(row, content)
    larger = row.ndim == content.ndim and all(a >= b for a, b in zip(row.shape, content.shape, strict=True))
    return _is_equal(row, content) or (larger and padding_of(row, content) is not None)


def _is_part(row: Tensor, full: Tensor) -> bool:
    """Whether a row is the beginning or the end of the full one, and more than padding is missing."""
    if row.ndim != full.ndim or not row.numel() or any(a > b for a, b in zip(row.shape, full.shape, strict=True)):
        return False
    for corner in (near_corner(row.shape), far_corner(row.shape, full.shape)):
        rest = torch.ones(full.shape, dtype=torch.bool)
        rest[corner] = False
        if _is_equal(row, full[corner]) and len(full[rest].unique()) > 1:
            return True
    return False
