"""The columns of the files that a factory reads, which may say to which group each row of a dataset belongs."""

from __future__ import annotations

import contextlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dataguard.lab.provenance.reads_seen import ReadLog
from dataguard.lab.rows.origins import Read
from dataguard.lab.rows.row_groups import FileColumns
from dataguard.targets.variants import Loader

MOST_MEMBERS = 64
"""Members of a file that are read."""
MOST_BYTES = 1 << 24
"""Larger members are values of rows, and do not name groups."""


def loaded_by(build: Callable[[], Loader]) -> tuple[Loader, list[FileColumns]]:
    """A loader, and the columns of the tables, archives and HDF5 files that are read while it is built."""
    log = ReadLog()
    arrays: dict[str, dict[str, np.ndarray]] = defaultdict(dict)

    def note(read: Read, value: Any) -> Any:
        file = read.file
        if file is not None:
            with contextlib.suppress(Exception):  # a table or an array of another library
                arrays[file] |= dict(_columns(read, value))
        return value

    log.exchange = note
    with log.recorded():
        loader = build()
    log.exchange = None
    for file, known in arrays.items():
        for name, array in _members(file, known):
            known.setdefault(name, array)
    return loader, [FileColumns(file.rpartition("/")[2], known) for file, known in arrays.items()]


def _columns(read: Read, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    if hasattr(value, "iloc") and hasattr(value, "columns"):
        for name in value.columns:
            yield str(name), np.array(value[name])
    elif isinstance(value, np.ndarray) and value.ndim and not read.part:
        yield read.source.partition("::")[2].strip("/"), np.array(value)


def _members(file: str, known: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """The small arrays of an archive or HDF5 file that were not read."""
    if file.endswith(".npz"):
        with np.load(file) as archive:
            for name in [name for name in archive.files if name not in known][:MOST_MEMBERS]:
                with contextlib.suppress(ValueError):  # pickled objects
                    yield name, archive[name]
    elif (h5py := sys.modules.get("h5py")) and h5py.is_hdf5(file):
        found: list[Any] = []
        with h5py.File(file, "r") as opened:
            opened.visititems(lambda _, one: found.append(one) if isinstance(one, h5py.Dataset) else None)
            for one in found[:MOST_MEMBERS]:
                if one.name.strip("/") not in known and one.ndim and one.nbytes <= MOST_BYTES:
                    yield one.name.strip("/"), one[:]
