"""Leaves of a batch that are padded, and the leaves that tell how long their contents are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from dataguard.lab.batches.batch_rows import Column, Content, columns, holds, padding_of, sample_contents
from dataguard.lab.batches.collate_inputs import Handful

FEWEST = 3
"""Different lengths at least, for anything that grows with them to tell them."""
MOST_NUMBERS = 16
"""A row of more numbers than this is no list of sizes."""

VOID = (255, -100)
"""What marks pixels of no class in masks of class numbers: by convention, and by torch's losses."""


@dataclass(frozen=True, slots=True)
class Padded:
    """A leaf whose rows are contents of different length, filled up to one.

    `lengths` are those of the contents along `axis`, row by row. `told_by` names a leaf from which they follow, and
    `distinct` says that the value that fills up is never one of the contents, or that a loss leaves it out of masks, so
    that it tells them by itself.
    """

    leaf: str
    source: str
    axis: int
    lengths: tuple[int, ...]
    longest: int
    fill: str
    distinct: bool
    told_by: str | None


@dataclass(frozen=True, slots=True)
class Padding:
    """The padded leaves of one batch. `uneven` are leaves of samples whose shapes differ."""

    padded: tuple[Padded, ...]
    uneven: tuple[str, ...]
    samples: int


def find_padding(handful: Handful, batch: Any, alone: Sequence[Mapping[str, Column]]) -> Padding:
    """Compare the samples of a handful with the batch that collate_fn made of them.

    `alone` is what it makes of each by itself, where it does so: the content of what only collate_fn makes, as of text.
    """
    count = len(handful.samples)
    contents = [sample_contents(sample) for sample in handful.samples]
    found = [column for column in columns(batch, count) if len(column.rows) == count]
    uneven = {path: tensors for path in contents[0] if (tensors := _uneven(path, contents))}
    singly = [{name: column.rows[0] for name, column in one.items() if len(column.rows) == 1} for one in alone]
    padded = []
    for column in found:
        own = _uneven(column.name, singly) if singly else None
        inside = [*uneven.items(), *([(f"batch{column.name}", own)] if own else [])]
        ways = (_padded(path, tensors, column, found, batch) for path, tensors in inside)
        padded += [one for one in (next(filter(None, ways), None),) if one]
    told = [one for one in padded if one.distinct or one.told_by]
    helped = tuple(one if one.told_by else _told_by_another(one, told) for one in padded)
    return Padding(helped, tuple(uneven), count)


def _uneven(path: str, contents: Sequence[Mapping[str, Content]]) -> list[Tensor] | None:
    """The samples' tensors at a path, if they have as many axes and are not equally long."""
    tensors = [one.get(path) for one in contents]
    if not all(isinstance(tensor, Tensor) and tensor.ndim for tensor in tensors):
        return None
    found = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    return found if len({tensor.ndim for tensor in found}) == 1 < len({tensor.shape for tensor in found}) else None


def _padded(path: str, tensors: Sequence[Tensor], column: Column, found: Sequence[Column], batch: Any) -> Padded | None:
    owners = [owner for n, row in enumerate(column.rows) if (owner := _owner(row, n, tensors)) is not None]
    inside = [tensors[owner] for owner in owners]
    if sorted(one.shape for one in inside) != sorted(one.shape for one in tensors):
        return None
    rows = [row for row in column.rows if isinstance(row, Tensor)]
    if len({row.shape for row in rows}) > 1:
        return None
    axis = next(axis for axis in range(rows[0].ndim) if len({one.shape[axis] for one in inside}) > 1)
    lengths = tuple(one.shape[axis] for one in inside)
    fills = [fill for row, one in zip(rows, inside, strict=True) if (fill := padding_of(row, one)) is not None]
    if not fills:
        return None
    others = [one for one in found if one is not column]
    measures = [[one.shape[axis] for one in inside] for axis in range(rows[0].ndim)]
    measures = [sizes for sizes in (*measures, [one.numel() for one in inside]) if len(set(sizes)) > 1]
    told_by = next((one.name for sizes in measures for one in _tellers(others, batch, sizes) if one), None)
    return Padded(
        column.name,
        path,
        axis,
        lengths,
        rows[0].shape[axis],
        str(fills[0].item()),
        _is_void(fills[0], inside) or _is_distinct(fills[0], [one.to(rows[0].dtype) for one in inside]),
        told_by,
    )


def _owner(row: Content, place: int, tensors: Sequence[Tensor]) -> int | None:
    """The sample whose tensor a row holds: the one at its own place, else the longest of those that begin alike."""
    if not isinstance(row, Tensor):
        return None
    fits = [
        n
        for n, tensor in enumerate(tensors)
        if row.ndim == tensor.ndim
        and all(mine >= theirs for mine, theirs in zip(row.shape, tensor.shape, strict=True))
        and holds(row, tensor)
    ]
    return place if place in fits else max(fits, key=lambda n: tensors[n].numel(), default=None)


