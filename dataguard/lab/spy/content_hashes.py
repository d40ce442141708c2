"""Content hashes: a number for the content of a sample, cheap enough to compute for every sample.

Samples with the same hash are most likely equal; both are read again and compared before a verdict. Windows of one text
have shingles in common, which are hashes of short runs of tokens, wherever the windows begin.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.index import Index, plain_index
from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.leaves import iter_leaves

MOST_WORDS = 1 << 16
"""How many words of 8 bytes, evenly spaced, are hashed of one array."""
FEWEST_BYTES = 64
RICH = 128
"""Fewest bytes of compressed content that two samples do not share by chance: more than a few numbers, a short string
or an empty image."""
_WEIGHTS = np.random.default_rng(514).integers(1, 1 << 63, MOST_WORDS, dtype=np.uint64) | np.uint64(1)
LENGTH = 16
"""Tokens of a shingle: two documents do not share so many in a row by chance."""
FEWEST_TOKENS = 2 * LENGTH
"""The fewest tokens of a row."""
VARIED = 6
"""The fewest different tokens of a shingle: padding and rules are the same in all documents."""
KEPT = 8
"""One shingle in so many is kept, by its hash: the same ones in every window."""
_OF_TOKENS = np.random.default_rng(201).integers(1, 1 << 63, LENGTH, dtype=np.uint64) | np.uint64(1)


def hash_of(sample: Any) -> int | None:
    """The hash of the largest array of a sample; None if it has no array of some size."""
    try:
        found = largest_of(leaf for _, leaf in iter_leaves(sample))
        return None if found is None else hashes_of_rows(found[None])[0]
    except Exception:  # noqa: BLE001 - an array type that cannot be read is no error of the user
        return None


def hashes_of_rows(arrays: np.ndarray) -> list[int]:
    """The hash of each row of an array."""
    count = len(arrays)
    flat = np.ascontiguousarray(arrays).reshape(count, -1).view(np.uint8)
    words = flat[:, : flat.shape[1] // 8 * 8].view(np.uint64)
    words = words[:, :: -(-words.shape[1] // MOST_WORDS)]
    size = np.uint64(flat.shape[1])
    hashes: list[int] = (words @ _WEIGHTS[: words.shape[1]] + size).tolist()
    return hashes


def largest_of(leaves: Iterable[Any]) -> np.ndarray | None:
    """The largest array among some leaves, as a numpy array; None if all are small."""
    arrays = [array for array in map(bytes_of, leaves) if array is not None]
    found = max(arrays, key=lambda one: one.nbytes, default=None)
    return found if found is not None and found.nbytes >= FEWEST_BYTES else None


def bytes_of(leaf: Any) -> np.ndarray | None:
    """The bytes of a dense CPU tensor, an array of numbers, a string or an image; None for anything else."""
    if isinstance(leaf, torch.Tensor):
        if leaf.layout is not torch.strided or leaf.device.type != "cpu" or leaf.is_nested or leaf.is_quantized:
            return None
        plain = leaf.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg().contiguous()
        return plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else None
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc" and leaf.size:
        return np.ascontiguousarray(leaf).reshape(-1).view(np.uint8)
    if isinstance(leaf, str):
        return np.frombuffer(leaf.encode("utf-8", "surrogatepass"), np.uint8)
    if type(leaf).__module__.startswith("PIL.") and hasattr(leaf, "tobytes"):
        return np.frombuffer(leaf.tobytes(), np.uint8)
    return None


def is_rich(content: np.ndarray) -> bool:
    """Whether the content is so rich that two samples do not share it by chance."""
    return content.nbytes >= FEWEST_BYTES and len(zlib.compress(content.tobytes(), 1)) >= RICH


@dataclass(frozen=True, slots=True)
class SampleHashes:
    """The hashes of the samples that were read, and their indices."""

    indices: array[int] = field(default_factory=lambda: array("q"))
    hashes: array[int] = field(default_factory=lambda: array("Q"))

    @classmethod
    def merged(cls, several: Iterable[SampleHashes]) -> SampleHashes | None:
        """All of these merged; None if there are no hashes."""
        found = cls()
        for one in several:
            found.indices.extend(one.indices)
            found.hashes.extend(one.hashes)
        return found if found.hashes else None

    def by_index(self) -> dict[Index, int]:
        """The hash of each index; one that was read twice counts once."""
        return dict(zip(self.indices, self.hashes, strict=True))


@dataclass(frozen=True, slots=True)
class ContentHashes(Instrument):
    """Records the hashes of all samples with integer indices."""

    def start(self, process: Process) -> Hooks:
        """Each process writes its own file."""
        return _ContentHashes(process)


class _ContentHashes(Hooks):
    def __init__(self, process: Process) -> None:
        self._path = process.folder / f"{'main' if process.worker is None else process.worker}.hashes"

    def at_samples(self, fetch: Fetch, samples: Sequence[Any]) -> None:
        """Record the hashes of the samples of a batch."""
        rows: list[int] = []
        for index, sample in zip(map(plain_index, fetch.indices), samples, strict=False):
            if isinstance(index, int) and (number := hash_of(sample)) is not None:
                rows += (index & (1 << 64) - 1, number)
        with self._path.open("ab", buffering=0) as file:
            file.write(np.array(rows, dtype=np.uint64).tobytes())


def read_hashes(folders: Iterable[Path]) -> SampleHashes:
    """The hashes that the processes of some observations recorded."""
    found = SampleHashes()
    for path in (path for folder in folders for path in sorted(folder.glob("*.hashes"))):
        rows = np.fromfile(path, dtype=np.uint64)
        rows = rows[: len(rows) // 2 * 2].reshape(-1, 2)
        found.indices.frombytes(rows[:, 0].astype(np.int64).tobytes())
        found.hashes.frombytes(np.ascontiguousarray(rows[:, 1]).tobytes())
    return found


def shingles_of(sample: Any) -> list[int]:
    """The shingles of the longest rows of tokens in a sample or batch; none if there are no tokens."""
    rows = list(_token_rows(sample))
    longest = max(map(len, rows), default=0)
    first = {row.tobytes(): row for row in rows if len(row) == longest}  # labels may be the same
    return list(dict.fromkeys(shingle for row in first.values() for shingle in _shingles(row)))


def _shingles(row: np.ndarray) -> list[int]:
    runs = np.lib.stride_tricks.sliding_window_view(row.astype(np.uint64), LENGTH)
    hashes = runs @ _OF_TOKENS
    chosen = (hashes >> np.uint64(40)) % np.uint64(KEPT) == 0
    varied = [len(np.unique(run)) >= VARIED for run in runs[chosen]]
    found: list[int] = (hashes[chosen][varied] >> np.uint64(1)).tolist()
    return found


def _token_rows(value: Any) -> Iterator[np.ndarray]:
    """Every long row of integers in a sample or batch."""
    if isinstance(value, torch.Tensor):
        value = value.detach().numpy() if value.device.type == "cpu" and value.layout is torch.strided else None
    if isinstance(value, list | tuple) and len(value) >= FEWEST_TOKENS and all(type(one) is int for one in value):
        value = np.array(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "iu" and value.ndim in (1, 2) and value.shape[-1] >= FEWEST_TOKENS:
            yield from value.reshape(-1, value.shape[-1])
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _token_rows(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _token_rows(one)
