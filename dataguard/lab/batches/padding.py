"""Leaves of a batch that are padded, and the leaves that give the lengths of their contents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from dataguard.lab.batches.batch_rows import Column, Content, columns, contents_of, holds, padding_of
from dataguard.lab.batches.collate_trials import CollateInputs
from dataguard.lab.batches.padded_sides import NO_SIDES, Sides, find_sides


@dataclass(frozen=True, slots=True)
class Padded:
    """A leaf whose rows are contents of different lengths, padded to the same length.

    `lengths` are those of the contents along `axis`, row by row. `lengths_from` names a leaf that gives them,
    perhaps in another order, if its rows are not those of the same samples.
    `distinct`: the padding value never occurs in the contents, or losses ignore it in masks, so that it marks the
    padding. `full_mask` names an attention mask of the same shape that marks all of it, the padding too, as content;
    `full_lengths` names a leaf that gives every row the padded length, or the size of another axis: `full_size`.
    `value_mask` names a mask that leaves out the padding value wherever it is, in contents too, and `other_lengths`
    leaves of lengths that are not those of this one.
    `measured_late`: `full_lengths` has the name of lengths, too. `has_holes`: `value_mask` hides contents in some row.
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
    value_mask: str | None = None
    other_lengths: tuple[str, ...] = ()
    measured_late: bool = False
    has_holes: bool = False
    full_size: int = 0


@dataclass(frozen=True, slots=True)
class Padding:
    """The padded leaves of one batch of so many samples, and those whose padding does not fit others."""

    padded: tuple[Padded, ...]
    samples: int
    sides: Sides = NO_SIDES


def find_padding(inputs: CollateInputs, batch: Any, single_columns: Sequence[Mapping[str, Column]]) -> Padding:
    """Compare samples with the batch that collate_fn made of them.

    `single_columns` are those of a batch of each sample alone, if there is one: the content of leaves that only
    collate_fn makes, as of text.
    """
    count = len(inputs.samples)
    contents = contents_of(inputs.samples)
    candidates = [column for column in columns(batch, count) if len(column.rows) == count]
    unequal = {path: tensors for path in contents[0] if (tensors := _unequal(path, contents))}
    singly = [
        {name: column.rows[0] for name, column in columns_by_name.items() if len(column.rows) == 1}
        for columns_by_name in single_columns
    ]
    padded = []
    for number, column in enumerate(candidates):
        if any(_is_copy(column, earlier) for earlier in candidates[:number]):
            continue  # what is said of the first holds for it
        single_tensors = _unequal(column.name, singly) if singly else None
        inside = [*unequal.items(), *([(f"batch{column.name}", single_tensors)] if single_tensors else [])]
        ways = (_padded(path, tensors, column, candidates, batch, unequal) for path, tensors in inside)
        padded += [leaf for leaf in (next(filter(None, ways), None) or _padded_before(column, candidates),) if leaf]
    marked = [leaf for leaf in padded if leaf.distinct or leaf.lengths_from]
    complete = tuple(leaf if leaf.lengths_from else _with_shared_lengths(leaf, marked) for leaf in padded)
    return Padding(complete, count, find_sides(candidates))


def _unequal(path: str, contents: Sequence[Mapping[str, Content]]) -> list[Tensor] | None:
    """The samples' tensors at a path, if their ranks are equal and their shapes are not."""
    tensors = [sample.get(path) for sample in contents]
    if not all(isinstance(tensor, Tensor) and tensor.ndim for tensor in tensors):
        return None
    arrays = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    return arrays if len({tensor.ndim for tensor in arrays}) == 1 < len({tensor.shape for tensor in arrays}) else None


