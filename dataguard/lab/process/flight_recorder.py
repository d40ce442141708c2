"""A flight recorder: the last action of each process of an observation, readable after it crashed or hung.

A small file that every process maps into memory, because a process that died or hangs cannot report. Slot 0 belongs to
the main process, slot n + 1 to worker n.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from dataguard.incident import shown_index
from dataguard.lab.process.surroundings import unwritten
from dataguard.process.originals import os

SLOTS = 257
RECEIVE = "receive"
"""The stage of a main process that loads a batch."""
_SLOT = struct.Struct("<QI12s128s")  # marks so far, process id, stage, index
_COUNT = struct.Struct("<Q")  # samples so far, behind it
_WIDTH = _SLOT.size + _COUNT.size


@dataclass(frozen=True, slots=True)
class LastMark:
    """The last action that a process recorded, and what it works `on`: an index, or the classes of a batch."""

    worker: int | None
    pid: int
    stage: str
    on: str | None

    @property
    def index(self) -> str | None:
        """The index that it works on."""
        return None if self.stage == RECEIVE else self.on

    @property
    def classes(self) -> str:
        """The classes of the batch that it loads."""
        return (self.on or "") if self.stage == RECEIVE else ""


class FlightRecorder:
    """The recorder of one observation, backed by a file in its `folder` (created if missing).

    Raises Undecided if the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        self._mapped = _mapped.get(folder) or _mapped.setdefault(folder, self._made(folder))
        self._marks = 0

    @staticmethod
    def _made(folder: Path) -> mmap.mmap:
        size = SLOTS * _WIDTH
        try:
            with (folder / "flight_recorder").open("a+b") as file:
                if file.seek(0, os.SEEK_END) < size:
                    file.truncate(size)
                    if hasattr(os, "posix_fallocate"):  # on a full disk, writing to the mapping would be a bus error
                        os.posix_fallocate(file.fileno(), 0, size)
                return mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise unwritten(f"no file can be made in {folder.parent}", error) from error

    def mark(self, worker: int | None, stage: str, index: object = None, *, classes: str = "") -> None:
        """Record that this process now does `stage`, with the index or the `classes` it works on."""
        self._marks += 1
        shown = (classes if index is None else shown_index(index)).encode(errors="replace")[:128]
        _SLOT.pack_into(self._mapped, _slot(worker) * _WIDTH, self._marks, os.getpid(), stage.encode()[:12], shown)

    def count(self, worker: int | None, samples: int) -> None:
        """Add to the number of samples that this worker has read."""
        place = _slot(worker) * _WIDTH + _SLOT.size
        _COUNT.pack_into(self._mapped, place, _COUNT.unpack_from(self._mapped, place)[0] + samples)

    def counted(self) -> int:
        """How many samples all processes have read together."""
        return sum(_COUNT.unpack_from(self._mapped, slot * _WIDTH + _SLOT.size)[0] for slot in range(SLOTS))

    def progress(self) -> int:
        """A number that grows while any process makes progress."""
        return sum(_SLOT.unpack_from(self._mapped, slot * _WIDTH)[0] for slot in range(SLOTS))

    def last(self) -> list[LastMark]:
        """The last mark of every process that made one, main process first."""
        marks = []
        for slot in range(SLOTS):
            count, pid, stage, index = _SLOT.unpack_from(self._mapped, slot * _WIDTH)
            if count:
                shown = index.rstrip(b"\0").decode(errors="replace") or None
                marks.append(LastMark(slot - 1 if slot else None, pid, stage.rstrip(b"\0").decode(), shown))
        return marks


_mapped: WeakValueDictionary[Path, mmap.mmap] = WeakValueDictionary()
"""The mappings of this process by folder. A fork has those of its parent, whatever becomes of the path."""


def _slot(worker: int | None) -> int:
    return 0 if worker is None else min(worker + 1, SLOTS - 1)
