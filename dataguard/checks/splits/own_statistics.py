"""Splits that are standardized by their own statistics. Standard library only."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from dataguard.checks.common.labels import samples_of
from dataguard.core.incident import observed_or_none

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.splits.tables import Table

EXACT = 1e-4
"""How far the mean of a standardized column may be off 0, and its deviation off 1: float32 leaves 1e-6. By the
statistics of other rows, one of 10,000 has a mean as small in one of a hundred cases, and two columns never have."""
NEAR = 0.5
"""How far those of a few samples may be off."""
FEWEST_ROWS, FEWEST_COLUMNS = 24, 2


def standardized(lab: Lab) -> Table | None:
    """The leaf of samples that are rows of which each column has mean 0 and standard deviation 1, if there is one.

    Over all samples: of a table in memory, or as they are read.
    """
    held = observed_or_none(lambda: lab.splits.tables) or ()
    found = next(filter(_is_standardized, held), None)
    if found or not any(map(_may_be, _rows(lab).values())):
        return found
    return next(filter(_is_standardized, observed_or_none(lambda: lab.splits.every_sample.tables) or ()), None)


def _rows(lab: Lab) -> dict[str, list[tuple[float, ...]]]:
    """The rows of floats of the samples that were read, by leaf."""
    rows: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for sample in samples_of(lab.epoch.value_summaries):
        for one in sample.numbers:
            if one.is_float and len(one.shape) == 1 and one.values:
                rows[one.path].append(one.values)
    return rows


def _may_be(rows: list[tuple[float, ...]]) -> bool:
    """Whether columns may be standardized, by a few rows."""
    if len(rows) < FEWEST_ROWS or len(set(map(len, rows))) > 1 or len(rows[0]) < FEWEST_COLUMNS:
        return False
    return all(abs(fmean(column)) < NEAR and abs(pstdev(column) - 1) < NEAR for column in zip(*rows, strict=True))


def _is_standardized(table: Table) -> bool:
    """Whether all columns are, by their deviations over the rows or over one row less."""
    columns = table.columns
    if len(columns) < FEWEST_COLUMNS or columns[0].count < FEWEST_ROWS:
        return False
    count = columns[0].count
    exact = (
        max(abs(math.sqrt(one.variance * count / (count - less)) - 1) for one in columns) < EXACT for less in (0, 1)
    )
    return max(abs(one.mean) for one in columns) < EXACT and any(exact)
