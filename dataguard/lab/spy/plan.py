"""The plan of the spy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dataguard.lab.core.instrument import Instrument


@dataclass(frozen=True, slots=True)
class Plan:
    """What the spy does in one observation, and how the loader is driven meanwhile.

    `instruments` work in the processes that read samples; the first is the outermost. After `most` samples in an epoch,
    a process passes them no more samples, and does not collate. `length` is the number of fetches of a process in an
    epoch, for loaders whose epochs never end. With `carry`, the main process receives the real batches, otherwise None
    instead; with `loads`, it loads the first batch of each kind from each worker. With `keep_going`, an exception in
    collate_fn does not end the epoch. With `announce`, `set_epoch` of sampler and dataset is called when an epoch
    begins.
    """

    folder: Path
    instruments: tuple[Instrument, ...] = ()
    most: int | None = None
    length: int | None = None
    carry: bool = False
    loads: bool = False
    keep_going: bool = False
    announce: bool = True
