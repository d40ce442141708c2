"""Whether a stream has the same order in two epochs of training, though it shuffles (DG206)."""

from __future__ import annotations

import os
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed
from torch import Tensor
from xxhash import xxh3_64_intdigest

from dataguard.lab.core.leaves import array_of
from dataguard.lab.core.loader_facts import start_method
from dataguard.lab.process.forked_calls import in_fork
from dataguard.lab.streams.stream_order import StreamOrder, find_stream_order
from dataguard.model import Finding, Location, without_empty
from dataguard.training.batch_structure import arrays_of

BATCHES = 16
"""How many batches of an epoch are compared with those of the one before."""
SECONDS = 10.0
"""The longest that a fork of the training process may read."""
VARIED = 0.5
"""The share of distinct batches above which a leaf has an order."""

Digests = dict[str, list[int]]
"""By path: the digests of the first batches."""


class StreamEpochs:
    """The first batches of two epochs, until two have differed or were judged."""

    def __init__(self) -> None:
        self.done = False
        self._before: tuple[int, Digests] | None = None
        self._digests: Digests = {}

    def see(self, number: int, batch: Any) -> None:
        """Record a batch of the open epoch, which has this number in it."""
        if self.done or number >= BATCHES:
            return
        if number == 0:
            self._digests = {}
        for path, leaf in arrays_of(batch):
            if not isinstance(leaf, Tensor) or (leaf.device.type == "cpu" and not leaf.is_sparse):
                values = np.ascontiguousarray(array_of(leaf))
                if values.dtype.kind in "fiub":
                    self._digests.setdefault(path, []).append(xxh3_64_intdigest(values.data))

    def end(self, epoch: int, loader: Any) -> Finding | None:
        """The finding about an epoch that was read to its end, if it repeats the order of the one before."""
        if self.done or loader is None:
            return None
        before, self._before = self._before, (epoch, self._digests)
        if before is None:
            return None
        self.done = True
        same = any(_is_varied(digests) and digests == before[1].get(path) for path, digests in self._digests.items())
        order = in_fork(lambda: _order(loader), SECONDS) if same and _may_fork(loader) else None
        return None if order is None else _finding(order, loader, before[0], epoch)


def _is_varied(digests: list[int]) -> bool:
    return len(set(digests)) > VARIED * len(digests)


def _may_fork(loader: Any) -> bool:
    """Whether reading in a fork does what training does; ranks may talk to each other while one reads its stream."""
    alone = loader.num_workers > 0 or not (torch.distributed.is_available() and torch.distributed.is_initialized())
    return start_method(loader) == "fork" and alone


def _order(loader: Any) -> StreamOrder:
    # What the stream prints was printed in each epoch of training already.
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as null, redirect_stdout(null):
        return find_stream_order(lambda **_: loader, Path(folder), announce=False)


def _finding(order: StreamOrder, loader: Any, before: int, epoch: int) -> Finding | None:
    epochs, seed = f"epochs {before} and {epoch}", order.seed
    if order.awaits_epoch:
        name = type(loader.dataset).__name__
        fix = "call dataset.set_epoch(epoch) before each epoch"
        late = "; persistent workers hold copies of the dataset, which do not see it"
        evidence = {"fix here": fix + late * loader.persistent_workers}
        return Finding(f"{name} has the same order in {epochs}, and another one once set_epoch is called", evidence)
    if seed is None:
        return None
    return Finding(
        f"{type(loader.dataset).__name__} shuffles, but {seed.kind}({seed.seed}) gives {epochs} the same order",
        without_empty({"samples compared": order.samples}),
        at=Location(seed.file, seed.line, seed.function),
    )
