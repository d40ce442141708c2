"""Labels that a dataset stores in a table: found among its attributes, and verified by labels of samples.

A table is an attribute with one entry per sample, or the tables of wrapped datasets, joined as `Subset` and
`ConcatDataset` do. It counts only if it agrees with every label that was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Subset

from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.wrapped_datasets import columns_of
from dataguard.targets.variants import Loader

MOST_ENTRIES = 5_000_000
MOST_COLUMNS = 64
FEWEST = 8
"""The fewest labels that must agree with a table."""


@dataclass(frozen=True, slots=True)
class Table:
    """Where labels are stored, how often each occurs, and the first index of each."""

    where: str
    counts: Mapping[int, int]
    first: Mapping[int, int]


def find_table(build: Callable[..., Loader], seen: Sequence[tuple[int, int]]) -> Table | None:
    """The table in a loader's dataset that contains these pairs of index and label, if any."""
    if len(seen) < FEWEST or len({label for _, label in seen}) < 2:
        return None
    indices, labels = (np.array(column) for column in zip(*seen, strict=True))
    for name, (path, table) in columns_of(build(num_workers=0).dataset, _tables).items():
        if indices.min() >= 0 and indices.max() < len(table) and (table[indices] == labels).all():
            values, first, counts = np.unique(table, return_index=True, return_counts=True)
            numbers = values.tolist()
            return Table(
                path + name,
                dict(zip(numbers, counts.tolist(), strict=True)),
                dict(zip(numbers, first.tolist(), strict=True)),
            )
    return None


def _tables(dataset: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The integer tables with one entry per sample among the attributes of a dataset."""
    length = length_of(dataset)
    if length is None or not 0 < length <= MOST_ENTRIES or isinstance(dataset, Subset | ConcatDataset):
        return
    for name, value in list(getattr(dataset, "__dict__", {}).items())[:MOST_COLUMNS]:
        yield from ((f".{name}{step}", table) for step, table in _columns(value, length))


def _columns(value: Any, length: int) -> Iterator[tuple[str, np.ndarray]]:
    """The integers of an attribute with so many entries: the entries themselves, or a part of each."""
    if type(value).__name__ == "DataFrame" and len(value) == length:
        for name in list(value.columns)[:MOST_COLUMNS]:
            yield from ((f"[{name!r}]", table) for _, table in _columns(value[name].to_numpy(), length))
    elif isinstance(value, torch.Tensor | np.ndarray):
        if value.ndim == 1 and len(value) == length:
            array = value.numpy() if isinstance(value, torch.Tensor) else value
            yield from [("", array)] if array.dtype.kind in "iu" else []
    elif isinstance(value, list | tuple) and len(value) == length:
        first = value[0]
        if _is_whole(first) and all(map(_is_whole, value)):
            yield "", np.array(value)
        elif isinstance(first, tuple | list) and len({len(entry) for entry in value if hasattr(entry, "__len__")}) == 1:
            for place, part in enumerate(first[:MOST_COLUMNS]):
                if _is_whole(part) and all(isinstance(entry, tuple | list) for entry in value):
                    column = [entry[place] for entry in value]
                    yield from [(f"[*][{place}]", np.array(column))] if all(map(_is_whole, column)) else []


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
