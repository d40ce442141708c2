"""Random numbers that are drawn twice: by two workers (DG101), or in two epochs by one worker (DG102).

Three things must hold: a generator has the same state when two workers start, both draw from that state without
setting a seed in between, and samples vary between epochs. Torch's own seeding makes all states differ, so that a
loader without an own `worker_init_fn` or generator is judged by two comparisons of bytes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from dataguard.lab.rng.rng_discovery import find_generators
from dataguard.model import Finding
from dataguard.training.loader_pass import Pass
from dataguard.training.randomness.sample_rows import SampleRows
from dataguard.training.randomness.worker_draws import Drawn, Records, StartRecord, is_simple


class Replays:
    """What the workers of one loader drew from."""

    def __init__(self) -> None:
        self.rows = SampleRows()
        self._drawn: dict[int, list[Drawn]] = {}
        self._records: Records | None = None
        self._paths: tuple[str, ...] | None = None
        self._reported: set[tuple[str, str]] = set()

    @property
    def follows(self) -> bool:
        """Whether there are workers whose generators are followed."""
        return self._records is not None

    def recording(self, loader: Any, user_init: Callable[[int], Any] | None, serial: int) -> StartRecord:
        """What to pass to torch in place of the loader's `worker_init_fn` while it starts the workers of a pass."""
        if self._records is None:
            folder = Path(tempfile.mkdtemp(prefix="dataguard-guard-"))
            weakref.finalize(self, _remove, folder, os.getpid())
            self._records = Records(folder)
            found = find_generators({"dataset": loader.dataset, "collate_fn": loader.collate_fn})
            self._paths = tuple(source.path for source in found if is_simple(source.path))
        return StartRecord(user_init, self._records.folder, serial, self._paths or ())

    def findings(self, recent: Sequence[Pass]) -> Iterator[tuple[str, Finding]]:
        """The replays in the latest pass, and in whole passes before it, if samples are random."""
        if self._records is None:
            return
        for drawn in self._records.new():
            self._drawn.setdefault(drawn.serial, []).append(drawn)
        for old in self._drawn.keys() - {one.serial for one in recent} - {min(self._drawn, default=0)}:
            self._records.drop(old)
            del self._drawn[old]
        if not self.rows.vary:
            return
        for together in self._drawn.values():
            yield from self._between_workers(together)
        for now, before in pairwise(recent):
            yield from self._between_epochs(now, before)

    def _between_workers(self, drawn: Sequence[Drawn]) -> Iterator[tuple[str, Finding]]:
        for one, other in combinations(drawn, 2):
            if one.worker != other.worker and self._same("DG101", one, other):
                workers = f"workers {one.worker} and {other.worker} draw the same random numbers from {one.name}"
                yield "DG101", Finding(workers, {"state": "equal when they start", "samples": "differ between epochs"})

    def _between_epochs(self, now: Pass, before: Pass) -> Iterator[tuple[str, Finding]]:
        for one in self._drawn.get(now.serial, ()):
            for other in self._drawn.get(before.serial, ()):
                if one.worker == other.worker and self._same("DG102", one, other):
                    worker = f"worker {one.worker} draws the same random numbers from {one.name}"
                    epochs = f"in epochs {before.epoch} and {now.epoch}"
                    yield "DG102", Finding(f"{worker} {epochs}", {"state": "equal when it starts"})

    def _same(self, code: str, one: Drawn, other: Drawn) -> bool:
        """Whether both draw the numbers of one state; once for each generator."""
        if one.name != other.name or one.start != other.start or (code, one.name) in self._reported:
            return False
        found = one.follows and other.follows
        if found:
            self._reported.add((code, one.name))
        return found


def _remove(folder: Path, owner: int) -> None:
    """Remove the records, in the process that made the folder: workers are forks of it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
