"""How much shared memory the batches in flight take. Standard library only."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataguard.incident import observed_or_none

if TYPE_CHECKING:
    from dataguard.lab.core.index import Index
    from dataguard.lab.core.loader_facts import LoaderFacts
    from dataguard.lab.core.records import Leaf, SampleRecord
    from dataguard.lab.lab import Lab
    from dataguard.lab.reading.epoch_trace import EpochTrace

PAGE = 4096
HELD = 2
"""Batches beside those that workers prepare: the one in use, and the next one, for which a worker starts another before
the loop lets go of the first (measured on torch 2.15: the peak is num_workers x prefetch_factor + 2)."""
VARIED = 1.1
"""How many times larger than the median the largest sample is, for batches to be of several sizes."""


@dataclass(frozen=True, slots=True)
class Flight:
    """The batches that are in shared memory at once, at most.

    `sizes` are their bytes, the largest first; `queues` is what the semaphores of the loader's queues take. `worst`
    are the samples of the largest batch, where it was put together from the largest samples that were seen.
    """

    sizes: tuple[int, ...]
    queues: int
    worst: tuple[Index, ...] = ()

    @property
    def needed(self) -> int:
        """All of it together, in bytes."""
        return sum(self.sizes) + self.queues

    def fitting(self, room: int) -> int:
        """How many of the largest batches fit into so many bytes."""
        return max((room - self.queues) // max(self.sizes[0], 1), 0) if self.sizes else 0


def flight_of(lab: Lab) -> Flight:
    """What is in flight when the queues are full, by the batches that were seen, and by the largest samples."""
    facts, epoch = lab.facts, lab.epoch
    count = _count(facts, epoch)
    seen = sorted((batch.shared_bytes for batch in epoch.batches), reverse=True)
    worst = _largest(facts, epoch)
    largest = _bytes_of(lab, worst)
    if largest is None or (seen and largest <= seen[0]):
        largest, worst = None, ()
    sizes = [*([largest] if largest else []), *seen][:count]
    missing = count - len(sizes)
    typical = round(statistics.median(sizes)) if sizes else 0
    return Flight((*sizes, *[typical] * missing), _queues(facts.num_workers), worst)


def _count(facts: LoaderFacts, epoch: EpochTrace) -> int:
    """How many batches are there at once: not more than an epoch has.

    A thread that pins batches copies them out of shared memory at once, so that those in use are not in it any more.
    """
    held = 0 if facts.pin_memory and facts.cuda else HELD
    flying = facts.num_workers * (facts.prefetch or 2) + held
    planned = len(epoch.sizes) if epoch.sizes is not None else len(epoch.batches) if epoch.whole else 0
    return min(flying, planned or flying)


def _largest(facts: LoaderFacts, epoch: EpochTrace) -> tuple[Index, ...]:
    """The samples of the largest batch that may come, where samples are of several sizes and any may meet."""
    known = {sample.index: sample for sample in epoch.samples if sample.index is not None}
    ranked = sorted(known.values(), key=_bytes, reverse=True)
    if not facts.mixes_samples or not facts.batch_size or len(ranked) < facts.batch_size:
        return ()
    if _bytes(ranked[0]) < VARIED * _bytes(ranked[len(ranked) // 2]):
        return ()
    return tuple(sample.index for sample in ranked[: facts.batch_size])


def _bytes_of(lab: Lab, indices: Sequence[Index]) -> int | None:
    return observed_or_none(lambda: lab.resources.batch_of(indices)) if indices else None


def _bytes(sample: SampleRecord) -> int:
    return sum(map(_leaf_bytes, sample.leaves))


def _leaf_bytes(leaf: Leaf) -> int:
    bits = re.search(r"\d+", leaf.dtype or "")
    return math.prod(leaf.shape or ()) * (int(bits[0]) // 8 if bits else 1)


def _queues(workers: int) -> int:
    """Bytes that the semaphores of the loader's queues take: a page for each of 3 a queue, and of 5 in an event."""
    return PAGE * (3 * (workers + 1) + 5)
