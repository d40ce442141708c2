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
            generators = find_generators({"dataset": loader.dataset, "collate_fn": loader.collate_fn})
            self._paths = tuple(source.path for source in generators if is_simple(source.path))
        return StartRecord(user_init, self._records.folder, serial, self._paths or ())

    def findings(self, recent: Sequence[Pass]) -> Iterator[tuple[str, Finding]]:
        """The replays in the latest pass, and in whole passes before it, if samples are random."""
        if self._records is None:
            return
        for drawn in self._records.new():
            self._drawn.setdefault(drawn.serial, []).append(drawn)
        for old in self._drawn.keys() - {latest.serial for latest in recent} - {min(self._drawn, default=0)}:
            self._records.drop(old)
            del self._drawn[old]
        if not self.rows.vary:
            return
        for together in self._drawn.values():
            yield from self._between_workers(together)
        for now, before in pairwise(recent):
            yield from self._between_epochs(now, before)

    def _between_workers(self, drawn: Sequence[Drawn]) -> Iterator[tuple[str, Finding]]:
        for first, second in combinations(drawn, 2):
            if first.worker != second.worker and self._same("DG101", first, second):
                workers = f"workers {first.worker} and {second.worker} draw the same random numbers from {first.name}"
                yield "DG101", Finding(workers, {"state": "equal when they start", "samples": "differ between epochs"})

    def _between_epochs(self, now: Pass, before: Pass) -> Iterator[tuple[str, Finding]]:
        for later in self._drawn.get(now.serial, ()):
            for earlier in self._drawn.get(before.serial, ()):
                if later.worker == earlier.worker and self._same("DG102", later, earlier):
                    worker = f"worker {later.worker} draws the same random numbers from {later.name}"
                    epochs = f"in epochs {before.epoch} and {now.epoch}"
                    yield "DG102", Finding(f"{worker} {epochs}", {"state": "equal when it starts"})

    def _same(self, code: str, first: Drawn, second: Drawn) -> bool:
        """Whether both draw the numbers of one state; once for each generator."""
        if first.name != second.name or first.start != second.start or (code, first.name) in self._reported:
            return False
        repeated = first.follows and second.follows
        if repeated:
            self._reported.add((code, first.name))
        return repeated


def _remove(folder: Path, owner: int) -> None:
    """Remove the records, in the process that made the folder: workers are forks of it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
