"""What the first samples of a stream are read from, each under a random state of its own, for `lab.splits`.

A stream cannot be asked for an index. But two streams that draw from the same rows of a file draw the same sample under
the same random state, and two parts of a file, or two files, do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.provenance.reads_seen import ReadLog, merged
from dataguard.lab.reading.sample_reader import DRAWS, Reader
from dataguard.lab.rows.origins import Read
from dataguard.targets.variants import Loader

STREAM_READS = DRAWS + 1
"""Samples that are read: one for each random state, and one before, which imports what the others use."""


@dataclass(frozen=True, slots=True)
class FirstSample:
    """The digests of the leaves of a first sample, and the rows of files that it is read from."""

    digests: tuple[bytes, ...]
    rows: frozenset[Read]


def first_samples(loader: Loader, folder: Path) -> tuple[FirstSample, ...]:
    """The first sample of a new pass over a stream, in each random state; none if it is read from no known rows."""
    reader, log = Reader(loader, folder), ReadLog(loader.dataset)
    found = []
    for draw in (0, *range(DRAWS)):  # what is cached by the first read is not read by the others
        with log.recorded():
            sample = reader.read_streamed(0, draw)
        rows = frozenset(read for read in merged(log.reads) if read.file and read.rows and read.changeable)
        if not rows:
            return ()
        found.append(FirstSample(tuple(leaf.digest for leaf in leaves_of(sample)), rows))
    return tuple(found[1:])


@dataclass(frozen=True, slots=True)
class SharedRows:
    """The files in which two streams read the same rows, in so many random states."""

    files: tuple[str, ...]
    states: int


def shared_rows(one: Sequence[FirstSample], other: Sequence[FirstSample]) -> SharedRows | None:
    """The rows that both streams read, if each random state has both read the same rows and yield the same sample.

    None where all states have the same rows: a stream may begin with an example of what follows.
    """
    if one != other or len({sample.rows for sample in one}) < 2:
        return None
    files = sorted({read.file for sample in one for read in sample.rows if read.file})
    return SharedRows(tuple(files), len(one))
