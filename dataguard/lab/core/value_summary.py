"""The values in a sample or batch, as plain data. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dataguard.lab.core.index import Index


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the last axis of a leaf: the sum, the two largest and the smallest of its values."""

    sum: float
    largest: float
    second: float
    least: float


@dataclass(frozen=True, slots=True)
class Numbers:
    """The values of one leaf of a sample or batch, which may be a label, boxes or an image.

    `low` and `high` are the smallest and the largest finite value. `whole`: all are integers; `counts` is how often
    each occurs, if there are few. `divided`: the values times 255 are integers, and `counts` holds these. `rows`
    summarize each row of a table in a batch, and `values` are all values, if there are few. `layout` and `canvas` are
    the format of boxes and the height and width of their image, if their type has these.
    """

    path: str
    type_name: str
    shape: tuple[int, ...]
    low: float
    high: float
    whole: bool
    counts: Mapping[int, int] | None = None
    divided: bool = False
    rows: tuple[Row, ...] = ()
    values: tuple[float, ...] = ()
    layout: str | None = None
    canvas: tuple[int, int] | None = None

    @property
    def is_float(self) -> bool:
        """Whether its values are floating point numbers."""
        return "float" in self.type_name

    @property
    def size(self) -> int:
        """The number of values."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """The values in the leaves of one sample or, if `position` is None, of a whole batch."""

    worker: int | None
    batch: int
    position: int | None
    index: Index
    numbers: tuple[Numbers, ...]

    @property
    def place(self) -> tuple[int | None, int, int | None]:
        """The worker, the number of its batch, and the position there."""
        return self.worker, self.batch, self.position
