"""Leaves of one width with padding at different ends, and lengths or masks that are not those of a padded leaf.

Padding is a run of one value at an end of rows, of several lengths. A leaf with as many at the other end in all rows
has contents where others have padding: it was not moved with them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dataguard.lab.batches.batch_rows import Column

FEWEST_ROWS, FEWEST_RUNS = 4, 3
"""Rows of a batch, and different lengths of their padding, that are needed: other leaves hardly have the same ones."""
LEAST_WIDTH = 3
"""The width of the shortest rows that are padded."""


@dataclass(frozen=True, slots=True)
class Runs:
    """A leaf whose rows of one width end, or begin, in runs of one value; `is_mask`: they hold nothing but 0 and 1."""

    leaf: str
    width: int
    at_end: bool
    counts: tuple[int, ...]
    fill: float
    is_mask: bool

    @property
    def end(self) -> str:
        """In words."""
        return "end" if self.at_end else "beginning"


@dataclass(frozen=True, slots=True)
class Opposite:
    """Two leaves with the same padding in each row, at different ends: fewer leaves have it where the `other` does."""

    leaf: Runs
    other: Runs


@dataclass(frozen=True, slots=True)
class Inverted:
    """A mask that is 1 where the leaf is padded, though its name, or another mask beside it, is 1 for contents."""

    leaf: Runs
    mask: str
    beside: str | None


@dataclass(frozen=True, slots=True)
class Overlong:
    """A leaf of lengths that fit the padding of another leaf, but for these rows: there they exceed its width."""

    leaf: Runs
    lengths: str
    rows: tuple[int, ...]
    length: int


@dataclass(frozen=True, slots=True)
class Sides:
    """What is wrong with the padding of one batch."""

    opposite: tuple[Opposite, ...] = ()
    inverted: tuple[Inverted, ...] = ()
    overlong: tuple[Overlong, ...] = ()


NO_SIDES = Sides()


def find_sides(candidates: Sequence[Column]) -> Sides:
    """Compare the padding of all leaves of a batch whose rows have one width."""
    runs = [one for column in candidates for one in _runs(column)]
    padded = [one for one in runs if not one.is_mask]
    masks = [one for one in runs if one.is_mask]
    return Sides(
        tuple(_opposite(padded, masks)),
        tuple(_inverted(padded, masks)),
        tuple(found for one in _padded_somewhere(candidates) for found in _overlong(one, candidates)),
    )


def _runs(column: Column) -> Iterator[Runs]:
    """The padding of a leaf: none if its lengths do not vary, or if contents stand amid it, as images may."""
    found = [_run(column, at_end=at_end) for at_end in (True, False)]
    varying = [one for one in found if one is not None and len(set(one.counts)) >= FEWEST_RUNS]
    if len(varying) == 1 or all(one.is_mask for one in varying):
        yield from varying


def _padded_somewhere(candidates: Iterable[Column]) -> Iterator[Runs]:
    """Leaves with padding at the end in some rows."""
    for column in candidates:
        found = _run(column, at_end=True)
        if found is not None and not found.is_mask and any(found.counts):
            yield found


def _run(column: Column, *, at_end: bool) -> Runs | None:
    rows = [row for row in column.rows if isinstance(row, Tensor) and row.ndim in (1, 2) and not row.is_complex()]
    if len(rows) < max(len(column.rows), FEWEST_ROWS) or len({row.shape for row in rows}) > 1:
        return None
    width = len(rows[0])
    if width < LEAST_WIDTH or not rows[0].numel():
        return None
    values = torch.stack(rows).double().reshape(len(rows), width, -1)
    values = values.flip(1) if at_end else values
    edges = values[:, 0]
    constant = edges[(edges == edges[:, :1]).all(1), 0]
    if not len(constant):
        return None
    fill = constant.mode().values
    filled = (values == fill).all(2)
    counts = tuple(int(row.long().cumprod(0).sum()) for row in filled)
    is_mask = values.shape[2] == 1 and bool(((values == 0) | (values == 1)).all()) and _is_one_run(filled)
    return Runs(column.name, width, at_end, counts, float(fill), is_mask)


def _is_one_run(filled: Tensor) -> bool:
    """Whether what is filled is at this end only."""
    return bool((filled.long().cumprod(1) == filled.long()).all())


def _opposite(padded: Sequence[Runs], masks: Sequence[Runs]) -> Iterator[Opposite]:
    """Leaves with the same padding at both ends, unless masks fit those at either one."""
    alike: dict[tuple[int, tuple[int, ...]], list[Runs]] = defaultdict(list)
    for one in [*padded, *masks]:
        alike[one.width, one.counts].append(one)
    for group in alike.values():
        leaves, fitting = ([one for one in group if one.is_mask is are_masks] for are_masks in (False, True))
        sides = {one.at_end for one in leaves}
        if not leaves or sides <= {mask.at_end for mask in fitting} or len({one.at_end for one in group}) < 2:
            continue
        if not fitting and len({one.fill for one in group}) > 1:
            continue
        at_end = [one for one in group if one.at_end]
        at_start = [one for one in group if not one.at_end]
        most, fewest = (at_end, at_start) if len(at_end) >= len(at_start) else (at_start, at_end)
        if len(most) == len(fewest) and any(one.is_mask for one in most):
            most, fewest = fewest, most
        yield Opposite(most[0], fewest[0])


def _are_alike(one: Runs, other: Runs) -> bool:
    return (one.width, one.counts, one.at_end) == (other.width, other.counts, other.at_end)


_KEEPS = re.compile(r"att(ention|n)_?mask", re.IGNORECASE)
_HIDES = re.compile(r"pad", re.IGNORECASE)
"""Names of masks that are 1 for contents, and of those that are 1 for padding."""


def _inverted(padded: Sequence[Runs], masks: Sequence[Runs]) -> Iterator[Inverted]:
    """Masks that are 1 where a leaf is padded."""
    keeping = [mask.leaf for mask in masks if mask.fill == 0 and any(_are_alike(one, mask) for one in padded)]
    for one in padded:
        for mask in masks:
            if not _are_alike(one, mask) or mask.fill != 1 or _HIDES.search(mask.leaf):
                continue
            beside = next((name for name in keeping if name != mask.leaf and _kind(name) == _kind(mask.leaf)), None)
            if beside or _KEEPS.search(mask.leaf):
                yield Inverted(one, mask.leaf, beside)


def _kind(name: str) -> str | None:
    """The last word of a name: that of `src_mask` and `tgt_mask` is one."""
    words = re.findall(r"[A-Za-z]+", name)
    return words[-1].lower() if words else None


_LENGTHS = re.compile(r"(?<![a-z])(len|length)s?(?![a-z])", re.IGNORECASE)
_OF_WHOLE = re.compile(r"orig|full|total|raw|file|max|video|audio", re.IGNORECASE)
"""Names of lengths, and those of what was there before it was cut."""


def _overlong(padded: Runs, candidates: Iterable[Column]) -> Iterator[Overlong]:
    """Lengths that fit the padding of a leaf where they are less than its width, and exceed it elsewhere."""
    for column in candidates:
        if not _LENGTHS.search(column.name) or _OF_WHOLE.search(column.name):
            continue
        rows = [row for row in column.rows if isinstance(row, Tensor) and not row.ndim and not row.is_floating_point()]
        lengths = [int(row) for row in rows]
        if len(lengths) != len(padded.counts):
            continue
        pairs = list(zip(lengths, padded.counts, strict=True))
        short = [(length, count) for length, count in pairs if length < padded.width]
        over = tuple(row for row, length in enumerate(lengths) if length > padded.width)
        fits = all(length + count == padded.width for length, count in short) and not any(
            count for length, count in pairs if length >= padded.width
        )
        if over and fits and len({length for length, _ in short}) > 1:
            yield Overlong(padded, column.name, over, max(lengths))