def _padded(
    path: str,
    tensors: Sequence[Tensor],
    column: Column,
    candidates: Sequence[Column],
    batch: Any,
    unequal: Mapping[str, Sequence[Tensor]],
) -> Padded | None:
    owners = [owner for n, row in enumerate(column.rows) if (owner := _owner(row, n, tensors)) is not None]
    inside = [tensors[owner] for owner in owners]
    if sorted(content.shape for content in inside) != sorted(tensor.shape for tensor in tensors):
        return None
    rows = [row for row in column.rows if isinstance(row, Tensor)]
    if len({row.shape for row in rows}) > 1:
        return None
    axis = next(axis for axis in range(rows[0].ndim) if len({content.shape[axis] for content in inside}) > 1)
    lengths = tuple(content.shape[axis] for content in inside)
    fills = [fill for row, content in zip(rows, inside, strict=True) if (fill := padding_of(row, content)) is not None]
    if not fills:
        return None
    others = [other for other in candidates if other is not column]
    own = next(
        (other.name for other in others if _is_own_mask(other, unequal.get(other.name, ()), tensors, owners)), None
    )
    by_value = next((other for other in others if not own and _is_value_mask(other, rows, fills[0])), None)
    others.sort(key=lambda other: other is by_value)  # which gives the lengths only if nothing else does
    measures = [[content.shape[axis] for content in inside] for axis in range(rows[0].ndim)]
    measures = [sizes for sizes in (*measures, [content.numel() for content in inside]) if len(set(sizes)) > 1]
    lengths_from = next(
        (leaf.name for sizes in measures for leaf in _length_leaves(others, batch, sizes) if leaf), None
    ) or next((leaf.name for sizes in measures for leaf in others if _gives_in_another_order(leaf, sizes)), None)
    sizes = [size for size in (rows[0].shape[axis], *rows[0].shape) if size > 1]
    full, size = next(
        ((other.name, size) for size in sizes for other in others if _is_everywhere(other, size)), (None, 0)
    )
    return Padded(
        column.name,
        path,
        axis,
        lengths,
        rows[0].shape[axis],
        str(fills[0].item()),
        _is_ignored(fills[0], inside) or _is_distinct(fills[0], [content.to(rows[0].dtype) for content in inside]),
        lengths_from or own,
        next((other.name for other in others if _is_full_mask(other, rows[0], axis)), None),
        full,
        by_value.name if by_value else None,
        tuple(other.name for other in others if _LENGTHS.search(other.name) and _is_count(other)),
        bool(full and _LENGTHS.search(full)),
        by_value is not None and _has_holes(by_value, lengths),
        size,
    )


def _padded_before(column: Column, candidates: Sequence[Column]) -> Padded | None:
    """Tokens that are padded before they reach collate_fn, where an attention mask leaves out none of them.

    Padding is then a run of one token at the end of rows, of several lengths, which occurs nowhere before it.
    """
    rows = [row for row in column.rows if isinstance(row, Tensor) and row.ndim == 1 and not row.is_floating_point()]
    if len(rows) != len(column.rows) or len({len(row) for row in rows}) > 1 or not len(rows[0]):
        return None
    full = next((other.name for other in candidates if other is not column and _is_full_mask(other, rows[0], 0)), None)
    if full is None:
        return None
    fill = torch.stack([row[-1] for row in rows]).mode().values
    contents = [row[: int((row != fill).nonzero().max()) + 1] for row in rows if bool((row != fill).any())]
    lengths = tuple(map(len, contents))
    told = len(contents) == len(rows) and len(set(lengths)) >= FEWEST_LENGTHS and min(lengths) + 1 < len(rows[0])
    if not told or int(fill) < 0 or not _is_distinct(fill, contents) or not all(map(_is_text, contents)):
        return None
    return Padded(column.name, column.name, 0, lengths, len(rows[0]), str(fill.item()), True, None, full)


def _is_text(tokens: Tensor) -> bool:
    """Whether most neighbours differ, as in text; numbers of segments or types of tokens are in runs."""
    return 2 * int((tokens[1:] != tokens[:-1]).sum()) >= len(tokens) - 1


def _is_copy(column: Column, other: Column) -> bool:
    """Whether two leaves hold the same arrays."""
    pairs = list(zip(column.rows, other.rows, strict=True)) if column.axis == other.axis else []
    return bool(pairs) and all(
        isinstance(row, Tensor) and isinstance(same, Tensor) and row.ndim > 0 and torch.equal(row, same)
        for row, same in pairs
    )


_LENGTHS = re.compile(r"(?<![a-z])(len|length)s?(?![a-z])", re.IGNORECASE)
"""The name of a leaf of lengths, such as `text_lengths`."""


def _is_count(column: Column) -> bool:
    """Whether a leaf has an integer for each row."""
    return all(isinstance(row, Tensor) and not row.ndim and not row.is_floating_point() for row in column.rows)


def _is_value_mask(column: Column, rows: Sequence[Tensor], fill: Tensor) -> bool:
    """Whether a leaf of zeros and another value is 0 just where rows, or a feature of them, have the padding value."""
    masks = [row for row in column.rows if isinstance(row, Tensor)]
    if len(masks) != len(rows) or any(len(mask.unique()) > 2 for mask in masks):
        return False
    if all(mask.shape == row.shape for mask, row in zip(masks, rows, strict=True)):
        features = [rows]
    elif all(row.ndim == 2 and mask.shape == row.shape[:1] for mask, row in zip(masks, rows, strict=True)):
        features = [[row[:, number] for row in rows] for number in range(min(rows[0].shape[1], MOST_NUMBERS))]
    else:
        return False
    return any(
        all(torch.equal(mask != 0, part != fill) for mask, part in zip(masks, parts, strict=True)) for parts in features
    )


def _has_holes(column: Column, lengths: Sequence[int]) -> bool:
    """Whether a mask shows fewer entries of some row than its content has."""
    shown = [int(row.count_nonzero()) for row in column.rows if isinstance(row, Tensor)]
    return any(count < length for count, length in zip(shown, lengths, strict=True))


