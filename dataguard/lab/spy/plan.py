"""What the spy is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dataguard.lab.core.instrument import Instrument


@dataclass(frozen=True, slots=True)
class Plan:
    """What the spy does in one observation, and how the loader is driven meanwhile.

    `instruments` act and take notes in the processes that read samples; where one acts around another, the first is the
    outermost. After `most` samples in an epoch, a process only passes batches on, unseen. `length` is the number of
    fetches of a process in an epoch, for loaders that never end theirs. `carry` lets the real batches travel to the
    main process; otherwise None travels in their place. `keep_going` swallows what collate_fn raises, because the next
    batch is a trial of its own. `announce` calls `set_epoch` of sampler and dataset when an epoch begins.
    """

    folder: Path
    instruments: tuple[Instrument, ...] = ()
    most: int | None = None
    length: int | None = None
    carry: bool = False
    keep_going: bool = False
    announce: bool = True
