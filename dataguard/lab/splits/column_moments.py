"""The mean and standard deviation of each column of a split whose samples are rows of floats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.records import Index
from dataguard.lab.reading.sample_reader import Reader
from dataguard.targets.variants import Loader


@dataclass(frozen=True, slots=True)
class ColumnMoments:
    """The columns of one leaf over all samples: their means, and standard deviations with and without correction."""

    path: str
    samples: int
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    corrected: tuple[float, ...]


def find_moments(loader: Loader, folder: Path, indices: Sequence[Index]) -> tuple[ColumnMoments, ...]:
    """Read each of these samples once; leaves that some of them lack, or have in another size, are left out."""
    reader, rows = Reader(loader, folder), defaultdict(list)
    for index in indices:
        for path, leaf in iter_leaves(reader.read(index)):
            array = array_of(leaf) if hasattr(leaf, "dtype") else None
            if array is not None and array.ndim == 1 and array.dtype.kind == "f" and array.size:
                rows[path].append(array.astype(np.float64))
    tables = ((path, held) for path, held in rows.items() if len(held) == len(indices) > 1)
    return tuple(_moments(path, np.stack(held)) for path, held in tables if len({len(row) for row in held}) == 1)


def _moments(path: str, table: np.ndarray) -> ColumnMoments:
    moments = table.mean(0), table.std(0), table.std(0, ddof=1)
    return ColumnMoments(path, len(table), *(tuple(map(float, each)) for each in moments))
