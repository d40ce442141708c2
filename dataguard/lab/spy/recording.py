"""Instruments that record samples and batches: their leaves, and summaries of the values in them.

`Records` writes all of them, or a few, so that a long epoch needs little memory and disk. `ValueSummaries` writes what
may be labels, boxes, masks or the range of images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.leaves import array_of, is_pillow, iter_leaves, leaves_of, shared_bytes
from dataguard.lab.core.records import (
    BatchRecord,
    LeafRecord,
    Numbers,
    Row,
    SampleRecord,
    ValueSummary,
    plain_index,
    sample_records,
)
from dataguard.lab.spy.sample_ledger import Ledger, LedgerResolution, shingles_of
from dataguard.lab.spy.usage_readings import threads_of_libraries
from dataguard.targets.loading import load


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
        return RecordHooks(self, process)


class RecordHooks(Hooks):
    """Writes the records of one process."""

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
            records = [replace(record, leaves=self._leaves(samples[record.position])) for record in records]
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
    if isinstance(batch, list) and len(batch) > 1 and {type(row) for row in batch} in ({str}, {dict}, {list}):
        return batch
    columns = batch if isinstance(batch, dict) and all(isinstance(column, list) for column in batch.values()) else {}
    if len({len(column) for column in columns.values()}) != 1:
        return None
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


MOST_STRUCTURES = 256
"""Most structures of which a sample is kept: if every sample has its own shape, more add no information."""
MOST_BAD_RECORDS = 10_000
"""Most samples with non-finite values, and failed batches, that are kept."""
MOST_BLANK_SAMPLES = 256
"""Most blank samples that are kept: each is a finding, and a report names a few."""


class RecordSampler:
    """Keeps the first `samples` samples and batches, the first of each structure, the largest, and all bad ones.

    Several portions can be merged by another sampler: it keeps what it would keep of all records, because each
    portion keeps whatever is among the first of all.
    """

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._batches = samples
        self._structures: set[object] = set()
        self._bad = MOST_BAD_RECORDS
        self._blank = MOST_BLANK_SAMPLES
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


MOST_LEAVES = 256
"""Most leaves of a sample or batch that are summarized: labels and boxes are among the first."""
MOST_LABELS = 4096
"""Most labels whose first sample is always summarized: their values are kept in memory."""
PROBED_VALUES = 64
"""Values that are enough to see that most leaves hold fractions, or values that are not finite."""


@dataclass(frozen=True, slots=True)
class ValueSummaries(Instrument):
    """Summarizes the values of the first `most` samples and batches of an epoch, and of samples with new labels.

    Only in the first epoch.
    """

    most: int

    def start(self, process: Process) -> Hooks:
        """Each process counts its own samples."""
        return _ValueSummaries(self.most, process)


class _ValueSummaries(Hooks):
    def __init__(self, most: int, process: Process) -> None:
        self._process = process
        self._samples = self._batches = most
        self._known: set[tuple[str, float]] = set()

    def at_samples(self, fetch: Fetch, samples: Sequence[Any]) -> None:
        """Summarize samples before they are collated."""
        for position, sample in enumerate(samples if fetch.epoch == 0 else ()):
            self._samples -= 1
            numbers = tuple(numbers_of(sample))
            if self._samples >= 0 or self._has_new_label(numbers):
                index = plain_index(fetch.indices[position]) if position < len(fetch.indices) else None
                self._process.spool.write(ValueSummary(self._process.worker, fetch.number, position, index, numbers))

    def at_batch(self, fetch: Fetch, batch: Any) -> None:
        """Summarize a batch."""
        if fetch.epoch or fetch.incident is not None:
            return
        self._batches -= 1
        if self._batches >= 0:
            numbers = tuple(numbers_of(batch, rows=True))
            self._process.spool.write(ValueSummary(self._process.worker, fetch.number, None, None, numbers))

    def _has_new_label(self, numbers: Sequence[Numbers]) -> bool:
        labels = {
            (leaf.path, value) for leaf in numbers if leaf.size < PROBED_VALUES and leaf.whole for value in leaf.values
        }
        new = bool(labels - self._known) and len(self._known) < MOST_LABELS
        if new:
            self._known |= labels
        return new


def numbers_of(value: Any, *, rows: bool = False) -> Iterator[Numbers]:
    """The values in the leaves of a sample or batch, without uint8 colour images."""
    for path, leaf in islice(iter_leaves(value), MOST_LEAVES):
        try:
            array = _array(leaf)
            numbers = None if array is None or not array.size else _numbers(path, array, leaf, rows=rows)
        except (RuntimeError, TypeError, ValueError, OverflowError):  # a tensor type whose values cannot be read
            continue
        if numbers is not None:
            yield numbers


_GREYS = ("1", "L", "P", "I", "I;16")
"""The modes of Pillow images with one number for each pixel."""


def _array(leaf: Any) -> np.ndarray | None:
    """The values of a leaf; None if it has no numbers."""
    if isinstance(leaf, torch.Tensor):
        if leaf.device.type == "meta" or leaf.is_nested or leaf.is_quantized or leaf.layout is not torch.strided:
            return None
    elif is_pillow(leaf):
        if leaf.mode not in _GREYS:
            return None
    elif isinstance(leaf, list | tuple):
        if not leaf or not isinstance(leaf[0], int | float):
            return None
    elif not isinstance(leaf, np.ndarray | np.generic | bool | int | float):
        return None
    array = array_of(leaf)
    return array if array.dtype.kind in "biuf" else None


MOST_SUMMARIZED = 1 << 28
"""Most values of a leaf that is summarized."""
MOST_VALUES = 512
"""Most values of a leaf that are listed."""


def _numbers(path: str, array: np.ndarray, leaf: Any, *, rows: bool) -> Numbers | None:
    if array.size > MOST_SUMMARIZED:
        return None
    if array.dtype == np.uint8 and array.ndim > 2 and 1 not in array.shape[-3:] and array.size > MOST_VALUES:
        return None
    flat = array.reshape(-1)
    name = str(leaf.dtype).removeprefix("torch.") if isinstance(leaf, torch.Tensor) else str(array.dtype)
    if array.dtype.kind == "f" and not np.isfinite(flat[:: max(len(flat) // PROBED_VALUES, 1)]).all():
        flat = flat[np.isfinite(flat)]
        if not flat.size:
            return None
    low, high = float(flat.min()), float(flat.max())
    whole = array.dtype.kind != "f" or _is_whole(flat)
    divided = not whole and _may_be_divided(array.shape) and low >= 0 and high <= 1 and _is_whole(flat * 255)
    few = array.size <= MOST_VALUES
    return Numbers(
        path,
        name,
        array.shape,
        low,
        high,
        whole,
        _counted(flat * 255 if divided else flat) if whole or divided else None,
        divided,
        tuple(_rows(array)) if rows else (),
        tuple(map(float, array.reshape(-1))) if few else (),
        *box_layout(leaf),
    )


MOST_TESTED_FRACTIONS = 1 << 22
"""Most floating point numbers that are searched for fractions: masks have fewer."""


def _is_whole(flat: np.ndarray) -> bool:
    if flat.size > MOST_TESTED_FRACTIONS:
        return False
    few = flat[:: max(len(flat) // PROBED_VALUES, 1)]
    # 1e-4 is more than the error of a 255th in single precision, times 255.
    return all(bool((np.abs(part - np.round(part)) < 1e-4).all()) for part in (few, flat))


def _may_be_divided(dimensions: tuple[int, ...]) -> bool:
    """Whether an array has the shape of a mask: no channels, or one."""
    return len(dimensions) == 2 or (len(dimensions) in (3, 4) and dimensions[-3] == 1)


MOST_DIFFERENT = 256
"""Most distinct integers in one leaf that are counted; a leaf with more holds no class indices."""
WIDEST_RANGE = 1 << 16
"""Largest range of integers that is counted: an array of that size is 512 kB."""
_COUNTED_AT_ONCE = 1 << 20
"""Most integers that are counted at once: they are copied as int64."""


def _counted(flat: np.ndarray) -> dict[int, int] | None:
    """How often each integer occurs, if they are few and close together."""
    low, high = (round(end.item()) for end in (flat.min(), flat.max()))
    if high - low >= WIDEST_RANGE:
        values, counts = np.unique(_exact(flat), return_counts=True) if flat.size <= MOST_VALUES else ((), ())
    else:
        frequencies = np.zeros(high - low + 1, dtype=np.int64)
        for start in range(0, flat.size, _COUNTED_AT_ONCE):
            frequencies += np.bincount(_exact(flat[start : start + _COUNTED_AT_ONCE]) - low, minlength=len(frequencies))
        values = np.flatnonzero(frequencies)
        counts, values = frequencies[values], values + low
    if not 0 < len(values) <= MOST_DIFFERENT:
        return None
    return {int(value): int(count) for value, count in zip(values, counts, strict=True)}


def _exact(flat: np.ndarray) -> np.ndarray:
    exact: np.ndarray = (np.round(flat) if flat.dtype.kind == "f" else flat).astype(np.int64)
    return exact


MOST_TABLE_VALUES = 1 << 19
"""Most values of a table whose rows are summarized."""


def _rows(array: np.ndarray) -> Iterator[Row]:
    """Summaries of the rows of a table."""
    if array.ndim != 2 or array.shape[1] < 2 or array.size > MOST_TABLE_VALUES:
        return
    table = array.astype(np.float64)
    greatest = np.partition(table, -2, axis=1)
    for row, top in zip(table, greatest, strict=True):
        yield Row(float(row.sum()), float(top[-1]), float(top[-2]), float(row.min()))


def box_layout(leaf: Any) -> tuple[str | None, tuple[int, int] | None]:
    """The format and the canvas size of torchvision's bounding boxes."""
    layout, canvas = getattr(leaf, "format", None), getattr(leaf, "canvas_size", None)
    if not isinstance(leaf, torch.Tensor) or layout is None or canvas is None:
        return None, None
    return str(getattr(layout, "value", layout)).lower(), (int(canvas[0]), int(canvas[1]))