def _is_void(fill: Tensor, contents: Sequence[Tensor]) -> bool:
    """Whether masks are filled up with what marks pixels of no class, which may lie inside of them as well."""
    numbers = fill.dtype in (torch.int32, torch.int64)  # as losses take them, and no grey of 8 bits
    return numbers and int(fill) in VOID and all(one.ndim > 1 for one in contents)


def _is_distinct(fill: Tensor, contents: Sequence[Tensor]) -> bool:
    """Whether a value marks padding: one that no content has, and for measurements, that lies beyond all of them."""
    if fill.is_floating_point():
        if bool(fill.isnan()):
            return not any(bool(one.isnan().any()) for one in contents)
        full = [one for one in contents if one.numel()]
        low, high = min(float(one.min()) for one in full), max(float(one.max()) for one in full)
        return not low <= float(fill) <= high
    return not any(bool((one == fill).any()) for one in contents)


def _tellers(found: Sequence[Column], batch: Any, lengths: Sequence[int]) -> Iterator[Column | None]:
    for column in found:
        yield column if _tells(column, lengths) else None
    offsets = [sum(lengths[:end]) for end in range(len(lengths) + 1)]
    for column in columns(batch, len(lengths) + 1):
        if len(column.rows) == len(lengths) + 1 and all(
            isinstance(row, Tensor) and not row.ndim for row in column.rows
        ):
            yield column if [float(row) for row in column.rows if isinstance(row, Tensor)] == offsets else None


def _tells(column: Column, lengths: Sequence[int]) -> bool:
    """Whether lengths follow from a column: from its numbers, its own lengths, or how much of it is not zero."""
    rows = [row for row in column.rows if isinstance(row, Tensor) and not row.is_complex()]
    if len(rows) != len(lengths):
        return False
    if len({row.shape for row in rows}) > 1:
        return any(
            _follows([row.shape[axis] for row in rows], lengths) for axis in range(min(row.ndim for row in rows))
        )
    if rows[0].numel() <= MOST_NUMBERS:
        flat = torch.stack([row.flatten().double() for row in rows]).unbind(1)
        if any(_follows(numbers.tolist(), lengths) for numbers in flat):
            return True
    if not _is_mask(rows):
        return False
    counts, size = [int(row.count_nonzero()) for row in rows], rows[0].numel()
    if len(set(lengths)) < FEWEST:
        return any(_is_proportional(some, lengths) for some in (counts, [size - count for count in counts]))
    return _is_monotone(counts, lengths)


def _follows(numbers: Sequence[float], lengths: Sequence[int]) -> bool:
    """Whether numbers are lengths, up to a unit, an offset and rounding; just a unit where any two would fit."""
    if len(set(lengths)) < FEWEST:
        return _is_proportional(numbers, lengths)
    xs, ys = torch.tensor(lengths, dtype=torch.float64), torch.tensor(numbers, dtype=torch.float64)
    if not bool(ys.isfinite().all()):
        return False
    deviation = xs - xs.mean()
    slope = float((deviation * (ys - ys.mean())).sum() / (deviation**2).sum())
    rest = ys - ys.mean() - slope * deviation
    whole = bool((ys == ys.round()).all())
    spread = float(ys.max() - ys.min())
    return spread > 0 and float(rest.abs().max()) <= (min(1.0, spread / 4) if whole else spread / 100)


def _is_mask(rows: Sequence[Tensor]) -> bool:
    """Whether the rows hold nothing but zeros and one other value."""
    return rows[0].numel() > 1 and len({float(value) for row in rows for value in row.unique()[:3]} - {0.0}) <= 1


def _is_proportional(numbers: Sequence[float], lengths: Sequence[int]) -> bool:
    return numbers[0] > 0 and all(
        abs(number * lengths[0] - numbers[0] * length) < 1e-4 * numbers[0] * max(length, 1)
        for number, length in zip(numbers, lengths, strict=True)
    )


def _is_monotone(counts: Sequence[int], lengths: Sequence[int]) -> bool:
    """Whether counts grow with lengths, or shrink, and are equal where these are."""
    by_length = sorted(set(zip(lengths, counts, strict=True)))
    steps = [(two[0] - one[0], two[1] - one[1]) for one, two in pairwise(by_length)]
    return all(up for up, _ in steps) and (all(more > 0 for _, more in steps) or all(more < 0 for _, more in steps))


def _told_by_another(one: Padded, told: Sequence[Padded]) -> Padded:
    """A leaf whose lengths another padded leaf tells."""
    other = next((two for two in told if two.leaf != one.leaf and two.lengths == one.lengths), None)
    if other is None:
        return one
    return Padded(one.leaf, one.source, one.axis, one.lengths, one.longest, one.fill, one.distinct, other.leaf)
