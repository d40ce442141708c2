"""What is kept of an epoch that is read as a whole: memory and disk stay small, however many samples there are."""

from __future__ import annotations

from collections.abc import Iterable

from dataguard.lab.core.records import BatchRecord, Leaf, SampleRecord

MOST_STRUCTURES = 256
"""How many different structures are kept: where every sample has a shape of its own, more of them tell nothing new."""
MOST_AMISS = 10_000
"""How many samples with non-finite values, and how many batches that failed, are kept."""
MOST_BLANK = 256
"""How many blank samples are kept."""


class Sieve:
    """Keeps the first `samples` samples and batches, the first of each structure, the largest, and all that is amiss.

    Records that pass one sieve after the other, in whatever portions, are those that would pass a single one: each
    portion keeps whatever is among the first of all.
    """

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._batches = samples
        self._structures: set[object] = set()
        self._amiss = MOST_AMISS
        self._blank = MOST_BLANK
        self._largest = -1

    @property
    def early(self) -> bool:
        """Whether the next sample is among the first, which are all kept."""
        return self._samples > 0

    def keeps(self, record: SampleRecord | BatchRecord) -> bool:
        """Whether a record is one to keep."""
        return self._keeps_sample(record) if isinstance(record, SampleRecord) else self._keeps_batch(record)

    def _keeps_sample(self, record: SampleRecord) -> bool:
        self._samples -= 1
        new = record.structure not in self._structures and len(self._structures) < MOST_STRUCTURES
        if new:
            self._structures.add(record.structure)
        self._blank -= record.blank is not None
        blank = record.blank is not None and self._blank >= 0
        return self._samples >= 0 or new or blank or (_spoilt(record.leaves) and self._another())

    def _keeps_batch(self, record: BatchRecord) -> bool:
        self._batches -= 1
        larger = record.shared_bytes > self._largest
        self._largest = max(self._largest, record.shared_bytes)
        amiss = record.incident is not None or _spoilt(record.leaves)
        return self._batches >= 0 or larger or (amiss and self._another())

    def _another(self) -> bool:
        self._amiss -= 1
        return self._amiss >= 0


def _spoilt(leaves: Iterable[Leaf]) -> bool:
    return any(leaf.nan or leaf.inf for leaf in leaves)
