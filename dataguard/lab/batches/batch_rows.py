"""A batch as columns of rows, and which sample each row belongs to, judged by content."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, unpack_sequence

from dataguard.lab.core.leaves import describe, iter_leaves

MOST_COLUMNS = 128
"""Most columns of a batch that are compared: each with every sample."""
FEWEST_DIFFERENT = 4
"""How many different values must become equal to exclude coincidence."""
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
"""The dtypes of integers to which collate_fn may cast."""
_NUMBERED = re.compile(r"\[(\d+)\]")

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


def sample_contents(sample: Any) -> dict[str, Content]:
    """The content of each leaf of a sample, by path."""
    return {path: content_of(leaf) for path, leaf in iter_leaves(sample)}


def columns(batch: Any, count: int) -> Iterator[Column]:
    """Every way to split a batch into rows; along axes other than the first only if that yields `count` rows."""
    leaves = list(iter_leaves(batch, atomic=(PackedSequence,)))
    found: dict[str, dict[int, Any]] = defaultdict(dict)
    for path, leaf in leaves:
        for name, number in _listed(path):
            found[name][number] = leaf
    single = {
        name for name, items in found.items() if len(items) == count > 1 and _are_arrays_of_one_rank(items.values())
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
    for name, items in list(found.items())[:MOST_COLUMNS]:
        if set(items) == set(range(len(items))) and not _has_packed(items.values()):
            yield Column(name, tuple(content_of(items[number]) for number in range(len(items))))


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
    most = max(4 * count, 16)
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
    return shorter and row.numel() > 0 and _equal(row, cast[_corner(row.shape)])


def padding_of(row: Tensor, content: Tensor) -> Tensor | None:
    """The single value that pads a content to the shape of a row, on either side; None if there is none."""
    if not row.numel() or row.shape == content.shape:
        return None
    cast = content.to(row.dtype)
    for fill, corner in (
        (row.flatten()[-1], _corner(cast.shape)),
        (row.flatten()[0], _far_corner(cast.shape, row.shape)),
    ):
        if not _equal(row[corner], cast):
            continue
        padded = torch.full_like(row, 0).copy_(fill.expand_as(row))
        padded[corner] = cast
        if _equal(padded, row):
            return fill
    return None


def _corner(shape: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(0, size) for size in shape)


def _far_corner(inner: Sequence[int], outer: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(whole - size, whole) for size, whole in zip(inner, outer, strict=True))


def _equal(one: Tensor, two: Tensor) -> bool:
    """Whether two tensors of the same shape and dtype are equal; NaN equals NaN."""
    if torch.equal(one, two):
        return True
    return one.is_floating_point() and bool(((one == two) | (one.isnan() & two.isnan())).all())


def lossy_casts(found: Mapping[str, Column], contents: Sequence[Mapping[str, Content]]) -> tuple[dict[str, str], ...]:
    """Leaves whose fractions are truncated so that all samples become equal, and those that overflow."""
    truncated: dict[str, str] = {}
    overflowed: dict[str, str] = {}
    for path in contents[0]:
        inside = [one.get(path) for one in contents]
        for column in found.values():
            pairs = list(zip(inside, column.rows, strict=False))
            if len(column.rows) != len(inside) or not all(_is_integer_cast(one, row) for one, row in pairs):
                continue
            numbers = [(one, row) for one, row in pairs if isinstance(one, Tensor) and isinstance(row, Tensor)]
            before, after = (str(one.dtype).removeprefix("torch.") for one in numbers[0])
            cast = f"{before} becomes {after} in batch{column.name}"
            if numbers[0][0].is_floating_point():
                if (
                    len({key(one) for one, _ in numbers})
                    >= FEWEST_DIFFERENT
                    > len({key(row) for _, row in numbers})
                    == 1
                ):
                    truncated[path] = cast
            elif any(not torch.equal(row.to(one.dtype), one) for one, row in numbers):
                overflowed[path] = cast
    return truncated, overflowed


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
