"""All samples of a split, read once each: hashes of their contents, and tables of floats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from xxhash import xxh3_64

from dataguard.lab.core.leaves import array_of, describe, iter_leaves
from dataguard.lab.core.records import Index, LeafRecord
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.splits.tables import Table, table_of_leaf
from dataguard.targets.variants import Loader

MOST_COLUMNS = 1024
"""A longer row is a signal, and no row of a table."""


@dataclass(frozen=True, slots=True)
class EverySample:
    """A hash of the content of each sample by its index, and the tables of leaves that are a row in every sample."""

    hashes: Mapping[Index, int]
    tables: tuple[Table, ...]


def read_every(loader: Loader, folder: Path, indices: Sequence[Index]) -> EverySample:
    """Read each of these samples under one random state."""
    if not indices:
        return EverySample({}, ())
    reader, hashes = Reader(loader, folder), {}
    rows: dict[str, list[np.ndarray]] = defaultdict(list)
    for index in indices:
        leaves = list(iter_leaves(reader.read(index)))
        number = hash_of([describe(*leaf) for leaf in leaves])
        if number is not None:
            hashes[index] = number
        for path, leaf in leaves:
            array = array_of(leaf) if isinstance(leaf, torch.Tensor | np.ndarray) else None
            if array is not None and array.ndim == 1 and array.dtype.kind == "f" and 0 < array.size <= MOST_COLUMNS:
                rows[path].append(array.astype(np.float64))
    even = {path: held for path, held in rows.items() if len(held) == len(indices) > 1 and len({*map(len, held)}) == 1}
    return EverySample(hashes, tuple(table_of_leaf(path, np.stack(held)) for path, held in even.items()))


def hash_of(leaves: Sequence[LeafRecord]) -> int | None:
    """The digest of the largest array of a sample, else of its first string, else of all values."""
    arrays = [leaf for leaf in leaves if leaf.shape]
    strings = [leaf for leaf in leaves if leaf.kind == "str"]
    if not leaves:
        return None
    if not arrays and not strings:  # a short list of token ids has a leaf for each
        return xxh3_64(b"".join(leaf.digest for leaf in leaves)).intdigest()
    largest = max(arrays or strings[:1], key=lambda leaf: np.prod(leaf.shape or ()))
    return int.from_bytes(largest.digest, "little")
