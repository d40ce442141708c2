"""Leaves of a batch that are padded, and the leaves that give the lengths of their contents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from dataguard.lab.batches.batch_rows import Column, Content, columns, holds, padding_of, sample_contents
from dataguard.lab.batches.collate_trials import CollateInputs

FEWEST_LENGTHS = 3
"""The fewest different lengths for which a correlated leaf counts as their source."""
MOST_NUMBERS = 16
"""A row of more values than this is no list of sizes."""

_ATTENTION = re.compile(r"att(ention|n)_?mask", re.IGNORECASE)
IGNORED = (255, -100)
"""Class indices of ignored pixels in masks: by convention, and in torch's losses."""


@dataclass(frozen=True, slots=True)
class Padded:
    """A leaf whose rows are contents of different lengths, padded to the same length.

    `lengths` are those of the contents along `axis`, row by row. `lengths_from` names a leaf that gives them.
    `distinct`: the padding value never occurs in the contents, or losses ignore it in masks, so that it marks the
    padding. `full_mask` names an attention mask of the same shape that marks all of it, the padding too, as content;
    `full_lengths` names a leaf that gives every row the padded length.
    """

    leaf: str
    source: str
    axis: int
    lengths: tuple[int, ...]
    longest: int
    fill: str
    distinct: bool
    lengths_from: str | None
    full_mask: str | None = None
    full_lengths: str | None = None


@dataclass(frozen=True, slots=True)
class Padding:
    """The padded leaves of one batch of so many samples."""

    padded: tuple[Padded, ...]
    samples: int


def find_padding(inputs: CollateInputs, batch: Any, alone: Sequence[Mapping[str, Column]]) -> Padding:
    """Compare samples with the batch that collate_fn made of them.

    `alone` is the batch of each sample alone, if there is one: the content of leaves that only collate_fn makes, as of
    text.
    """
    count = len(inputs.samples)
    contents = [sample_contents(sample) for sample in inputs.samples]
    found = [column for column in columns(batch, count) if len(column.rows) == count]
    unequal = {path: tensors for path in contents[0] if (tensors := _unequal(path, contents))}
    singly = [{name: column.rows[0] for name, column in one.items() if len(column.rows) == 1} for one in alone]
    padded = []
    for column in found:
        own = _unequal(column.name, singly) if singly else None
        inside = [*unequal.items(), *([(f"batch{column.name}", own)] if own else [])]
        ways = (_padded(path, tensors, column, found, batch) for path, tensors in inside)
        padded += [one for one in (next(filter(None, ways), None),) if one]
    known = [one for one in padded if one.distinct or one.lengths_from]
    complete = tuple(one if one.lengths_from else _with_shared_lengths(one, known) for one in padded)
    return Padding(complete, count)


def _unequal(path: str, contents: Sequence[Mapping[str, Content]]) -> list[Tensor] | None:
    """The samples' tensors at a path, if their ranks are equal and their shapes are not."""
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
    lengths_from = next((one.name for sizes in measures for one in _length_leaves(others, batch, sizes) if one), None)
    return Padded(
        column.name,
        path,
        axis,
        lengths,
        rows[0].shape[axis],
        str(fills[0].item()),
        _is_ignored(fills[0], inside) or _is_distinct(fills[0], [one.to(rows[0].dtype) for one in inside]),
        lengths_from,
        next((one.name for one in others if _is_full_mask(one, rows[0], axis)), None),
        next((one.name for one in others if _is_everywhere(one, rows[0].shape[axis])), None),
    )


def _is_everywhere(column: Column, length: int) -> bool:
    """Whether a leaf is this integer in every row."""
    rows = [row for row in column.rows if isinstance(row, Tensor) and not row.ndim and not row.is_floating_point()]
    return len(rows) == len(column.rows) and all(int(row) == length for row in rows)


def _is_full_mask(column: Column, row: Tensor, axis: int) -> bool:
    """Whether a leaf is named as an attention mask, has one entry per entry of these rows, and leaves out none.

    The entries may also be those along the padded axis.
    """
    if not _ATTENTION.search(column.name):
        return False
    shapes = (row.shape, row.shape[axis : axis + 1])
    rows = [one for one in column.rows if isinstance(one, Tensor) and one.shape in shapes]
    return len(rows) == len(column.rows) and all(bool((one == 1).all()) for one in rows)


def _owner(row: Content, place: int, tensors: Sequence[Tensor]) -> int | None:
    """The sample whose tensor a row holds: the one in the same position, else the longest that is a prefix."""
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


def _is_ignored(fill: Tensor, contents: Sequence[Tensor]) -> bool:
    """Whether masks are padded with an ignored class index, which may also occur inside them."""
    numbers = fill.dtype in (torch.int32, torch.int64)  # the dtypes of losses; 255 in 8 bits may be a grey level
    return numbers and int(fill) in IGNORED and all(one.ndim > 1 for one in contents)


def _is_distinct(fill: Tensor, contents: Sequence[Tensor]) -> bool:
    """Whether a value marks padding: no content has it and, for floats, it is outside their range."""
    if fill.is_floating_point():
        if bool(fill.isnan()):
            return not any(bool(one.isnan().any()) for one in contents)
        full = [one for one in contents if one.numel()]
        low, high = min(float(one.min()) for one in full), max(float(one.max()) for one in full)
        return not low <= float(fill) <= high
    return not any(bool((one == fill).any()) for one in contents)


def _length_leaves(found: Sequence[Column], batch: Any, lengths: Sequence[int]) -> Iterator[Column | None]:
    for column in found:
        yield column if _gives_lengths(column, lengths) else None
    offsets = [sum(lengths[:end]) for end in range(len(lengths) + 1)]
    for column in columns(batch, len(lengths) + 1):
        if len(column.rows) == len(lengths) + 1 and all(
            isinstance(row, Tensor) and not row.ndim for row in column.rows
        ):
            yield column if [float(row) for row in column.rows if isinstance(row, Tensor)] == offsets else None


def _gives_lengths(column: Column, lengths: Sequence[int]) -> bool:
    """Whether a column gives the lengths: by its values, its own lengths, or its count of nonzeros."""
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
    if len(set(lengths)) < FEWEST_LENGTHS:
        return any(_is_proportional(some, lengths) for some in (counts, [size - count for count in counts]))
    return _is_monotone(counts, lengths)


def _follows(numbers: Sequence[float], lengths: Sequence[int]) -> bool:
    """Whether numbers are lengths up to scale, offset and rounding; only up to scale if any two would fit."""
    if len(set(lengths)) < FEWEST_LENGTHS:
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
    """Whether counts increase, or decrease, with the lengths, and are equal for equal lengths."""
    by_length = sorted(set(zip(lengths, counts, strict=True)))
    steps = [(two[0] - one[0], two[1] - one[1]) for one, two in pairwise(by_length)]
    return all(up for up, _ in steps) and (all(more > 0 for _, more in steps) or all(more < 0 for _, more in steps))


def _with_shared_lengths(one: Padded, known: Sequence[Padded]) -> Padded:
    """The leaf, with `lengths_from` naming another padded leaf that has the same lengths."""
    other = next((two for two in known if two.leaf != one.leaf and two.lengths == one.lengths), None)
    return one if other is None else replace(one, lengths_from=other.leaf)
