"""Tables by which a dataset or its collate_fn numbers names, whatever they are called, and where numbers are returned.

A table may number what no sample shows, such as rows of the dataset. So it is changed for a moment, and samples are
read again: integers that follow come from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dataguard.core.incident import LoaderFailed
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.object_graph import Node, reachable
from dataguard.lab.core.records import Index
from dataguard.lab.reading.sample_reader import Reader
from dataguard.targets.variants import Loader

FEWEST_NAMES, MOST_NAMES = 3, 50_000
"""Names in a table: fewer may be settings, and more may be samples."""
LARGEST_FIRST = 8
"""The largest first number of a table: numbers below it may be special tokens."""
MOST_TABLES = 16
"""Tables that are compared, the nearest first."""
NUMBERED_READS = 4
"""Samples that are read before and after a table is changed."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """A table `where` names have consecutive numbers."""

    where: str
    numbers: Mapping[str, int]


def find_numberings(loader: Loader) -> tuple[Numbering, ...]:
    """The tables that can be reached from a loader."""
    return tuple(Numbering(node.path, dict(node.value)) for node in _tables(loader))


def find_numbered_leaves(reader: Reader, where: str, indices: Sequence[Index]) -> tuple[str, ...]:
    """The leaves of batches of one sample whose integers change as those of a table do."""
    node = next((node for node in _tables(reader.loader) if node.path == where), None)
    if node is None:
        return ()
    table = node.value
    before = _integers(reader, indices)
    own = dict(table)
    moved = dict(zip(own, [*own.values()][1:] + [*own.values()][:1], strict=True))
    table.update(moved)
    try:
        after = _integers(reader, indices)
    except LoaderFailed:
        return ()
    finally:
        table.update(own)
    expected = {number: moved[name] for name, number in own.items()}
    return tuple(path for path, values in before.items() if path in after and _follow(values, after[path], expected))


def _tables(loader: Loader) -> Iterator[Node]:
    roots = {"dataset": loader.dataset, "collate_fn": loader.collate_fn}
    for number, node in enumerate(reachable(roots, _is_numbering)):
        if number == MOST_TABLES:
            return
        yield node


def _is_numbering(value: Any) -> bool:
    if type(value) is not dict or not FEWEST_NAMES <= len(value) <= MOST_NAMES:
        return False
    if not all(type(name) is str and type(number) is int for name, number in value.items()):
        return False
    numbers = sorted(value.values())
    return 0 <= numbers[0] <= LARGEST_FIRST and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _integers(reader: Reader, indices: Sequence[Index]) -> dict[str, list[list[int]]]:
    """The integers of each leaf of batches of one sample, or of samples that make no batch, by path."""
    found: dict[str, list[list[int]]] = {}
    for index in indices:
        value, batched = reader.collated(reader.read(index))
        for path, leaf in iter_leaves(value):
            array = array_of(leaf)
            if array.dtype.kind in "iu":
                found.setdefault(f"{'batch' if batched else 'sample'}{path}", []).append(array.reshape(-1).tolist())
    return found


def _follow(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]], expected: Mapping[int, int]) -> bool:
    """Whether integers differ, and only as the table does."""
    if [len(values) for values in before] != [len(values) for values in after]:
        return False
    pairs = [pair for one, two in zip(before, after, strict=True) for pair in zip(one, two, strict=True)]
    changed = [(one, two) for one, two in pairs if one != two]
    return bool(changed) and all(expected.get(one) == two for one, two in changed)
