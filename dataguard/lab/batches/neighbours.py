"""Whether a row of a batch depends on the samples beside it, beyond padding.

Samples are collated with one and with another neighbour. Rows are compared as sets, because collate_fn may sort them:
the sample that both batches have in common must have a row in common, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from dataguard.lab.batches.batch_rows import Content, columns, holds, padding_of, sample_contents
from dataguard.lab.batches.collate_inputs import SEEDS, CollateInputs, Refused

COLLATED = 16
"""How many batches are collated."""
FEWEST = 8
"""Rows of fewer values may be offsets, distances, or lengths relative to the longest."""
NEAR = 1e-3
"""Differences below this share of the range of a row are those of rounding in batches of another size."""
RESCALED = 1e-2
"""Differences above this share depend on the neighbours."""

Rows = Mapping[str, tuple[Content, ...]]
"""The rows of each leaf of a batch that has as many rows as samples."""


@dataclass(frozen=True, slots=True)
class NeighbourEffect:
    """A leaf whose rows depend on neighbours: `sample` is a position among those collated, as are the neighbours.

    `cut` holds how many values of a row remain of how many; without, the values differ, by `difference`.
    """

    leaf: str
    sample: int
    neighbours: tuple[int, ...]
    cut: tuple[int, int] | None = None
    difference: float = 0.0


def find_neighbour_effects(inputs: CollateInputs) -> tuple[NeighbourEffect, ...]:
    """The leaves that are truncated like a shorter sample, or whose values depend on the other samples."""
    contents = [sample_contents(sample).values() for sample in inputs.samples]
    shapes = [tuple(tuple(one.shape) for one in each if isinstance(one, Tensor)) for each in contents]
    sizes = [sum(map(math.prod, each)) for each in shapes]
    short, long = sizes.index(min(sizes)), sizes.index(max(sizes))
    (usual, _), *_ = Counter(shapes).most_common()
    alike = [place for place, shape in enumerate(shapes) if shape == usual]
    found = [] if sizes[short] == sizes[long] else list(_cut(inputs, short, long))
    found += _values(inputs, alike[:3]) if len(alike) > 2 else []
    return tuple({effect.leaf: effect for effect in reversed(found)}.values())


def _cut(inputs: CollateInputs, short: int, long: int) -> Iterator[NeighbourEffect]:
    """The leaves of the longest sample that lose values beside the shortest one."""
    whole, own = (_steady_rows(inputs, [one]) or _steady_rows(inputs, [one, one]) for one in (long, short))
    for order in ([short, long], [long, short]):
        rows = _steady_rows(inputs, order)
        for name in whole.keys() & rows.keys():
            full, others = whole[name][0], own.get(name, ())
            if not isinstance(full, Tensor) or any(_is_padded(row, full) for row in rows[name]):
                continue
            for row in rows[name]:
                is_other = any(_is_padded(row, other) for other in others)
                if isinstance(row, Tensor) and not is_other and _is_part(row, full):
                    yield NeighbourEffect(name, long, (short,), (row.numel(), full.numel()))


def _values(inputs: CollateInputs, places: Sequence[int]) -> Iterator[NeighbourEffect]:
    """The leaves in which the values of any of three samples are scaled or offset in another way beside another one."""
    batches = {pair: _steady_rows(inputs, pair) for pair in combinations(places, 2)}
    names = set.intersection(*(set(rows) for rows in batches.values()))
    for name in sorted(names):
        both = [[rows[name] for pair, rows in batches.items() if place in pair] for place in places]
        difference, place = max((_difference(one, two), place) for (one, two), place in zip(both, places, strict=True))
        if difference > RESCALED:
            others = tuple(other for other in places if other != place)
            yield NeighbourEffect(name, place, others, difference=difference)


def _steady_rows(inputs: CollateInputs, positions: Sequence[int]) -> Rows:
    """The rows of each leaf that no random state changes; none if collate_fn refuses these samples alone."""
    try:
        batches = [inputs.collate(positions, seed) for seed in range(len(SEEDS))]
    except Refused:
        return {}
    count = len(positions)
    one, two = (
        {column.name: column.rows for column in columns(batch, count) if len(column.rows) == count} for batch in batches
    )
    return {
        name: rows
        for name, rows in one.items()
        if len(two.get(name, ())) == count
        and all(_is_equal(row, other) for row, other in zip(rows, two[name], strict=True))
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
    corners = (
        tuple(slice(0, size) for size in row.shape),
        tuple(slice(whole - size, whole) for size, whole in zip(row.shape, full.shape, strict=True)),
    )
    for corner in corners:
        rest = torch.ones(full.shape, dtype=torch.bool)
        rest[corner] = False
        if _is_equal(row, full[corner]) and len(full[rest].unique()) > 1:
            return True
    return False


def _difference(one: Sequence[Content], two: Sequence[Content]) -> float:
    """The least difference between two rows, relative to their range, if one is the other on another scale; else 0.

    No mixture with a neighbour is such a row.
    """
    found = [_rescaled(row, other) for row in one for other in two]
    return min((each for each in found if each is not None), default=0.0)


def _rescaled(row: Content, other: Content) -> float | None:
    """The difference of two rows that a factor and an offset map to each other, for all values or for each channel."""
    if not (isinstance(row, Tensor) and isinstance(other, Tensor) and row.shape == other.shape):
        return None
    if not row.is_floating_point() or row.numel() < FEWEST:
        return None
    before, after = row.double(), other.double()
    span = float(before.max() - before.min())
    ways = [(before.reshape(1, -1), after.reshape(1, -1)), (before.reshape(len(row), -1), after.reshape(len(row), -1))][
        : row.ndim
    ]
    if not span > 0 or not any(_is_linear(one, two) for one, two in ways if one.shape[1] >= FEWEST):
        return None
    return float((before - after).abs().max()) / span


def _is_linear(one: Tensor, two: Tensor) -> bool:
    """Whether each row of the second is a positive factor of that of the first, plus an offset."""
    x, y = one - one.mean(1, keepdim=True), two - two.mean(1, keepdim=True)
    factor = (x * y).sum(1, keepdim=True) / (x * x).sum(1, keepdim=True).clamp(min=1e-12)
    error = (y - factor * x).abs().amax(1)
    return bool((error <= NEAR * (two.amax(1) - two.amin(1))).all() and (factor[x.abs().amax(1) > 0] > 0).all())
