"""Whether reading a sample changes the data of the dataset: arrays, images, numbers, lists, at any depth."""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import is_pillow, iter_leaves, leaves_of
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.object_graph import Node, reachable
from dataguard.lab.core.source_location import made_at
from dataguard.lab.reading.sample_reader import Reader
from dataguard.targets.variants import Loader

FEW = 64
"""Entries of a container that are compared, in addition to those of the sample itself."""
MOST_ENTRIES = 4096
"""A longer list does not belong to one sample."""
MOST_BYTES = 1 << 25
"""Of a larger array only the sample's own rows are compared."""
LATER = (1, 0, 2)
"""The generator states of the reads after the first."""
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, torch.Generator)


@dataclass(frozen=True, slots=True)
class Change:
    """A value that reading one sample changed, where the dataset is defined, and whether it has one row per sample.

    `shared`: processes share its memory, so that what a worker changes outlives the worker.
    """

    path: str
    at: tuple[str, int] | None
    rows: bool
    shared: bool = False


def find_changes(loader: Loader, folder: Path, first: Index, index: Index) -> tuple[Change, ...]:
    """What reading a sample again changes, at any of its reads; the first one may fill a cache."""
    reader = Reader(loader, folder)
    reader.read(first)
    lengths = _lengths(reader.read(index))
    before = {path: leaves_of(value) for path, value in _contents(loader.dataset, index)}
    listed = _lists(loader.dataset, index)
    changed: dict[str, bool] = {}
    shared: set[str] = set()
    for draw in LATER:
        longer = _lengths(reader.read(index, draw))
        after = dict(_contents(loader.dataset, index))
        other = [path for path, leaves in before.items() if path in after and leaves_of(after[path]) != leaves]
        changed |= {path: _rows(after[path]) == length_of(loader.dataset) for path in other}
        shared |= {path for path in other if any(_is_shared(leaf) for _, leaf in iter_leaves(after[path]))}
        now = _lists(loader.dataset, index)
        made = [path for path, entries in listed.items() if _is_of(lengths, longer, entries, now.get(path))]
        changed |= dict.fromkeys(made, False)
    return tuple(Change(path, made_at(loader.dataset), rows, path in shared) for path, rows in changed.items())


def _is_shared(leaf: Any) -> bool:
    """Whether other processes see what is written to an array: it is in a file or in shared memory."""
    while isinstance(leaf, np.ndarray) and not isinstance(leaf, np.memmap):
        leaf = leaf.base
    if isinstance(leaf, torch.Tensor):
        return leaf.device.type != "cpu" or leaf.is_shared()
    return isinstance(leaf, np.memmap | memoryview | mmap.mmap)


Plain = Counter[object]
"""The entries of a list, in any order."""


def _lists(dataset: Any, index: Index) -> dict[str, Plain]:
    """The lists of strings or numbers that belong to the sample, by path."""
    nodes = _reached({"dataset": dataset})
    own = _reached(_own(nodes, {index, *_looked_up(nodes, index)}))
    lists = ((node.path, node.value) for node in own if type(node.value) is list and len(node.value) <= MOST_ENTRIES)
    return {path: Counter(value) for path, value in lists if all(type(one) in (int, float, str) for one in value)}


def _is_of(lengths: Counter[int], longer: Counter[int], before: Plain, after: Plain | None) -> bool:
    """Whether the entries of a list changed, and the length of the sample with them.

    A list that only moves or shrinks is a queue of views, and does not count.
    """
    if after is None or after == before or after.total() < before.total():
        return False
    return lengths[before.total()] > 0 and longer[after.total()] > 0


def _lengths(sample: Any) -> Counter[int]:
    """The lengths of a sample's leaves, along any axis, and the number of words of a string."""
    lengths: Counter[int] = Counter()
    for _, leaf in iter_leaves(sample):
        lengths.update(getattr(leaf, "shape", ()) or ())
        lengths.update([len(leaf.split())] if isinstance(leaf, str) else [])
        lengths.update([len(leaf)] if isinstance(leaf, list) else [])
    return lengths


def _rows(value: Any) -> int | None:
    return int(value.shape[0]) if getattr(value, "shape", ()) else None


def _contents(dataset: Any, index: Index) -> Iterator[tuple[str, Any]]:
    """All data in the dataset of some size or precision, by path; counters are left out."""
    nodes = _reached({"dataset": dataset})
    targets = {index, *_looked_up(nodes, index)}
    for node in [*nodes, *_reached(_own(nodes, targets))]:
        for step, value in _values(node.value, targets):
            if isinstance(value, torch.Tensor | np.ndarray) and value.nbytes > MOST_BYTES:
                rows = [target for target in targets if isinstance(target, int) and 0 <= target < len(value)]
                yield from ((f"{node.path}{step}[{row}]", value[row]) for row in rows)
            elif _is_content(value):
                yield f"{node.path}{step}", value


def _own(nodes: Iterable[Node], targets: Collection[Index]) -> dict[str, Any]:
    """The entries of large containers at the targets, by path."""
    return {
        f"{node.path}[{key!r}]": entry
        for node in nodes
        for key, entry in _entries(node.value, targets)
        if not isinstance(entry, int | str | bytes | type(None))
    }


def _reached(roots: dict[str, Any]) -> list[Node]:
    """Every object that can be reached, except tensors."""
    return list(reachable(roots, lambda value: not isinstance(value, _GENERATORS), enter=True))


def _looked_up(nodes: Iterable[Node], index: Index) -> Iterator[int]:
    """What tables of indices, such as a Subset's, hold at this index."""
    for node in nodes:
        if isinstance(index, int) and type(node.value) in (list, tuple, np.ndarray) and len(node.value) > index:
            found = node.value[index]
            if isinstance(found, int | np.integer) and not isinstance(found, bool):
                yield int(found)


def _entries(value: Any, targets: Iterable[Index]) -> list[tuple[Any, Any]]:
    """The entries of a container at the targets."""
    if type(value) is dict:
        return [(target, value[target]) for target in targets if target in value]
    if type(value) in (list, tuple):
        numbers = [target for target in targets if isinstance(target, int) and 0 <= target < len(value)]
        return [(number, value[number]) for number in numbers]
    return []


def _values(value: Any, targets: Iterable[Index]) -> Iterator[tuple[str, Any]]:
    """An object itself, and what it holds directly."""
    yield "", value
    if isinstance(value, dict | list | tuple):
        first = value.items() if isinstance(value, dict) else enumerate(value)
        yield from ((f"[{key!r}]", item) for key, item in (*islice(first, FEW), *_entries(value, targets)))
    else:
        yield from ((f".{name}", item) for name, item in getattr(value, "__dict__", {}).items())


def _is_content(value: Any) -> bool:
    """Whether a value is data: an array, an image or a float."""
    if isinstance(value, torch.Tensor):
        return value.numel() > 1
    if isinstance(value, np.ndarray):
        return value.size > 1 and value.dtype != object
    return isinstance(value, float) or is_pillow(value)
