"""Which samples were read, in a few numbers for each, however large it is.

A `Ledger` of a stream takes 8 bytes for the digest of a sample, and 8 more for each leaf. Of a stream of more than
`MOST_SAMPLES` samples only numbers below a bound are kept, the same bound in every process: a sample that two processes
yield is kept by both or by neither.

`ContentHashes` of a map-style dataset take one number for each sample, cheap enough for all samples. Samples with the
same hash are most likely equal; both are read again and compared before a verdict. Windows of one text have shingles in
common, which are hashes of short runs of tokens, wherever the windows begin.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import get_worker_info
from xxhash import xxh3_64_intdigest

from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.records import Index, SampleRecord, plain_index

MOST_SAMPLES = 1_000_000
"""Streams of up to so many samples are kept whole: 72 MB of their digests, at most."""


@dataclass(frozen=True, slots=True)
class LedgerResolution:
    """How much of each sample is kept: numbers below 2 to the power of (64 - `level`), of at most so many `leaves`."""

    level: int = 0
    leaves: int = 64


EVERY_SAMPLE = LedgerResolution()
"""The resolution for a stream of which only some samples are read."""


def resolution_for(samples: int) -> LedgerResolution:
    """The resolution for so many samples: at most 72 bytes of each are kept, and of at most a million.

    Digests are evenly distributed: halving the bound halves how many are below it.
    """
    return LedgerResolution(level=max(0, (max(samples, 1) - 1) // MOST_SAMPLES).bit_length(), leaves=8)


@dataclass(frozen=True, slots=True)
class Account:
    """What one process yielded in an epoch: the number of samples, and their digests in order, by leaf path."""

    samples: int
    columns: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def identities(self) -> Sequence[int]:
        """The digests of whole samples."""
        return self.columns.get(_WHOLE, ())

    @property
    def paths(self) -> list[str]:
        """The paths of the leaves."""
        return [path for path in self.columns if path != _WHOLE]


class Ledger:
    """Records the digests of all samples of one process; written digests survive a crash."""

    def __init__(self, folder: Path, worker: int | None, depth: LedgerResolution) -> None:
        self._stem = folder / ("main" if worker is None else str(worker))
        self._depth = depth
        self._columns: dict[str, int] = {}
        self._samples: Counter[int] = Counter()

    def enter(self, epoch: int, records: Iterable[SampleRecord]) -> None:
        """Record samples of an epoch."""
        rows = []
        for record in records:
            self._samples[epoch] += 1
            rows.append((_WHOLE, identity_of(record)))
            rows += [(leaf.path, int.from_bytes(leaf.digest, "little")) for leaf in record.leaves[: self._depth.leaves]]
        kept = [(path, number) for path, number in rows if not number >> (_DIGEST_BITS - self._depth.level)]
        written = len(self._columns)
        numbered = np.array([(self._column(path), number) for path, number in kept], dtype=_ROW)
        # Opened each time: user code may close descriptors that are not its own.
        with self._file("columns").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(path) + "\n" for path in list(self._columns)[written:])
        with self._file(f"{epoch}.ledger").open("ab", buffering=0) as file:
            file.write(numbered.tobytes())
        self._file(f"{epoch}.count").write_text(str(self._samples[epoch]))

    def _column(self, path: str) -> int:
        return self._columns.setdefault(path, len(self._columns))

    def _file(self, ending: str) -> Path:
        return self._stem.with_name(f"{self._stem.name}.{ending}")


def read_ledgers(folder: Path, epoch: int) -> dict[int, Account]:
    """What the processes of one observation recorded in an epoch, by worker; -1 is the main process."""
    accounts = {}
    for count in folder.glob(f"*.{epoch}.count"):
        name = count.name.partition(".")[0]
        accounts[-1 if name == "main" else int(name)] = _read(folder, name, epoch, int(count.read_text() or 0))
    return dict(sorted(accounts.items()))


def _read(folder: Path, name: str, epoch: int, samples: int) -> Account:
    paths = [json.loads(line) for line in (folder / f"{name}.columns").read_text(encoding="utf-8").splitlines()]
    rows = np.fromfile(folder / f"{name}.{epoch}.ledger", dtype=_ROW)
    columns = {}
    for column, path in enumerate(paths):
        numbers = rows["number"][rows["column"] == column]
        if len(numbers):
            columns[path] = array("Q", numbers.tobytes())
    return Account(samples, columns)


_ROW = np.dtype([("column", "<u2"), ("number", "<u8")])
"""A digest and the column that it is in, as written to the file: the position of its path among those seen so far."""
_WHOLE = "whole"
"""The column of the whole sample; every other column has the path of a leaf, which is empty for a bare tensor."""
_DIGEST_BITS = 64
"""The bits of a digest."""


def identity_of(record: SampleRecord) -> int:
    """The digest of a sample, from the paths and digests of all its leaves, as a number."""
    digest = hashlib.blake2b(digest_size=8)
    for leaf in record.leaves:
        digest.update(leaf.path.encode(errors="surrogatepass"))
        digest.update(leaf.digest)
    return int.from_bytes(digest.digest(), "little")


@dataclass(frozen=True, slots=True)
class GlobalWorkerIds(Instrument):
    """Lets `get_worker_info` number the workers of all `world` ranks as if one loader had them.

    Each keeps the seed that torch gave it.
    """

    rank: int
    world: int

    @contextlib.contextmanager
    def around_init(self) -> Iterator[None]:
        """Renumber this worker before the user's `worker_init_fn` runs and gets the new id."""
        info: Any = get_worker_info()
        renumbered = {"id": self.rank * info.num_workers + info.id, "num_workers": self.world * info.num_workers}
        for name, value in renumbered.items():
            object.__setattr__(info, name, value)  # the object refuses assignment
        yield


