"""What a leaf of integers may label, by its type and shape and by the leaves beside it. Standard library only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataguard.lab.core.records import LeafRecord, SampleRecord
    from dataguard.lab.core.value_summary import Numbers

SMALLER = 8
"""A label of several values is at least this many times smaller than its input."""
_LAST = re.compile(r"\[\d+\]$")


class Kind(Enum):
    """What has one label each."""

    SAMPLE = "sample"
    BOX = "box"
    TOKEN = "token"
    PIXEL = "pixel"


@dataclass(frozen=True, slots=True)
class Inputs:
    """The leaves of a sample that may be inputs: whether one is `large`, and the `lists` of numbers, by path."""

    leaves: Sequence[LeafRecord]
    large: bool
    lists: Collection[str]

    @classmethod
    def of(cls, record: SampleRecord) -> Inputs:
        """Those of one sample."""
        entries = (leaf.path for leaf in record.leaves if leaf.kind == "int")
        lists = Counter(_LAST.sub("", path) for path in entries if _LAST.search(path))
        long = {path for path, length in lists.items() if length >= SMALLER}
        return cls(record.leaves, any(map(_is_input, record.leaves)), long)


def kind_of(numbers: Numbers, beside: Sequence[Numbers], inputs: Inputs) -> Kind | None:
    """What these integers may label, by their shape and by the leaves beside them."""
    if numbers.is_float or numbers.type_name == "bool":
        return None
    shape = numbers.shape
    others = [one for one in beside if one is not numbers]
    if len(shape) == 1 and any(one.shape == (*shape, 4) for one in others):
        return Kind.BOX
    if numbers.size == 1:
        # A number may also be beside, and not in, a list of numbers as long as an input, such as tokens.
        beside_list = bool(inputs.lists) and _LAST.sub("", numbers.path) not in inputs.lists
        return Kind.SAMPLE if inputs.large or _is_row(others) or beside_list else None
    if len(shape) == 1:
        return Kind.TOKEN if any(one.shape == shape and not one.is_float for one in others) else None
    height_width = shape if len(shape) == 2 else shape[1:] if len(shape) == 3 and shape[0] == 1 else None
    images = [leaf for leaf in inputs.leaves if leaf.path != numbers.path and _is_image_of(leaf, height_width)]
    return Kind.PIXEL if height_width and images else None


def _is_input(leaf: LeafRecord) -> bool:
    """Whether a leaf is large enough to be the input of one label: many values, or a string."""
    return leaf.size >= SMALLER if leaf.shape is not None else leaf.kind in ("str", "bytes")


def _is_row(beside: Sequence[Numbers]) -> bool:
    """Whether only a short row of floats is beside a number: the input from a table with few columns."""
    return len(beside) == 1 and beside[0].is_float and 1 < beside[0].size == beside[0].shape[-1]


def _is_image_of(leaf: LeafRecord, height_width: tuple[int, ...] | None) -> bool:
    shape = leaf.shape or ()
    if height_width is None:
        return False
    if leaf.kind == "PIL.Image":
        return shape[::-1] == height_width
    return len(shape) == 3 and height_width in (shape[1:], shape[:2])


def common_kind(kinds: Sequence[Kind | None], shapes: Collection[tuple[int, ...]]) -> Kind | None:
    """The kind of a leaf if it is the same in all samples; beside a single number, some inputs may be too short."""
    known = set(kinds) - {None}
    short = kinds.count(None)
    if len(known) != 1 or (short and (known != {Kind.SAMPLE} or len(shapes) > 1 or 2 * short > len(kinds))):
        return None
    return known.pop()
