"""The first difference between two runs of a loader from the same seeds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dataguard.lab.core.index import Index
from dataguard.lab.reproducibility.seeded_run import Digests, Run, RunBatch

ORDER, SAMPLE, BATCH = "order of indices", "sample", "collate_fn"
_ASIDE = re.compile(r"time|stamp|seconds|date|uuid|\bid\b|_id\\b|path|file|host|pid|index", re.IGNORECASE)
"""Names of leaves that describe a sample or its reading, and on which a model is not trained."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two runs with so many workers differ first: a stage, an epoch, a batch, and for a sample its position.

    `leaves` are the paths that differ. `later_only`: nothing differs in epoch 0.
    """

    workers: int
    stage: str
    epoch: int
    batch: int
    position: int | None = None
    index: Index = None
    leaves: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The place in words."""
        return f"batch {self.batch} of epoch {self.epoch}"


def first_difference(one: Run, two: Run) -> Divergence | None:
    """The first difference in the order of a run: of an epoch, batch by batch the indices, samples and batches."""
    for epoch, (first, second) in enumerate(zip(one.orders, two.orders, strict=False)):
        number = next(
            (place for place, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), None
        )
        if number is not None or len(first) != len(second):
            batch = min(len(first), len(second)) if number is None else number
            return Divergence(one.workers, ORDER, epoch, batch)
    pairs = zip(one.batches, two.batches, strict=False)
    return next((found for pair in pairs for found in _of_batch(one.workers, *pair)), None)


def _of_batch(workers: int, one: RunBatch, two: RunBatch) -> Iterator[Divergence]:
    for position, (first, second) in enumerate(zip(one.samples, two.samples, strict=False)):
        leaves = _unlike(first, second)
        if leaves:
            index = one.indices[position] if position < len(one.indices) else None
            yield Divergence(workers, SAMPLE, one.epoch, one.number, position, index, leaves)
    leaves = _unlike(one.leaves, two.leaves)
    if leaves:
        yield Divergence(workers, BATCH, one.epoch, one.number, leaves=leaves)


def _unlike(one: Digests, two: Digests) -> tuple[str, ...]:
    """The leaves that differ, without those that only describe a sample."""
    paths = (path for path in {**one, **two} if one.get(path) != two.get(path))
    return tuple(path for path in paths if not _ASIDE.search(path))
