"""Whether samples of different files are equal because the files have one name: a cache knows them by that alone.

Pairs of indices are read whose files have the same name in different folders, and different contents. If the second one
yields what the first one does, and its own file is not read, something was kept under the name.
"""

from __future__ import annotations

import filecmp
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataguard.core.incident import LoaderFailed
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.object_graph import attributes_of
from dataguard.lab.provenance.open_sources import path_of
from dataguard.lab.provenance.reads_seen import ReadLog
from dataguard.lab.reading.sample_reader import Reader
from dataguard.process.originals import os
from dataguard.targets.variants import Loader

PAIRS = 4
"""Pairs of samples that are read."""
FEWEST_PAIRS = 3
"""Pairs that are needed, of different contents: fewer may be duplicates."""
MOST_ENTRIES = 500_000
"""Entries of a list whose names are compared."""


@dataclass(frozen=True, slots=True)
class SharedNames:
    """Pairs of indices that were read, and the `leaf` that is equal in each of them; empty if any pair differs.

    `files` are those of the first pair.
    """

    pairs: tuple[tuple[int, int], ...] = ()
    leaf: str = ""
    files: tuple[str, ...] = ()


def find_shared_names(loader: Loader, folder: Path) -> SharedNames:
    """Read the samples of files that have one name."""
    chosen = list(_pairs(loader.dataset))
    if len(chosen) < FEWEST_PAIRS:
        return SharedNames()
    pairs = tuple(pair for pair, _ in chosen)
    reader, log = Reader(loader, folder), ReadLog()
    equal: set[str] | None = None
    contents: dict[str, set[bytes]] = defaultdict(set)
    for (one, other), files in chosen:
        try:
            with log.files() as first_read:
                first = {leaf.path: leaf for leaf in leaves_of(reader.read(one))}
            with log.files() as second_read:
                second = {leaf.path: leaf for leaf in leaves_of(reader.read(other))}
        except LoaderFailed:
            return SharedNames()
        if files[1] in {*first_read, *second_read}:
            return SharedNames(pairs)
        alike = {path for path, leaf in first.items() if path in second and second[path].digest == leaf.digest}
        equal = alike if equal is None else equal & alike
        for path in alike:
            contents[path].add(first[path].digest)
    largest = max(first.values(), key=lambda leaf: leaf.size if leaf.shape else 0).path
    if largest in (equal or ()) and len(contents[largest]) >= FEWEST_PAIRS:
        return SharedNames(pairs, largest, chosen[0][1])
    return SharedNames(pairs)


def _pairs(dataset: Any) -> Iterator[tuple[tuple[int, int], tuple[str, str]]]:
    """Some indices whose files have one name and different contents, with the files."""
    for files in _files(dataset):
        by_name: dict[str, list[int]] = defaultdict(list)
        for index, file in enumerate(files):
            by_name[os.path.basename(file)].append(index)
        for one, other, *_ in evenly([indices for indices in by_name.values() if len(indices) > 1], PAIRS):
            paths = [path_of(files[index]) for index in (one, other)]
            if paths[0] and paths[1] and not filecmp.cmp(paths[0], paths[1], shallow=False):
                yield (one, other), (paths[0], paths[1])


def _files(dataset: Any) -> Iterator[list[str]]:
    """A list in which a dataset has one file for each sample."""
    length = length_of(dataset)
    for value in attributes_of(dataset).values():
        if not isinstance(value, list | tuple) or len(value) != length or not 1 < length <= MOST_ENTRIES:
            continue
        parts = [part for part in _parts(value[0]) if isinstance(_of(value[0], part), str | os.PathLike)]
        parts = [part for part in parts if path_of(_of(value[0], part)) is not None]
        files = [_of(entry, parts[0]) for entry in value] if len(parts) == 1 else []
        if files and all(isinstance(file, str | os.PathLike) for file in files):
            yield [os.fspath(file) for file in files]
            return


def _parts(entry: Any) -> Iterator[Any]:
    """The keys or positions of an entry of several parts; None for one that is a single value."""
    if isinstance(entry, Mapping):
        yield from entry
    elif isinstance(entry, list | tuple):
        yield from range(len(entry))
    else:
        yield None


def _of(entry: Any, part: Any) -> Any:
    try:
        return entry if part is None else entry[part]
    except (LookupError, TypeError):
        return None
