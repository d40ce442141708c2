"""The files into which the processes of an observation write their records; records survive a crash."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from errno import EMFILE
from pathlib import Path
from pickle import HIGHEST_PROTOCOL, UnpicklingError, dumps, load

from dataguard.lab.process.surroundings import unwritten
from dataguard.process.originals import os


class Spool:
    """An append-only file of records, one for each writing process; records survive a crash.

    A record is any plain data: a reader picks the types it knows.
    """

    def __init__(self, folder: Path, worker: int | None) -> None:
        name = "main" if worker is None else f"worker{worker}"
        self._path = folder / f"{name}.spool"
        self._spare = os.open(os.devnull, os.O_RDONLY)

    def write(self, *records: object) -> None:
        """Append records. Raises Undecided if the disk is full.

        The file is reopened each time: user code may close descriptors that are not its own, or hold all that there
        are; then the spare one makes room.
        """
        content = b"".join(dumps(record, protocol=HIGHEST_PROTOCOL) for record in records)
        try:
            self._append(content)
        except OSError as error:
            if error.errno != EMFILE:
                raise unwritten("what was observed could not be written", error) from None
            self.make_room()
            self._append(content)
            self._spare = os.open(os.devnull, os.O_RDONLY)

    def make_room(self) -> None:
        """Close the spare descriptor, so that this process can open one more file."""
        with contextlib.suppress(OSError):
            os.close(self._spare)

    def _append(self, content: bytes) -> None:
        with self._path.open("ab", buffering=0) as file:
            file.write(content)


def read_spools(folder: Path) -> Iterator[object]:
    """Every complete record that the processes of one observation wrote, process by process."""
    for path in sorted(folder.glob("*.spool")):
        with path.open("rb") as file:
            while True:
                try:
                    yield load(file)
                except (EOFError, UnpicklingError):  # the end, or a record cut short by a kill
                    break
