"""One item as each worker makes it in each epoch: a contact sheet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.figures import Picture
from dataguard.lab.core.index_schedules import SameItems
from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.images.image_containers import is_image
from dataguard.lab.pictures.display import displayed, reduced, thumbnail
from dataguard.lab.process.spool import read_spools
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.plan import Plan
from dataguard.model import NotApplicable
from dataguard.targets.variants import Loader

EPOCHS = 2

Cells = tuple[tuple[Picture | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """Pictures of an item by epoch and worker, and the item's index as text."""

    item: str
    cells: Cells


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An image as one worker made it, for `displayed`; and its index as text."""

    worker: int
    epoch: int
    item: str
    image: np.ndarray


@dataclass(frozen=True, slots=True)
class Snapshots(Instrument):
    """Keeps the image leaf at a path, of the first sample or of the batch that each worker makes first in an epoch."""

    leaf: str

    def start(self, process: Process) -> Hooks:
        """Each process writes its own."""
        return _Snapshots(self.leaf, process)


class _Snapshots(Hooks):
    def __init__(self, leaf: str, process: Process) -> None:
        self._leaf = leaf
        self._process = process

    def at_samples(self, fetch: Fetch, samples: Sequence[Any]) -> None:
        """Keep the image of a sample."""
        if samples:
            self._keep(fetch, samples[0], "sample")

    def at_batch(self, fetch: Fetch, batch: Any) -> None:
        """Keep the first image of a batch."""
        self._keep(fetch, batch, "batch")

    def _keep(self, fetch: Fetch, value: Any, root: str) -> None:
        leaf = image_at(value, self._leaf.removeprefix(root)) if self._leaf.startswith(root) else None
        if leaf is not None and not fetch.number:
            item = str(fetch.indices[0]) if fetch.indices else ""
            snapshot = Snapshot(self._process.worker or 0, fetch.epoch, item, reduced(leaf))
            self._process.spool.write(snapshot)


def image_at(value: Any, path: str) -> Any:
    """The leaf at a path of a sample or batch if it is an image, else None."""
    return next((leaf for name, leaf in iter_leaves(value) if name == path and is_image(leaf)), None)


def make_sheet(build: Callable[..., Loader], folder: Path, leaf: str, workers: int, size: int) -> Sheet:
    """Let every worker read the first item of the user's order, in two epochs and in batches of `size`.

    Raises NotApplicable unless the leaf is an image in each.
    """

    def schedule(inner: Any, batched: bool) -> SameItems:
        return SameItems(inner, workers, 1, (1,), size, batched=batched)

    loader = build(num_workers=workers, in_order=True, schedule=schedule)
    drive(loader, Plan(folder, (Snapshots(leaf),), length=1, keep_going=True), batches=(None,) * EPOCHS)
    kept = [record for record in read_spools(folder) if isinstance(record, Snapshot) and record.epoch < EPOCHS]
    if len(kept) < workers * EPOCHS:
        raise NotApplicable(f"{leaf} is not an image in every worker and epoch")
    pixels, note = displayed([one.image for one in kept])
    pictures = {
        (one.epoch, one.worker): Picture(thumbnail(image), note) for one, image in zip(kept, pixels, strict=True)
    }
    cells = tuple(tuple(pictures.get((epoch, worker)) for worker in range(workers)) for epoch in range(EPOCHS))
    return Sheet(kept[0].item, cells)
