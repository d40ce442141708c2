"""Records of all samples and batches, or of a few, so that a long epoch needs little memory and disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.index import plain_index
from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.leaf_sizes import shared_bytes
from dataguard.lab.core.leaves import iter_leaves, leaves_of
from dataguard.lab.core.records import BatchRecord, LeafRecord, SampleRecord, sample_records
from dataguard.lab.spy.content_hashes import shingles_of
from dataguard.lab.spy.library_threads import threads_of_libraries
from dataguard.lab.spy.sample_ledger import Ledger, LedgerResolution
from dataguard.targets.loading import load

MOST_STRUCTURES = 256
"""Most structures of which a sample is kept: if every sample has its own shape, more add no information."""
MOST_BAD = 10_000
"""Most samples with non-finite values, and failed batches, that are kept."""
MOST_BLANK = 256
"""Most blank samples that are kept."""


@dataclass(frozen=True, slots=True)
class Records(Instrument):
    """Records each sample and each batch.

    `key` names a function of a sample (`package.module:function`) whose result alone identifies it. With `keep`, only
    some records are written: see `RecordSampler`. With `ledger`, digests of all samples are written as well: see
    `Ledger`. With `rows`, each row of a sample that is a batch counts as a sample; with `shingles`, each shingle of its
    tokens.
    """

    key: str | None = None
    keep: int | None = None
    ledger: LedgerResolution | None = None
    rows: bool = False
    shingles: bool = False

    def start(self, process: Process) -> Hooks:
        """Load the user's key function; each process has its own sampler and ledger."""
        return _Records(self, process)


class _Records(Hooks):
    def __init__(self, asked: Records, process: Process) -> None:
        self._process = process
        self._parts = shingles_of if asked.shingles else rows_of if asked.rows else None
        self._key: Callable[[Any], Any] | None = load(asked.key).source if asked.key else None
        self._sampler = RecordSampler(asked.keep) if asked.keep is not None else None
        self._ledger = Ledger(process.folder, process.worker, asked.ledger) if asked.ledger is not None else None

    def at_samples(self, fetch: Fetch, samples: Sequence[Any]) -> None:
        """Record samples; without digests, which take longest, if they are neither kept nor in a ledger."""
        sampler, ledger, worker = self._sampler, self._ledger, self._process.worker
        samples = [part for sample in samples for part in self._parts(sample)] if self._parts else samples
        all_digests = sampler is None or ledger is not None or sampler.early
        leaves = (self._leaves(sample, digests=all_digests) for sample in samples)
        records = list(sample_records((worker, fetch.epoch, fetch.number), fetch.indices, fetch.seconds, leaves))
        if ledger is not None and records:
            ledger.enter(fetch.epoch, records)
        if sampler is not None:
            self._process.recorder.count(worker, len(records))
            records = [record for record in records if sampler.keeps(record)]
        if not all_digests:
            records = [replace(one, leaves=self._leaves(samples[one.position])) for one in records]
        if records:
            self._process.spool.write(*records)

    def at_batch(self, fetch: Fetch, batch: Any) -> None:
        """Record a batch."""
        record = BatchRecord(
            self._process.worker,
            fetch.epoch,
            fetch.number,
            fetch.size,
            tuple(map(plain_index, fetch.indices[: fetch.size])),
            fetch.fetch_seconds,
            fetch.collate_seconds,
            leaves_of(batch, digests=self._sampler is None),
            shared_bytes(batch),
            fetch.incident,
            fetch.refuses_each,
            threads_of_libraries(),
            fetch.began,
        )
        if self._sampler is None or self._sampler.keeps(record):
            self._process.spool.write(record)

    def _leaves(self, sample: Any, *, digests: bool = True) -> tuple[LeafRecord, ...]:
        """The leaves of a sample, or of the result of the user's key function."""
        return leaves_of({"key": self._key(sample)} if self._key else sample, digests=digests)


def rows_of(batch: Any) -> list[Any]:
    """The rows of a batch, as far as they are in arrays or lists; one without any of one length is its only row."""
    listed = _listed_rows(batch)
    if listed is not None:
        return listed
    arrays = {path: leaf for path, leaf in iter_leaves(batch) if isinstance(leaf, torch.Tensor | np.ndarray)}
    lengths = {len(array) if array.ndim else 0 for array in arrays.values()}
    if len(arrays) < 2 or len(lengths) > 1 or lengths == {0}:
        return [batch]
    return [{path: array[row] for path, array in arrays.items()} for row in range(lengths.pop())]


def _listed_rows(batch: Any) -> list[Any] | None:
    """The rows of a list of strings, mappings or lists, or of a mapping of such lists of one length."""
    if isinstance(batch, list) and len(batch) > 1 and {type(one) for one in batch} in ({str}, {dict}, {list}):
        return batch
    columns = batch if isinstance(batch, dict) and all(isinstance(one, list) for one in batch.values()) else {}
    if len({len(column) for column in columns.values()}) != 1:
        return None
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class RecordSampler:
    """Keeps the first `samples` samples and batches, the first of each structure, the largest, and all bad ones.

    Several portions can be merged by another sampler: it keeps what it would keep of all records, because each
    portion keeps whatever is among the first of all.
    """

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._batches = samples
        self._structures: set[object] = set()
        self._bad = MOST_BAD
        self._blank = MOST_BLANK
        self._largest = -1

    @property
    def early(self) -> bool:
        """Whether the next sample is one of the first, which are all kept."""
        return self._samples > 0

    def keeps(self, record: SampleRecord | BatchRecord) -> bool:
        """Whether to keep a record."""
        return self._keeps_sample(record) if isinstance(record, SampleRecord) else self._keeps_batch(record)

    def _keeps_sample(self, record: SampleRecord) -> bool:
        self._samples -= 1
        new = record.structure not in self._structures and len(self._structures) < MOST_STRUCTURES
        if new:
            self._structures.add(record.structure)
        self._blank -= record.blank is not None
        blank = record.blank is not None and self._blank >= 0
        return self._samples >= 0 or new or blank or (_has_non_finite(record.leaves) and self._another())

    def _keeps_batch(self, record: BatchRecord) -> bool:
        self._batches -= 1
        larger = record.shared_bytes > self._largest
        self._largest = max(self._largest, record.shared_bytes)
        bad = record.incident is not None or _has_non_finite(record.leaves)
        return self._batches >= 0 or larger or (bad and self._another())

    def _another(self) -> bool:
        self._bad -= 1
        return self._bad >= 0


def _has_non_finite(leaves: Iterable[LeafRecord]) -> bool:
    return any(leaf.nan or leaf.inf for leaf in leaves)
