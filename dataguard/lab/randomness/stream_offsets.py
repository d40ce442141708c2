"""Files that workers of a stream read through one offset: two forks begin to read it, one after the other.

Both find the file at the same offset, and move it if they read it through the description that they inherit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from dataguard.incident import LoaderFailed
from dataguard.lab.process.answers import answer_in, has_answered
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.process.isolation import run_child
from dataguard.lab.process.lock_watch import LockWatch
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.open_files import OpenFile, held_files
from dataguard.lab.reading.sample_reader import emulate_worker
from dataguard.process.originals import os
from dataguard.targets.variants import Loader

WORKERS, SAMPLES = 2, 8


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """The files whose offset every fork moved, each with two of its offsets, and how many samples they read.

    `locked`: they took an interprocess lock.
    """

    moved: tuple[tuple[OpenFile, int, int], ...] = ()
    samples: int = 0
    locked: bool = False


def read_in_turn(build: Callable[..., Loader], folder: Path) -> StreamOffsets:
    """Begin to read the stream in forks of this process, each of which emulates a worker."""
    loader = build(num_workers=0)
    files = held_files(loader, folder.parent)
    if not files:
        return StreamOffsets()
    watch, start = LockWatch(), [file.offset() for file in files]
    movers: list[dict[int, int]] = [{} for _ in files]
    samples = 0
    for number in range(WORKERS):
        for far in (False, True):  # a file that is read to its end, where it was, is moved from far off
            if all(number in offsets for offsets in movers):
                break
            before = [file.seek_far() if far else file.offset() for file in files]
            samples += _read(loader, folder / f"worker{number}{'far' * far}", number)
            for file, offset, offsets, first in zip(files, before, movers, start, strict=True):
                reached = file.offset()
                if reached != offset:
                    offsets.setdefault(number, reached)
                file.seek(first)
    moved = tuple(
        (file, first, max(offsets.values()))
        for file, first, offsets in zip(files, start, movers, strict=True)
        if len(offsets) == WORKERS and not file.is_written()
    )
    return StreamOffsets(moved, samples, watch.taken)


def _read(loader: Loader, folder: Path, number: int) -> int:
    """Read a few samples in a fork; return how many, 0 if that fails."""
    folder.mkdir()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        run_child(partial(_begin, loader, folder, number), folder, parent)
    os.waitpid(pid, 0)
    with contextlib.suppress(LoaderFailed):  # what fails without workers is known from the ordinary epoch
        return int(answer_in(folder)) if has_answered(folder) else 0
    return 0


def _begin(loader: Loader, folder: Path, number: int) -> int:
    emulate_worker(loader, FlightRecorder(folder), WORKERS, number)
    with gate("sample"):
        return sum(1 for _ in islice(iter(loader.dataset), SAMPLES))