@dataclass(frozen=True, slots=True)
class SampleHashes:
    """The hashes of the samples that were read, and their indices."""

    indices: array[int] = field(default_factory=lambda: array("q"))
    hashes: array[int] = field(default_factory=lambda: array("Q"))

    @classmethod
    def merged(cls, several: Iterable[SampleHashes]) -> SampleHashes | None:
        """All of these merged; None if there are no hashes."""
        merged = cls()
        for hashes in several:
            merged.indices.extend(hashes.indices)
            merged.hashes.extend(hashes.hashes)
        return merged if merged.hashes else None

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
    merged = SampleHashes()
    for path in (path for folder in folders for path in sorted(folder.glob("*.hashes"))):
        rows = np.fromfile(path, dtype=np.uint64)
        rows = rows[: len(rows) // 2 * 2].reshape(-1, 2)
        merged.indices.frombytes(rows[:, 0].astype(np.int64).tobytes())
        merged.hashes.frombytes(np.ascontiguousarray(rows[:, 1]).tobytes())
    return merged


def hash_of(sample: Any) -> int | None:
    """The hash of the largest array of a sample; None if it has no array of some size."""
    try:
        largest = largest_of(leaf for _, leaf in iter_leaves(sample))
        return (
            None
            if largest is None
            else xxh3_64_intdigest(np.ascontiguousarray(_words(largest[None])[0]).data, largest.size)
        )
    except Exception:  # noqa: BLE001 - an array type that cannot be read is no error of the user
        return None


MOST_WORDS = 1 << 16
"""How many words of 8 bytes, evenly spaced, are hashed of one array: 512 kB of it."""
_WORD_WEIGHTS = np.random.default_rng(514).integers(1, 1 << 63, MOST_WORDS, dtype=np.uint64) | np.uint64(1)
"""Random odd numbers, the same in every process."""


def hashes_of_rows(arrays: np.ndarray) -> list[int]:
    """The hash of each row of an array.

    A sum of products with random odd weights, modulo 2 to the power of 64, and the length. An odd weight is invertible,
    so that rows that differ in one word differ in their hash. Rows that differ in the signs of an even number of words
    alone do not, which costs a comparison. As one matrix product it takes a seventh of the time of xxhash (20,000 rows
    of 128 bytes: 0.4 ms and 2.8 ms).
    """
    words = _words(arrays)
    size = np.uint64(arrays[:1].nbytes)
    hashes: list[int] = (words @ _WORD_WEIGHTS[: words.shape[1]] + size).tolist()
    return hashes


def _words(arrays: np.ndarray) -> np.ndarray:
    """Each row of an array as words, at most `MOST_WORDS` of them."""
    flat = np.ascontiguousarray(arrays).reshape(len(arrays), -1).view(np.uint8)
    words = flat[:, : flat.shape[1] // 8 * 8].view(np.uint64)
    every: np.ndarray = words[:, :: -(-words.shape[1] // MOST_WORDS)]
    return every


FEWEST_HASHED_BYTES = 64
"""The fewest bytes of an array that identifies a sample: fewer are a label, sizes, or a few coordinates."""


def largest_of(leaves: Iterable[Any]) -> np.ndarray | None:
    """The largest array among some leaves, as a numpy array; None if all are small."""
    arrays = [array for array in map(bytes_of, leaves) if array is not None]
    largest = max(arrays, key=lambda array: array.nbytes, default=None)
    return largest if largest is not None and largest.nbytes >= FEWEST_HASHED_BYTES else None


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


FEWEST_COMPRESSED_BYTES = 128
"""Fewest bytes of compressed content that two samples do not share by chance: more than a few numbers, a short string
or an empty image."""


def is_rich(content: np.ndarray) -> bool:
    """Whether the content is so rich that two samples do not share it by chance."""
    return content.nbytes >= FEWEST_HASHED_BYTES and len(zlib.compress(content.tobytes(), 1)) >= FEWEST_COMPRESSED_BYTES


SHINGLE_TOKENS = 16
"""Tokens of a shingle: two documents do not share so many in a row by chance."""
FEWEST_TOKENS = 2 * SHINGLE_TOKENS
"""The fewest tokens of a row."""
FEWEST_DIFFERENT_TOKENS = 6
"""The fewest different tokens of a shingle: padding and rules are the same in all documents."""
SHINGLES_PER_KEPT = 8
"""One shingle in so many is kept, by its hash: the same ones in every window."""
_TOKEN_WEIGHTS = np.random.default_rng(201).integers(1, 1 << 63, 64, dtype=np.uint64) | np.uint64(1)
"""Random odd numbers, the same in every process, as for words; as many as the longest shingle has tokens."""


def shingles_of(sample: Any) -> list[int]:
    """The shingles of the longest rows of tokens in a sample or batch; none if there are no tokens."""
    rows = list(token_rows(sample))
    longest = max(map(len, rows), default=0)
    first = {row.tobytes(): row for row in rows if len(row) == longest}  # labels may be the same
    return list(dict.fromkeys(shingle for row in first.values() for shingle in _shingles(row)))


def _shingles(row: np.ndarray) -> list[int]:
    shingles: list[int] = places_of_shingles(row)[1].tolist()
    return shingles


def places_of_shingles(row: np.ndarray, length: int = SHINGLE_TOKENS) -> tuple[np.ndarray, np.ndarray]:
    """Where the kept shingles of a row of tokens begin, and their hashes; each has so many tokens, up to 64."""
    runs = np.lib.stride_tricks.sliding_window_view(row.astype(np.uint64), length)
    hashes = runs @ _TOKEN_WEIGHTS[:length]
    # By the high bits: the low ones depend on the low bits of the tokens alone.
    places = np.flatnonzero((hashes >> np.uint64(40)) % np.uint64(SHINGLES_PER_KEPT) == 0)
    different = 1 + (np.diff(np.sort(runs[places, :SHINGLE_TOKENS], axis=1), axis=1) != 0).sum(axis=1)
    places = places[different >= FEWEST_DIFFERENT_TOKENS]
    return places, hashes[places] >> np.uint64(1)


def token_rows(value: Any) -> Iterator[np.ndarray]:
    """Every long row of integers in a sample or batch."""
    if isinstance(value, torch.Tensor):
        value = value.detach().numpy() if value.device.type == "cpu" and value.layout is torch.strided else None
    if isinstance(value, list | tuple) and len(value) >= FEWEST_TOKENS and all(type(number) is int for number in value):
        value = np.array(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "iu" and value.ndim in (1, 2) and value.shape[-1] >= FEWEST_TOKENS:
            yield from value.reshape(-1, value.shape[-1])
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from token_rows(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from token_rows(part)
