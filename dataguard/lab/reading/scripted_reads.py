"""Short readings that follow a script: the same items in given orders, with all RNGs frozen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dataguard.lab.core.index_schedules import Scripted
from dataguard.lab.core.instrument import Instrument
from dataguard.lab.core.records import BatchRecord, SampleRecord
from dataguard.lab.process.spool import read_spools
from dataguard.lab.rng.frozen_rng import FrozenRngs, UnfrozenRng
from dataguard.lab.spy.drive import announce_epoch, drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.recording import Records
from dataguard.model import Undecided
from dataguard.targets.variants import Loader

Script = Sequence[int]
"""What one worker reads in an epoch, fetch by fetch: positions in the user's order of indices."""
Seeds = Sequence[int]
"""The seeds for all generators before each fetch; the last one is for all later fetches."""
Series = tuple[bytes, ...]
"""The digests of one leaf, fetch by fetch; empty if it was absent."""
Readings = Mapping[str, Mapping[tuple[int, int], Series]]
"""Leaf path -> (worker, epoch) -> series."""

FORKED: dict[str, Any] = {"num_workers": 1, "persistent_workers": False, "multiprocessing_context": "fork"}
"""One new worker for each epoch: every epoch is a trial that starts with the state of the main process."""


Scripts = Sequence[Sequence[Script]]
"""The scripts of each epoch, one for each worker."""


def run_trials(
    build: Callable[..., Loader],
    folder: Path,
    scripts: Scripts,
    seeds: Sequence[Seeds],
    size: int = 1,
    *,
    announce: bool = True,
    unfrozen: UnfrozenRng | None = None,
    instruments: tuple[Instrument, ...] = (),
) -> bool:
    """Read what the scripts say, in batches of `size`; return True when everything was read.

    Without `announce`, `set_epoch` is called once, with 0. All generators except the `unfrozen` one are frozen;
    further `instruments` may be added.
    """

    def schedule(inner: Any, batched: bool) -> Scripted:
        return Scripted(inner, scripts, size, batched=batched)

    loader = build(schedule=schedule, in_order=True)
    if not announce:
        announce_epoch(loader, 0)
    length = len(scripts[0][0])
    frozen = FrozenRngs(seeds, unfrozen)
    plan = Plan(folder, (*instruments, frozen, Records()), length=length, keep_going=True, announce=announce)
    drive(loader, plan, batches=tuple(length * len(epoch) for epoch in scripts))
    return True


def read_trials(scripts: Scripts, folder: Path, complete: bool | None) -> Readings:
    """The readings of every leaf.

    Raises Undecided when the budget cut them short, or when the loader did not follow the scripts.
    """
    if not complete:
        raise Undecided("the budget ran out while samples were read repeatedly")
    length = len(scripts[0][0])
    found: dict[str, dict[tuple[int, int], list[bytes]]] = defaultdict(lambda: defaultdict(lambda: [b""] * length))
    indices: dict[int, set[str | None]] = defaultdict(set)
    fetches = 0
    for record in read_spools(folder):
        if not isinstance(record, SampleRecord | BatchRecord) or record.epoch >= len(scripts):
            continue  # a loader that never ends its epochs has fetched ahead
        root, worker = "batch", record.worker or 0
        if isinstance(record, SampleRecord):
            if record.position:
                continue
            root = "sample"
            fetches += 1
            indices[scripts[record.epoch][worker][record.batch]].add(record.shown)
        for leaf in record.leaves:
            found[root + leaf.path][worker, record.epoch][record.batch] = leaf.digest
    if fetches < length * sum(map(len, scripts)) or any(len(shown) > 1 for shown in indices.values()):
        raise Undecided("the loader did not read the requested samples: it uses its own order")
    return {path: {where: tuple(series) for where, series in by.items()} for path, by in found.items()}
