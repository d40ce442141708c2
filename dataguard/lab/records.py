"""What travels out of the user's processes: small, frozen, plain data. Standard library only."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataguard.model import Incident

Index = int | str | tuple[Any, ...] | None
"""An index as a sampler gave it, when it is plain enough to be given again; None for streams."""


def plain_index(index: Any) -> Index:
    """The index itself when it is a plain number, string or tuple of such; None otherwise.

    numpy integers and 0-d integer tensors, which samplers do yield, become int.
    """
    if isinstance(index, tuple):
        items = tuple(plain_index(item) for item in index)
        return None if None in items else items
    if isinstance(index, str):
        return index
    try:
        return operator.index(index)
    except (TypeError, RuntimeError):  # not a number; a tensor of several elements
        return None


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value at the bottom of a sample or batch.

    `kind` is the type's name, `shape` is None for what has none, `digest` is 8 bytes of BLAKE2b over dtype, shape and
    content. `nan` and `inf` count non-finite elements; `mask` says that they are nothing but -inf in an additive mask.
    """

    path: str
    kind: str
    dtype: str | None
    shape: tuple[int, ...] | None
    digest: bytes
    nan: int = 0
    inf: int = 0
    mask: bool = False


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One sample as the dataset gave it, before collating. `worker` is None in the main process."""

    worker: int | None
    epoch: int
    batch: int
    position: int
    index: Index
    shown: str | None
    seconds: float
    leaves: tuple[Leaf, ...]

    @property
    def digest(self) -> tuple[tuple[str, bytes], ...]:
        """The identity of the whole content: every leaf's path and digest."""
        return tuple((leaf.path, leaf.digest) for leaf in self.leaves)

    @property
    def structure(self) -> tuple[tuple[object, ...], ...]:
        """What decides whether samples stack: the path, type, dtype and shape of every leaf."""
        return tuple((leaf.path, leaf.kind, leaf.dtype, leaf.shape) for leaf in self.leaves)


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch as collate_fn gave it, inside the worker.

    `shared_bytes` is what sending it takes of shared memory, each tensor storage rounded up to 4096 bytes.
    """

    worker: int | None
    epoch: int
    batch: int
    size: int
    indices: tuple[Index, ...]
    fetch_seconds: float
    collate_seconds: float
    leaves: tuple[Leaf, ...]
    shared_bytes: int
    incident: Incident | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception in a worker, caught on its way to torch."""

    worker: int | None
    epoch: int
    incident: Incident


Record = SampleRecord | BatchRecord | Failure


class Spool:
    """An append-only file of records, one for each process that writes; what was written survives a crash."""

    def __init__(self, folder: Path, worker: int | None) -> None:
        name = "main" if worker is None else f"worker{worker}"
        self._file = (folder / f"{name}.spool").open("ab", buffering=0)

    def write(self, *records: Record) -> None:
        """Append records."""
        self._file.write(b"".join(pickle.dumps(record, protocol=pickle.HIGHEST_PROTOCOL) for record in records))


def read_spools(folder: Path) -> Iterator[Record]:
    """Every whole record that the processes of one observation left behind, process by process."""
    for path in sorted(folder.glob("*.spool")):
        with path.open("rb") as file:
            while True:
                try:
                    yield pickle.load(file)
                except (EOFError, pickle.UnpicklingError):  # the end, or a record cut short by a kill
                    break
