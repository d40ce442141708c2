"""Which samples a stream yielded: a few numbers for each sample, however large it is.

A sample takes 8 bytes for the digest of its content, and 8 more for each leaf. Of a stream of more than `MOST` samples
only numbers below a bound are kept, the same bound in every process: a sample that two processes yield is kept by both
or by neither.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dataguard.lab.core.records import SampleRecord

MOST = 1_000_000
"""Streams of up to so many samples are kept whole."""
_ROW = np.dtype([("column", "<u2"), ("number", "<u8")])
_WHOLE = ""
"""The column of the whole sample; every other column has the path of a leaf."""
_SPAN = 64


@dataclass(frozen=True, slots=True)
class LedgerResolution:
    """How much of each sample is kept: numbers below 2 to the power of (64 - `level`), of at most so many `leaves`."""

    level: int = 0
    leaves: int = 64


CLOSE = LedgerResolution()
"""The depth for a stream of which only some samples are read."""


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


def depth_of(samples: int) -> LedgerResolution:
    """The depth for so many samples: at most 72 bytes of each are kept, and of at most a million."""
    return LedgerResolution(level=max(0, (max(samples, 1) - 1) // MOST).bit_length(), leaves=8)


def identity_of(record: SampleRecord) -> int:
    """The digest of a sample, from the paths and digests of all its leaves, as a number."""
    digest = hashlib.blake2b(digest_size=8)
    for leaf in record.leaves:
        digest.update(leaf.path.encode(errors="surrogatepass"))
        digest.update(leaf.digest)
    return int.from_bytes(digest.digest(), "little")


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
        kept = [(path, number) for path, number in rows if not number >> (_SPAN - self._depth.level)]
        known = len(self._columns)
        numbered = np.array([(self._column(path), number) for path, number in kept], dtype=_ROW)
        # Opened each time: user code may close descriptors that are not its own.
        with self._file("columns").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(path) + "\n" for path in list(self._columns)[known:])
        with self._file(f"{epoch}.ledger").open("ab", buffering=0) as file:
            file.write(numbered.tobytes())
        self._file(f"{epoch}.count").write_text(str(self._samples[epoch]))

    def _column(self, path: str) -> int:
        return self._columns.setdefault(path, len(self._columns))

    def _file(self, ending: str) -> Path:
        return self._stem.with_name(f"{self._stem.name}.{ending}")


def read_ledgers(folder: Path, epoch: int) -> dict[int, Account]:
    """What the processes of one observation recorded in an epoch, by worker; -1 is the main process."""
    found = {}
    for count in folder.glob(f"*.{epoch}.count"):
        name = count.name.partition(".")[0]
        found[-1 if name == "main" else int(name)] = _read(folder, name, epoch, int(count.read_text() or 0))
    return dict(sorted(found.items()))


def _read(folder: Path, name: str, epoch: int, samples: int) -> Account:
    paths = [json.loads(line) for line in (folder / f"{name}.columns").read_text(encoding="utf-8").splitlines()]
    rows = np.fromfile(folder / f"{name}.{epoch}.ledger", dtype=_ROW)
    columns = {}
    for column, path in enumerate(paths):
        numbers = rows["number"][rows["column"] == column]
        if len(numbers):
            columns[path] = array("Q", numbers.tobytes())
    return Account(samples, columns)
