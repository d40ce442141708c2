"""A batch as columns of rows, and which sample each row belongs to, judged by content."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise, takewhile
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, unpack_sequence

from dataguard.lab.core.leaves import describe, iter_leaves

MOST_COLUMNS = 128
"""Most columns of a batch that are compared: each with every sample."""
MOST_VIEWS = 10
"""The most rows that a sample has in a batch: ten crops, as torchvision's `TenCrop` makes."""
Content = Tensor | bytes
"""The content of a row or leaf: a tensor for numbers, a digest for anything else."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One leaf of a batch split along an axis, or corresponding leaves of a list: ideally one row per sample.

    `name` reads like `['image']`, `[1][*]['boxes']`, or `['tokens'] along axis 1`; `axis` is None for a list.
    """

    name: str
    rows: tuple[Content, ...]
    axis: int | None = None


def columns(batch: Any, count: int) -> Iterator[Column]:
    """Every way to split a batch into rows; along axes other than the first only if that yields `count` rows."""
    leaves = list(iter_leaves(batch, atomic=(PackedSequence,)))
    listed: dict[str, dict[int, Any]] = defaultdict(dict)
    for path, leaf in leaves:
        for name, number in _listed(path):
            listed[name][number] = leaf
    single = {
        name for name, items in listed.items() if len(items) == count > 1 and _are_arrays_of_one_rank(items.values())
    }
    made = 0
    for path, leaf in leaves:
        if not single.isdisjoint(name for name, _ in _listed(path)):
            continue  # an item of a single sample has channels, not rows
        for column in _split(path, leaf, count):
            made += 1
            yield column
        if made > MOST_COLUMNS:
            return
    for name, items in list(listed.items())[:MOST_COLUMNS]:
        if set(items) == set(range(len(items))) and not _has_packed(items.values()):
            yield Column(name, tuple(content_of(items[number]) for number in range(len(items))))


_NUMBERED = re.compile(r"\[(\d+)\]")


def _listed(path: str) -> Iterator[tuple[str, int]]:
    """The lists that contain a leaf, such as `[1][*]['boxes']`, with its position in each."""
    for step in _NUMBERED.finditer(path):
        yield f"{path[: step.start()]}[*]{path[step.end() :]}", int(step[1])


def _are_arrays_of_one_rank(items: Iterable[Any]) -> bool:
    """Whether there is one item per sample: arrays of the same rank."""
    ranks = {getattr(item, "ndim", 0) for item in items}
    return len(ranks) == 1 and 0 not in ranks


def _has_packed(items: Iterable[Any]) -> bool:
    return any(isinstance(item, PackedSequence) for item in items)


def _split(path: str, leaf: Any, count: int) -> Iterator[Column]:
    most = max(MOST_VIEWS * count, 16)
    if isinstance(leaf, PackedSequence):
        yield Column(path, tuple(dense(row) for row in unpack_sequence(leaf)), 0)
        return
    if isinstance(leaf, list | tuple):  # plain values: token ids, names
        if len(leaf) <= most:
            yield Column(path, tuple(content_of(item) for item in leaf), 0)
        return
    if isinstance(leaf, Tensor) and leaf.is_nested and leaf.device.type != "meta":
        yield Column(path, tuple(dense(row) for row in leaf.unbind()), 0)
        return
    content = content_of(leaf)
    if not isinstance(content, Tensor) or not content.ndim:
        return
    if content.shape[0] <= most:
        yield Column(path, tuple(content.unbind(0)), 0)
    if content.ndim > 1 and content.shape[0] < count == content.shape[0] * content.shape[1]:
        yield Column(f"{path} along axes 0 and 1", tuple(content.flatten(0, 1).unbind(0)), 0)
    for axis in dict.fromkeys((1, content.ndim - 1)):
        if 0 < axis < content.ndim and content.shape[axis] == count:
            yield Column(f"{path} along axis {axis}", tuple(content.unbind(axis)), axis)


def sample_contents(sample: Any) -> dict[str, Content]:
    """The content of each leaf of a sample, by path."""
    return {path: content_of(leaf) for path, leaf in iter_leaves(sample)}


