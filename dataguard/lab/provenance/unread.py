"""What a dataset holds and no sample of it reads: the last rows, files or parts, where the others are read in order.

Rows and files of some samples are found as for `lab.provenance.rows` and `.reads`. If they advance by one step from
index to index, the last sample says where reading ends.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Subset
from xxhash import xxh3_64_intdigest

from dataguard.core.incident import LoaderFailed
from dataguard.lab.core.loader_facts import DEEPEST_NESTING, length_of
from dataguard.lab.core.object_graph import attributes_of
from dataguard.lab.core.records import Index
from dataguard.lab.provenance.open_sources import path_of
from dataguard.lab.provenance.reads_seen import ReadLog
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.row_changes import Store
from dataguard.lab.rows.rows_changed import RowTracer, values_of
from dataguard.lab.rows.stores import Axes, held_stores
from dataguard.process.originals import os

FEWEST_SAMPLES = 8
"""Samples of a dataset that is read in order; of fewer, a step is no pattern."""
MOST_DATASETS = 8
"""Datasets inside a loader's own, such as joined parts, that are looked at."""
MOST_ROWS = 200_000
"""Rows whose content is compared with those of other loaders: a limit of time."""
MOST_UNREAD_ROWS, MOST_UNREAD_FILES = 0.1, 0.25
"""The share of rows and files above which what is unread may be there for others on purpose."""
FEWEST_PER_BATCH = 8
"""Rows of a batch from which on as many samples as batches are a length in batches, and no half or quarter of rows."""
FEWEST_FILES = 3
"""Files that are seen to be read in order."""
READ_SAMPLES = 7
"""Samples of a dataset that are read: the first and the last two, and some between."""
_LIMITS = re.compile(r"limit|max|first|end|stop|size|samples|total|subset|length|count|num|^n$")
"""Names of attributes by which a user stops early."""
_SHARES = re.compile(r"frac|ratio|percent|portion|share|split|subset")


@dataclass(frozen=True, slots=True)
class Reach:
    """How far the samples of a dataset reach into the rows or files that it holds: to before `end` of `count`.

    Each sample reads a `window` of so many, and the next one begins a `step` later. `unread` and `read` are hashes of
    the content of rows, or the paths of files, which are the same in other loaders; `unread` is empty if it is much,
    unless there are as many samples as batches of rows.
    `limited`: an attribute of the dataset says where it stops, or the rows that are left are empty.
    """

    kind: str
    path: str
    samples: int
    count: int
    end: int
    window: int
    step: int
    unread: tuple[int | str, ...] = ()
    read: frozenset[int | str] = frozenset()
    limited: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of joined datasets from which a subset chooses: how many samples each has, and which are requested.

    `name` is equal in loaders that choose from the same one, or from one that differs in its transforms.
    """

    path: str
    name: str
    lengths: tuple[int, ...]
    requested: tuple[frozenset[int], ...]


@dataclass(frozen=True, slots=True)
class Reached:
    """How far all datasets inside a loader's own are read."""

    reaches: tuple[Reach, ...]
    parts: tuple[Parts, ...]


