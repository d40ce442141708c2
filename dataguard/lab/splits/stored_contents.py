"""The content of what samples are read from: whole files, rows of HDF5, entries of LMDB, and members of archives.

It is read as it is stored, without the dataset, so that copies in two splits are found among all samples: a row takes
some microseconds, and no transform changes it.
"""

from __future__ import annotations

import re
import sys
import zipfile
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from dataguard.lab.provenance.open_sources import database_of
from dataguard.lab.spy.sample_ledger import is_rich
from dataguard.process.originals import os, time

Unit = str
"""What a sample was read from, as text: a source and its rows."""
END_BYTES = 4096
"""Bytes at either end of a file that stand for its content, beside its size: a page, which one read brings in."""
POOR = 0
"""The number of content, such as a blank image or a label, of which equal ones need not be copies."""
TIMED, WAITED = 64, 4
"""After how many samples the time is looked at; and how many times longer than computing they may take in all."""
WHOLE_BYTES = 1 << 28
"""Arrays of a file up to this size are read at once, which takes some 0.2 s; a row of a larger one takes 80 us."""

_UNIT = re.compile(r"(?P<file>/.*?)(?:::(?P<member>.*?))?(?:\[(?P<rows>[^\[\]]+)\])?", re.DOTALL)


def content_of(path: Path) -> int:
    """A number for the size of a file, its first and its last bytes."""
    with path.open("rb") as file:
        head = file.read(END_BYTES)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(len(head), size - END_BYTES))
        return xxh3_64_intdigest(b"%d\0%b\0%b" % (size, head, file.read()))


def hashed(units: Sequence[Unit]) -> int:
    """A number for several strings."""
    return xxh3_64_intdigest("\0".join(units).encode("utf-8", "surrogatepass"))


class StoredContents:
    """Reads what is stored under units. A database that the `dataset` has open is read through that."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._get: dict[str, Callable[[str, str], int | None]] = {}

    def of_samples(self, listed: Sequence[Sequence[Unit]], free: int, seconds: float) -> array[int] | None:
        """A number for what each sample is read from; None if one is unknown, or all take longer than so many seconds.

        So many units are read however long that takes: `free`. The time is that of this thread, so that it does not
        matter what else the machine does, unless the disk is waited for.
        """
        until, numbers = (time.thread_time() + seconds, time.monotonic() + WAITED * seconds), array("Q")
        least = free // max(map(len, listed), default=1)
        for number, units in enumerate(listed):
            if number >= least and number % TIMED == 0 and self._is_late(*until):
                return None
            contents = [self.of(unit) for unit in units]
            if None in contents:
                return None
            numbers.append(hashed([*map(str, contents)]))
        return numbers

    @staticmethod
    def _is_late(computed: float, waited: float) -> bool:
        return time.thread_time() > computed or time.monotonic() > waited

    def of(self, unit: Unit) -> int | None:
        """A number for the content of a unit; None if it cannot be read."""
        match = _UNIT.fullmatch(unit)
        if match is None:
            return None
        file, member, rows = match["file"], match["member"] or "", match["rows"] or ""
        try:
            if not member and not rows:
                return content_of(Path(file))
            if file not in self._get:
                self._get[file] = self._opened(file)
            return self._get[file](member, rows)
        except Exception:  # noqa: BLE001 - whatever a library raises for a file that is damaged, or no longer there
            return None

    def _opened(self, file: str) -> Callable[[str, str], int | None]:
        """What returns the content of a member or key of a file, if the library that reads it was imported."""
        h5py = sys.modules.get("h5py")
        if h5py is not None and os.path.isfile(file) and h5py.is_hdf5(file):
            return _rows_of(h5py.File(file, "r"))
        if zipfile.is_zipfile(file):
            members = zipfile.ZipFile(file)
            return lambda member, rows: None if rows else _of_member(members.getinfo(member))
        database = database_of(self._dataset, file)
        return _entries_of(database) if database is not None else lambda member, rows: None


def _entries_of(database: Any) -> Callable[[str, str], int | None]:
    """What returns the content of a key."""
    transaction = database.begin()

    def read(member: str, rows: str) -> int | None:
        content = None if member else transaction.get(rows.encode())
        return None if content is None else _number(np.frombuffer(content, np.uint8))

    return read


def _rows_of(file: Any) -> Callable[[str, str], int | None]:
    """What returns the content of rows of an array of an HDF5 file, which are one behind the other, or of all of it."""
    arrays: dict[str, Any] = {}

    def read(member: str, rows: str) -> int | None:
        numbers = [*map(int, rows.split(","))] if rows else []
        if numbers and numbers != [*range(numbers[0], numbers[-1] + 1)]:
            return None
        if member not in arrays:
            stored = file[member]
            arrays[member] = stored[()] if numbers and stored.nbytes <= WHOLE_BYTES else stored
        content = arrays[member][numbers[0] : numbers[-1] + 1] if numbers else arrays[member][()]
        return _number(np.frombuffer(np.asarray(content).tobytes(), np.uint8))

    return read


def _number(content: np.ndarray) -> int:
    return xxh3_64_intdigest(content.tobytes()) if is_rich(content[:END_BYTES]) else POOR


def _of_member(member: zipfile.ZipInfo) -> int:
    return xxh3_64_intdigest(b"%d %d" % (member.CRC, member.file_size))
