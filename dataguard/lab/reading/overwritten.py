"""Batches of an ordinary epoch whose memory a later one overwrites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.memory_ranges import overlap, ranges_at
from dataguard.lab.spy.drive import announce_epoch, shut
from dataguard.targets.variants import Loader

LATER = 2
"""How many batches after the first may overwrite it: who rotates more buffers does so on purpose."""
IN_FLIGHT = 4
"""Batches that a worker may have made before the first one is looked at, and one more."""


@dataclass(frozen=True, slots=True)
class Overwritten:
    """The leaves of the first batch that changed, and the number of the batch that lies in their memory.

    `batches` counts those that were taken.
    """

    leaves: tuple[str, ...]
    later: int = 0
    batches: int = 0


def batches_taken(workers: int) -> int:
    """How many batches are taken of a loader with so many workers."""
    return 1 + LATER + IN_FLIGHT * workers


def find_overwritten(loader: Loader, folder: Path) -> Overwritten:
    """Take a few batches, and compare the first with what it was when it arrived.

    A worker may have overwritten it by then, and does so again until the last batch is there.
    """
    recorder = FlightRecorder(folder)
    announce_epoch(loader, 0)
    batches: list[Any] = []
    before: dict[str, bytes] = {}
    with gate("iterate"):
        iterator = iter(loader)
        for batch in iterator:
            recorder.mark(None, "iterate")
            batches.append(batch)
            before = before or {leaf.path: leaf.digest for leaf in leaves_of(batch)}
            if len(batches) == batches_taken(loader.num_workers):
                break
    shut(iterator)
    changed = {leaf.path: leaf.digest for leaf in leaves_of(batches[0])} if batches else {}
    found = {path: _later(batches, path) for path, digest in before.items() if changed.get(path) != digest}
    numbers = [later for later in found.values() if later]
    return Overwritten(tuple(path for path, later in found.items() if later), min(numbers, default=0), len(batches))


def _later(batches: Sequence[Any], path: str) -> int:
    """The number of the batch right after the first that shares the memory of this leaf; 0 if there is none."""
    own = ranges_at(batches[0], path)
    later = enumerate(batches[1 : 1 + LATER], 1)
    return next((number for number, batch in later if overlap(own, ranges_at(batch, path))), 0)