def contents_of(samples: Iterable[Any]) -> list[dict[str, Content]]:
    """The same of each sample; a list of numbers that is one leaf of some samples is one leaf of all.

    Short lists are taken for tuples of fields otherwise.
    """
    contents = [sample_contents(sample) for sample in samples]
    whole = {path for content in contents for path in content if any(path not in other for other in contents)}
    for content in contents:
        for path in whole - content.keys():
            items = list(takewhile(lambda item: item is not None, (content.get(f"{path}[{i}]") for i in count())))
            numbers = [item for item in items if isinstance(item, Tensor) and not item.ndim]
            if numbers and len(numbers) == len(items):
                content[path] = torch.stack(numbers)
    return contents


def content_of(value: Any) -> Content:
    """The content of a leaf, for comparison; a digest for tensors whose values are not accessible."""
    try:
        numbers = _numbers(value)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        numbers = None
    return describe("", value).digest if numbers is None else numbers


def _numbers(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return None if value.device.type == "meta" or value.is_nested else dense(value)
    if isinstance(value, np.ndarray | np.generic) and np.asarray(value).dtype.kind in "biufc":
        return torch.from_numpy(np.array(value))
    if isinstance(value, bool | int | float | complex):
        return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
    if isinstance(value, list | tuple) and all(isinstance(item, bool | int | float) for item in value):
        return torch.tensor(value)
    return None


def dense(tensor: Tensor) -> Tensor:
    """A plain tensor of the same values, outside shared memory, which may be small."""
    plain = tensor.detach()
    plain = plain.to_dense() if plain.layout is not torch.strided else plain
    plain = (plain.int_repr() if plain.is_quantized else plain).cpu().as_subclass(Tensor)
    return plain.clone() if plain.is_shared() else plain


def key(content: Content) -> bytes:
    """A digest by which contents are compared."""
    return describe("", content).digest if isinstance(content, Tensor) else content


def holds(row: Content, content: Content) -> bool:
    """Whether a row is this content: equal after casting to the row's dtype, padding, truncation or a reshape."""
    if not isinstance(row, Tensor) or not isinstance(content, Tensor):
        return isinstance(row, bytes) and isinstance(content, bytes) and row == content
    try:
        return _holds(row, content)
    except (RuntimeError, TypeError):  # types that torch cannot compare
        return False


def is_ambiguous(row: Content, content: Content) -> bool:
    """Whether a row of a single value may be this content after any resizing: blank masks identify no sample."""
    if not isinstance(row, Tensor) or not isinstance(content, Tensor) or row.numel() < 2 or row.shape == content.shape:
        return False
    return _equal(row, row.flatten()[0].expand_as(row))


def _holds(row: Tensor, content: Tensor) -> bool:
    cast = content.to(row.dtype) if content.is_complex() == row.is_complex() else content
    if row.shape == cast.shape:
        return _equal(row, cast)
    if row.ndim != cast.ndim:
        return row.numel() == cast.numel() > 0 and _equal(row.flatten(), cast.flatten())
    if all(mine >= theirs for mine, theirs in zip(row.shape, cast.shape, strict=True)):
        return padding_of(row, cast) is not None
    shorter = all(mine <= theirs for mine, theirs in zip(row.shape, cast.shape, strict=True))
    return shorter and row.numel() > 0 and _equal(row, cast[near_corner(row.shape)])


def padding_of(row: Tensor, content: Tensor) -> Tensor | None:
    """The single value that pads a content to the shape of a row, on either side; None if there is none."""
    if not row.numel() or row.shape == content.shape:
        return None
    cast = content.to(row.dtype)
    for fill, corner in (
        (row.flatten()[-1], near_corner(cast.shape)),
        (row.flatten()[0], far_corner(cast.shape, row.shape)),
    ):
        if not _equal(row[corner], cast):
            continue
        padded = torch.full_like(row, 0).copy_(fill.expand_as(row))
        padded[corner] = cast
        if _equal(padded, row):
            return fill
    return None


def near_corner(sizes: Sequence[int]) -> tuple[slice, ...]:
    """The part of these sizes at the start of each axis."""
    return tuple(slice(0, size) for size in sizes)


def far_corner(inner: Sequence[int], outer: Sequence[int]) -> tuple[slice, ...]:
    """The part of the inner sizes at the end of each axis of the outer ones."""
    return tuple(slice(whole - size, whole) for size, whole in zip(inner, outer, strict=True))


def _equal(row: Tensor, content: Tensor) -> bool:
    """Whether two tensors of the same shape and dtype are equal; NaN equals NaN."""
    if torch.equal(row, content):
        return True
    if not row.is_floating_point():
        return False
    missing = row.isnan()
    return bool(missing.any()) and bool(((row == content) | (missing & content.isnan())).all())


FEWEST_DIFFERENT = 4
"""How many different values must become equal to exclude coincidence."""
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
"""The dtypes of integers to which collate_fn may cast."""


def lossy_casts(
    columns_by_name: Mapping[str, Column], contents: Sequence[Mapping[str, Content]]
) -> tuple[dict[str, str], ...]:
    """Leaves whose fractions are truncated so that all samples become equal, and those that overflow."""
    truncated: dict[str, str] = {}
    overflowed: dict[str, str] = {}
    for path in contents[0]:
        inside = [sample.get(path) for sample in contents]
        for column in columns_by_name.values():
            pairs = list(zip(inside, column.rows, strict=False))
            if len(column.rows) != len(inside) or not all(_is_integer_cast(content, row) for content, row in pairs):
                continue
            numbers = [
                (content, row) for content, row in pairs if isinstance(content, Tensor) and isinstance(row, Tensor)
            ]
            before, after = (str(content.dtype).removeprefix("torch.") for content in numbers[0])
            cast = f"{before} becomes {after} in batch{column.name}"
            if numbers[0][0].is_floating_point():
                if (
                    len({key(content) for content, _ in numbers})
                    >= FEWEST_DIFFERENT
                    > len({key(row) for _, row in numbers})
                    == 1
                ):
                    truncated[path] = cast
            elif any(not torch.equal(row.to(content.dtype), content) for content, row in numbers):
                overflowed[path] = cast
    return truncated, overflowed


_KEY = re.compile(r"\['[^'\[\]]+'\]")


def replaced_fields(columns_by_name: Mapping[str, Column], contents: Sequence[Mapping[str, Content]]) -> dict[str, str]:
    """Named leaves of the batch that hold another leaf of the same shape of each sample, by that one.

    The batch has their own content nowhere, and a leaf of the name that the other one has: a collate_fn that renames
    leaves, or leaves some out, does so on purpose.
    """
    replaced = {}
    for path in contents[0]:
        column = columns_by_name.get(path)
        own = [sample.get(path) for sample in contents]
        if not _KEY.fullmatch(path) or column is None or len(column.rows) != len(own):
            continue
        for other, theirs in columns_by_name.items():
            held = [sample.get(other) for sample in contents]
            if other == path or len({key(content) for content in held if content is not None}) < FEWEST_DIFFERENT:
                continue
            if (
                all(map(_are_alike_in_shape, own, held))
                and _rows_hold(theirs, held)
                and _rows_hold(column, held)
                and not any(_rows_hold(any_column, own) for any_column in columns_by_name.values())
            ):
                replaced[path] = other
    return replaced


def _are_alike_in_shape(content: Content | None, other: Content | None) -> bool:
    if not isinstance(content, Tensor) or not isinstance(other, Tensor):
        return False
    return content.shape == other.shape and content.numel() > 1 and not torch.equal(content, other)


def _rows_hold(column: Column, contents: Sequence[Content | None]) -> bool:
    """Whether each row is the content of the sample in its position."""
    pairs = list(zip(column.rows, contents, strict=False))
    return len(column.rows) == len(contents) and all(
        content is not None and holds(row, content) for row, content in pairs
    )


def _is_integer_cast(content: Content | None, row: Content) -> bool:
    """Whether a row is a content of another dtype that was cast to integers."""
    if not isinstance(content, Tensor) or not isinstance(row, Tensor) or content.shape != row.shape:
        return False
    whole = (
        row.dtype in INTEGERS
        and row.dtype != content.dtype
        and (content.is_floating_point() or content.dtype in INTEGERS)
    )
    return whole and holds(row, content)


@dataclass(frozen=True, slots=True)
class ShiftedNumbers:
    """Integers that grow by the rows of `other` in earlier samples, as indices of rows do, of which one is no index.

    That is `number`, in a sample in which `other` has so many `rows`.
    """

    other: str
    rows: int
    number: int


def may_be_joined(samples: Sequence[Mapping[str, Content]]) -> bool:
    """Whether a leaf of integers has another shape in each of some samples, as joined ones have."""
    for path, first in samples[0].items():
        parts = [sample.get(path) for sample in samples]
        shapes = {part.shape for part in parts if isinstance(part, Tensor) and part.ndim and part.dtype in INTEGERS}
        if isinstance(first, Tensor) and len(shapes) > 1:
            return True
    return False


def shifted_numbers(
    batch: Mapping[str, Content], samples: Sequence[Mapping[str, Content]]
) -> dict[str, ShiftedNumbers]:
    """The leaves of a batch that join those of samples, with such offsets, by path.

    The last number of pointers, such as the ends of sequences, is as large as the number of rows.
    """
    found: dict[str, ShiftedNumbers] = {}
    for path, joined in batch.items():
        parts = [sample.get(path) for sample in samples]
        steps = _steps_between(joined, parts)
        if len(set(steps)) < 2:
            continue
        for other, first in samples[0].items():
            leaves = [sample.get(other) for sample in samples[:-1]]
            axes = range(first.ndim) if isinstance(first, Tensor) else ()
            if not any([_size_of(leaf, axis) for leaf in leaves] == steps for axis in axes):
                continue
            largest = [int(part.max()) for part in parts[:-1] if isinstance(part, Tensor)]
            beyond = [(rows, number) for rows, number in zip(steps, largest, strict=True) if number > rows]
            if beyond:
                found[path] = ShiftedNumbers(other, *beyond[0])
            break
    return found


@dataclass(frozen=True, slots=True)
class UnmovedNumbers:
    """Pairs or triples of row numbers that are joined as they are, while the rows of `other` are joined as well.

    The second sample has so many `rows` of `other`, and `before` rows of the first one precede them. `moved`: not as
    they are, but a sample of `rows` moves those after it by this, its largest number and one; `before` is then 0.
    """

    other: str
    rows: int
    before: int
    moved: int | None = None


FEWEST_ROW_COUNTS = 4
"""Different numbers of rows of samples whose last row has the largest index: fewer may be labels that happen to fit."""


def unmoved_numbers(
    batch: Mapping[str, Content], samples: Sequence[Mapping[str, Content]]
) -> dict[str, UnmovedNumbers]:
    """The leaves of a batch that join edges, faces or other tuples of row numbers without their offsets, by path.

    A model cannot add the offsets, unless the batch says which of the tuples belong to which sample. Offsets that grow
    by the largest number and one miss the last rows of a sample that no tuple names.
    """
    found: dict[str, UnmovedNumbers] = {}
    by_length = {_size_of(rows, 0): path for path, rows in batch.items()}
    pairs = ((path, own) for path in batch for own in ([path] if path in samples[0] else samples[0]))
    for path, own in pairs:  # collate_fn may give leaves other names than samples do
        parts = [part for sample in samples if isinstance(part := sample.get(own), Tensor)]
        if len(parts) < len(samples):
            continue
        sizes = _tuples_in(batch[path], parts)
        ends = [int(part.max()) + 1 for part in parts] if all(part.numel() for part in parts) else []
        by_largest = not sizes and {2, 3} & set(parts[0].shape) and _steps_between(batch[path], parts) == ends[:-1]
        if by_largest and (short := _missing_rows(batch, samples, ends)) is not None:
            found[path] = short
        if not sizes or _says_parts(batch, path, sizes):
            continue
        for other in samples[0]:
            counts = [_size_of(sample.get(other), 0) or 0 for sample in samples]
            if other == own or sum(counts) not in by_length:
                continue
            reached = [count for end, count in zip(ends, counts, strict=True) if end == count]
            within = all(end <= count for end, count in zip(ends, counts, strict=True))
            if within and 2 * len(reached) >= len(ends) and len(set(reached)) >= FEWEST_ROW_COUNTS:
                named = other if _size_of(batch.get(other), 0) == sum(counts) else by_length[sum(counts)]
                found[path] = UnmovedNumbers(named, counts[1], counts[0])
                break
    return found


def _missing_rows(
    batch: Mapping[str, Content], samples: Sequence[Mapping[str, Content]], ends: Sequence[int]
) -> UnmovedNumbers | None:
    """The leaf that is joined and has more rows than `ends` in some samples, as many in others, and nowhere fewer.

    None if a leaf has as many everywhere: these are the rows then.
    """
    found = None
    for other in samples[0]:
        counts = [_size_of(sample.get(other), 0) or 0 for sample in samples]
        if counts == list(ends):
            return None
        more = [(count, end) for count, end in zip(counts, ends, strict=True) if count > end]
        within = all(count >= end for count, end in zip(counts, ends, strict=True))
        if within and len(more) < len(counts) and _size_of(batch.get(other), 0) == sum(counts):
            found = UnmovedNumbers(other, more[0][0], 0, more[0][1])
    return found


def _tuples_in(joined: Content, parts: Sequence[Tensor]) -> list[int]:
    """How many pairs or triples of integers each part has, if a leaf joins these as they are; empty if not."""
    if not isinstance(joined, Tensor) or not parts or any(not part.numel() or part.ndim != 2 for part in parts):
        return []
    for axis in (0, 1):
        sizes = [part.shape[axis] for part in parts]
        whole = {part.shape[1 - axis] for part in parts} <= {2, 3} and joined.dtype in INTEGERS
        if whole and sum(sizes) == _size_of(joined, axis) and torch.equal(joined, torch.cat(list(parts), axis)):
            return sizes
    return []


def _says_parts(batch: Mapping[str, Content], path: str, sizes: Sequence[int]) -> bool:
    """Whether another leaf of a batch holds the sizes of joined parts, their ends, or the number of each part."""
    lengths = torch.tensor(sizes)
    ends = lengths.cumsum(0)
    numbers = torch.arange(len(sizes)).repeat_interleave(lengths)
    wanted = (lengths, ends, ends[:-1], torch.cat([ends.new_zeros(1), ends]), numbers, ends - lengths)
    return any(
        other != path and isinstance(leaf, Tensor) and any(torch.equal(leaf.long().flatten(), one) for one in wanted)
        for other, leaf in batch.items()
        if isinstance(leaf, Tensor) and leaf.dtype in INTEGERS
    )


def _size_of(content: Content | None, axis: int) -> int | None:
    return content.shape[axis] if isinstance(content, Tensor) and content.ndim > axis else None


def _steps_between(joined: Content, parts: Sequence[Content | None]) -> list[int]:
    """By how much the offset of each part grows in a leaf that joins these; empty if it does not, or has no offsets."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if not isinstance(joined, Tensor) or len(tensors) != len(parts) or not joined.ndim:
        return []
    if any(one.dtype not in INTEGERS or one.ndim != joined.ndim or not one.numel() for one in (joined, *tensors)):
        return []
    for axis in range(joined.ndim):
        sizes = [part.shape[axis] for part in tensors]
        others = {part.shape[:axis] + part.shape[axis + 1 :] for part in (joined, *tensors)}
        if sum(sizes) == joined.shape[axis] and len(others) == 1:
            moved = [
                (one.long() - two.long()).unique() for one, two in zip(joined.split(sizes, axis), tensors, strict=True)
            ]
            offsets = [int(each[0]) for each in moved if len(each) == 1]
            return [two - one for one, two in pairwise(offsets)] if len(offsets) == len(tensors) else []
    return []