def find_reached(
    reader: Reader, drawn: Collection[Index], axes_of: Callable[[Sequence[Index]], Axes] | None
) -> Reached:
    """Read samples of each dataset inside the loader's own, and change rows in memory if `axes_of` is given.

    `axes_of` finds the axes of the rows of the dataset that is read, by samples with such indices. `drawn` are the
    indices of an epoch.
    """
    own, log = reader.dataset, ReadLog()
    reaches: list[Reach] = []
    for path, dataset in _without_subsets("dataset", own):
        count = length_of(dataset) or 0
        if count < FEWEST_SAMPLES:
            continue
        chosen = sorted({0, 1, count // 4, count // 2, 3 * count // 4, count - 2, count - 1})
        reader.dataset = dataset
        try:
            found = [
                *_files(reader, log, path, chosen),
                *(_rows(reader, path, chosen, axes_of(chosen)) if axes_of else ()),
            ]
        except LoaderFailed:
            continue
        finally:
            reader.dataset = own
        reaches += [replace(one, limited=one.limited or _is_limited(dataset, one)) for one in found]
    return Reached(tuple(reaches), tuple(_parts("dataset", own, drawn)))


def _without_subsets(path: str, dataset: Any, depth: int = 0) -> list[tuple[str, Any]]:
    """The datasets below subsets and joined ones that hold something; none that wraps what a subset chose."""
    if depth > DEEPEST_NESTING:
        return []
    if isinstance(dataset, Subset):
        return _without_subsets(f"{path}.dataset", dataset.dataset, depth + 1)
    if isinstance(dataset, ConcatDataset):
        parts = [
            _without_subsets(f"{path}.datasets[{place}]", part, depth + 1)
            for place, part in enumerate(dataset.datasets)
        ]
        return [each for part in parts for each in part][:MOST_DATASETS]
    if any(isinstance(value, Subset) for value in attributes_of(dataset).values()):
        return []
    return [(path, dataset)]


def _parts(path: str, dataset: Any, indices: Collection[Index]) -> Iterator[Parts]:
    wanted = [index for index in indices if isinstance(index, int)]
    chosen = False
    for _ in range(DEEPEST_NESTING):
        if not isinstance(dataset, Subset):
            break
        chosen = True
        wanted, dataset, path = [int(dataset.indices[index]) for index in wanted], dataset.dataset, f"{path}.dataset"
    if chosen and isinstance(dataset, ConcatDataset) and len(wanted) == len(indices):
        starts = [0, *dataset.cumulative_sizes]
        requested = [frozenset(index for index in wanted if low <= index < high) for low, high in pairwise(starts)]
        lengths = tuple(high - low for low, high in pairwise(starts))
        name = repr([(type(part).__qualname__, length) for part, length in zip(dataset.datasets, lengths, strict=True)])
        yield Parts(path, name, lengths, tuple(requested))


def _rows(reader: Reader, path: str, chosen: Sequence[int], axes: Axes) -> Iterator[Reach]:
    """How far the rows of arrays, tables and lists are read, on which the largest leaf of samples depends."""
    first = values_of(reader.read(chosen[0]))
    largest = max(first, key=lambda leaf: first[leaf].nbytes, default=None)
    stores = [store for store in held_stores(reader.dataset, axes) if store.count <= MOST_ROWS]
    tracer = RowTracer(reader.read, stores)
    spans: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    main: dict[int, Store] = {}
    for index in chosen:
        traced = tracer.trace(index)
        for store in stores:
            known = [row for leaf in traced.leaves if leaf.source == store.path for row in leaf.known]
            if any(leaf.source == store.path and leaf.path == largest for leaf in traced.leaves):
                main[store.count] = max(store, main.get(store.count, store), key=lambda one: one.bytes)
            if known:  # of arrays that have as many rows, some are read ahead of others, as targets are
                low, high = spans[store.count].get(index, (known[0], known[0]))
                spans[store.count][index] = min(low, *known), max(high, *known)
    for count, store in main.items():
        own = [spans[count][index] for index in chosen if index in spans[count]]
        step = _step(own, chosen)
        if step is None:
            continue
        low, high = own[0]
        if low == high and _chooses(reader.dataset, chosen[-1] + 1):
            continue
        end = own[-1][1] + 1
        size = reader.loader.batch_size or 1
        in_batches = size >= FEWEST_PER_BATCH and high == low and step == 1 and end == count // size
        few = in_batches or count - end <= MOST_UNREAD_ROWS * count
        left = [store.entry(row) for row in range(end, count)] if few else []
        blank = len(left) > 1 and len({entry.content for entry in left}) == 1
        blank = blank or not any(any(entry.content) for entry in left)
        yield Reach(
            "rows",
            f"{path}{store.path.removeprefix('dataset')}",
            chosen[-1] + 1,
            count,
            end,
            high - low + 1,
            step,
            tuple(xxh3_64_intdigest(entry.content) for entry in left),
            frozenset(xxh3_64_intdigest(store.entry(row).content) for row in range(low, end)),
            limited=blank,
        )


def _length(value: Any) -> int:
    return len(value) if getattr(value, "ndim", 1) else 0


def _chooses(dataset: Any, samples: int) -> bool:
    """Whether a dataset lists a whole number for each sample: which rows it was given, and not how many there are."""
    for value in attributes_of(dataset).values():
        listed = isinstance(value, list | tuple | range | np.ndarray | torch.Tensor) and _length(value) == samples
        if listed and all(isinstance(one, int | np.integer) for one in (value[0], value[-1])):
            return True
        if listed and isinstance(value, torch.Tensor) and value.ndim == 1 and not value.is_floating_point():
            return True
    return False


def _step(spans: Sequence[tuple[int, int]], chosen: Sequence[int]) -> int | None:
    """By how much rows advance from one index to the next, if they do so evenly and the window stays the same."""
    if len(spans) != len(chosen) or len({high - low for low, high in spans}) != 1 or chosen[1] != chosen[0] + 1:
        return None
    step = spans[1][0] - spans[0][0]
    even = all(low == spans[0][0] + step * (index - chosen[0]) for (low, _), index in zip(spans, chosen, strict=True))
    return step if step > 0 and even else None


def _files(reader: Reader, log: ReadLog, path: str, chosen: Sequence[int]) -> Iterator[Reach]:
    """How far lists of files are read."""
    lists = dict(_lists_of_files(reader.dataset))
    if not lists:
        return
    read: list[list[str]] = []
    for index in chosen:
        with log.recorded():
            reader.read(index)
        read.append([one.file for one in log.reads if one.file is not None])
    for name, files in lists.items():
        place = {file: number for number, file in enumerate(files)}
        numbers = [[place[file] for file in own if file in place] for own in read]
        known = [(min(own), max(own)) for own in numbers if own]  # what is open already is not opened again
        even = all(one[0] <= other[0] and one[1] <= other[1] for one, other in pairwise(known))
        if len({low for low, _ in known}) < FEWEST_FILES or not (numbers[-1] or numbers[-2]) or not even:
            continue
        first, end = known[0][0], known[-1][1] + 1
        left = tuple(files[end:]) if len(files) - end <= MOST_UNREAD_FILES * len(files) else ()
        window = max(high - low for low, high in known) + 1
        yield Reach(
            "files",
            f"{path}.{name}",
            chosen[-1] + 1,
            len(files),
            end,
            window,
            1,
            left,
            frozenset(files[first:end]),
        )


def _lists_of_files(dataset: Any) -> Iterator[tuple[str, list[str]]]:
    """Attributes that list files of one kind."""
    for name, value in attributes_of(dataset).items():
        if isinstance(value, list | tuple) and len(value) > 1:
            ends = [path_of(one) for one in (value[0], value[-1]) if isinstance(one, str | os.PathLike)]
            if len(ends) == 2 and None not in ends:
                files = [os.path.realpath(one) for one in value if isinstance(one, str | os.PathLike)]
                if len(files) == len(value) == len(set(files)) and len({Path(file).suffix for file in files}) == 1:
                    yield name, files


def _is_limited(dataset: Any, reach: Reach) -> bool:
    """Whether an attribute of a dataset says where it stops, as a limit or a share of the data does."""
    for name, value in attributes_of(dataset).items():
        lowered = name.lower().strip("_")
        if isinstance(value, float) and 0 < value < 1 and _SHARES.search(lowered):
            return True
        if isinstance(value, int | np.integer) and _LIMITS.search(lowered) and int(value) in (reach.samples, reach.end):
            return True
    return False