_MASK = re.compile("mask", re.IGNORECASE)


def _is_own_mask(column: Column, masks: Sequence[Tensor], tensors: Sequence[Tensor], owners: Sequence[int]) -> bool:
    """Whether a leaf is the mask that samples have for these tensors, padded with 0: it may leave out more."""
    if not _MASK.search(column.name) or [mask.shape for mask in masks] != [tensor.shape for tensor in tensors]:
        return False
    return all(
        isinstance(row, Tensor)
        and holds(row, masks[owner])
        and bool(((row == 0) | (row == 1)).all())
        and int(row.sum()) == int(masks[owner].sum())
        for row, owner in zip(column.rows, owners, strict=False)
    )


def _is_everywhere(column: Column, length: int) -> bool:
    """Whether a leaf is this integer in every row."""
    rows = [row for row in column.rows if isinstance(row, Tensor) and not row.ndim and not row.is_floating_point()]
    return len(rows) == len(column.rows) and all(int(row) == length for row in rows)


_ATTENTION = re.compile(r"att(ention|n)_?mask", re.IGNORECASE)


def _is_full_mask(column: Column, row: Tensor, axis: int) -> bool:
    """Whether a leaf is named as an attention mask, has one entry per entry of these rows, and leaves out none.

    The entries may also be those along the padded axis.
    """
    if not _ATTENTION.search(column.name):
        return False
    shapes = (row.shape, row.shape[axis : axis + 1])
    rows = [mask for mask in column.rows if isinstance(mask, Tensor) and mask.shape in shapes]
    return len(rows) == len(column.rows) and all(bool((mask == 1).all()) for mask in rows)


def _owner(row: Content, position: int, tensors: Sequence[Tensor]) -> int | None:
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
    return position if position in fits else max(fits, key=lambda n: tensors[n].numel(), default=None)


IGNORED = (255, -100)
"""Class indices of ignored pixels in masks: by convention, and in torch's losses."""


def _is_ignored(fill: Tensor, contents: Sequence[Tensor]) -> bool:
    """Whether masks are padded with an ignored class index, which may also occur inside them."""
    numbers = fill.dtype in (torch.int32, torch.int64)  # the dtypes of losses; 255 in 8 bits may be a grey level
    return numbers and int(fill) in IGNORED and all(content.ndim > 1 for content in contents)


def _is_distinct(fill: Tensor, contents: Sequence[Tensor]) -> bool:
    """Whether a value marks padding: no content has it and, for floats, it is outside their range."""
    if fill.is_floating_point():
        if bool(fill.isnan()):
            return not any(bool(content.isnan().any()) for content in contents)
        full = [content for content in contents if content.numel()]
        low, high = min(float(content.min()) for content in full), max(float(content.max()) for content in full)
        return not low <= float(fill) <= high
    return not any(bool((content == fill).any()) for content in contents)


def _length_leaves(candidates: Sequence[Column], batch: Any, lengths: Sequence[int]) -> Iterator[Column | None]:
    for column in candidates:
        yield column if _gives_lengths(column, lengths) else None
    offsets = [sum(lengths[:end]) for end in range(len(lengths) + 1)]
    for column in columns(batch, len(lengths) + 1):
        if len(column.rows) == len(lengths) + 1 and all(
            isinstance(row, Tensor) and not row.ndim for row in column.rows
        ):
            yield column if [float(row) for row in column.rows if isinstance(row, Tensor)] == offsets else None


FEWEST_LENGTHS = 3
"""The fewest different lengths for which a correlated leaf counts as their source."""
MOST_NUMBERS = 16
"""A row of more values than this is no list of sizes."""


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
        return any(
            _is_proportional(mask_counts, lengths) for mask_counts in (counts, [size - count for count in counts])
        )
    return _is_monotone(counts, lengths)


def _gives_in_another_order(column: Column, lengths: Sequence[int]) -> bool:
    """Whether a column gives these lengths in another order: that of the samples, where rows are mispaired."""
    return (
        _is_count(column)
        and len(set(lengths)) >= FEWEST_LENGTHS
        and sorted(int(row) for row in column.rows if isinstance(row, Tensor)) == sorted(lengths)
    )


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
    steps = [(second[0] - first[0], second[1] - first[1]) for first, second in pairwise(by_length)]
    return all(up for up, _ in steps) and (all(more > 0 for _, more in steps) or all(more < 0 for _, more in steps))


def _with_shared_lengths(leaf: Padded, marked: Sequence[Padded]) -> Padded:
    """The leaf, with `lengths_from` naming another padded leaf that has the same lengths."""
    other = next(
        (
            marked_leaf
            for marked_leaf in marked
            if marked_leaf.leaf != leaf.leaf and marked_leaf.lengths == leaf.lengths
        ),
        None,
    )
    return leaf if other is None else replace(leaf, lengths_from=other.leaf)
