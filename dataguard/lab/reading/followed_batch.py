"""A batch, read and collated while the user's code is followed line by line.

It takes the place of no epoch: a few samples are read in this disposable process, as the first worker would.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from dataguard.core.model import Undecided
from dataguard.lab.core.records import Index
from dataguard.lab.culprit.value_trace import BatchHistory, ValueTrace
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.rng_discovery import SEED, seeded
from dataguard.targets.variants import Loader


def follow_batch(loader: Loader, folder: Path, indices: Sequence[Index], skip: int = 0) -> BatchHistory:
    """Read the samples of these indices, and collate them; of a stream, as many if they are None, after some others."""
    reader = Reader(loader, folder)
    trace = ValueTrace({"dataset": loader.dataset, "collate_fn": loader.collate_fn})
    samples = _samples(reader, indices, trace, skip)
    read = len(trace.looks)
    given: Any = list(samples) if loader.batch_sampler is not None else samples[0]
    with gate("collate"), trace.following(), seeded(SEED):
        batch = loader.collate_fn(given)
    if trace.is_cut:
        raise Undecided(_TOO_LONG)
    return BatchHistory(samples, batch, trace.looks, read)


def follow_getitems(loader: Loader, folder: Path, indices: Sequence[Index]) -> BatchHistory:
    """Read samples one by one, and then together, by `__getitems__`, which is followed."""
    reader = Reader(loader, folder)
    trace = ValueTrace({"dataset": loader.dataset})
    samples = [reader.read(index) for index in indices]
    dataset: Any = loader.dataset
    with gate("sample"), trace.following(), seeded(SEED):
        answer = dataset.__getitems__(list(indices))
    if trace.is_cut:
        raise Undecided(_TOO_LONG)
    return BatchHistory(samples, answer, trace.looks, 0)


def follow_sample(loader: Loader, folder: Path, index: Index, draw: int = 0) -> BatchHistory:
    """Read one sample, under the random state of this draw."""
    trace = ValueTrace({"dataset": loader.dataset})
    samples = _samples(Reader(loader, folder, draw + 1), (index,), trace, draw=draw)
    if trace.is_cut:
        raise Undecided(_TOO_LONG)
    return BatchHistory(samples, None, trace.looks, len(trace.looks))


def _samples(reader: Reader, indices: Sequence[Index], trace: ValueTrace, skip: int = 0, draw: int = 0) -> list[Any]:
    if None not in indices:
        with trace.following():
            return [reader.read(index, draw) for index in indices]
    with gate("sample"), seeded(SEED):
        stream = iter(reader.dataset)
        for _ in islice(stream, skip):
            pass
        with trace.following():
            return list(islice(stream, len(indices)))


_TOO_LONG = "the user's code takes too long to be followed line by line"
