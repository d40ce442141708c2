"""How the time of a batch is spent: fetching and transforming samples, collating, sending, pinning, copying.

Measured part by part, in a separate process that does the work of one worker.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, _DatasetKind
from torch.utils.data import Dataset as TorchDataset

from dataguard.lab.core.leaf_sizes import shared_bytes
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.sample_reader import emulate_worker
from dataguard.lab.throughput import cuda_copies
from dataguard.lab.throughput.timed_run import EndlessOrder
from dataguard.lab.throughput.transform_timer import TransformTimer
from dataguard.process.originals import time
from dataguard.targets.variants import Loader
from dataguard.timings import Stage

_MOST_BATCHES = 8
_MOST_BYTES = 256_000_000
_REST = "reading and the rest of the dataset"


@dataclass(frozen=True, slots=True)
class Profile:
    """The stages of a batch, the bytes of shared memory needed to send one, and facts about the device."""

    stages: tuple[Stage, ...]
    batch_bytes: int
    device: dict[str, Any]


def run_profile(loader: Loader, recorder: FlightRecorder, seconds: float) -> Profile:
    """Make some batches here, as a worker does, for about so many seconds, then send, pin and copy them."""
    if loader.num_workers:
        emulate_worker(loader, recorder, 1)
    watch = TransformTimer()
    watch.watch(loader.dataset)
    batches, fetched, collated = _made(loader, recorder, watch, seconds)
    count = max(len(fetched), 1)
    parts = [Stage(name, total / count) for name, total in watch.seconds.items()]
    parts.sort(key=lambda part: part.seconds or 0, reverse=True)
    fetch = statistics.fmean(fetched)
    if parts:
        parts.append(Stage(_REST, max(fetch - sum(part.seconds or 0 for part in parts), 0.0)))
    sizes = [shared_bytes(batch) for batch in batches]
    stages = [
        Stage("fetch", fetch, tuple(parts)),
        Stage("collate", statistics.fmean(collated)),
        _transfer(batches, recorder) if loader.num_workers else Stage("transfer", skipped="num_workers=0"),
    ]
    device = cuda_copies.measure_transfer(batches[-1], pinned=loader.pin_memory)
    return Profile((*stages, *device.stages), max(sizes), device.known)


def _made(
    loader: Loader, recorder: FlightRecorder, watch: TransformTimer, seconds: float
) -> tuple[list[Any], list[float], list[float]]:
    """Some batches, with the seconds for fetching and collating all but the first."""
    stream = isinstance(loader.dataset, IterableDataset)
    kind = _DatasetKind.Iterable if stream else _DatasetKind.Map
    batched = loader._auto_collation
    collating: list[float] = []

    def collate(data: Any) -> Any:
        started = time.perf_counter()
        batch = loader.collate_fn(data)
        collating.append(time.perf_counter() - started)
        return batch

    batches: list[Any] = []
    fetching: list[float] = []
    began = time.perf_counter()
    with gate("sample"):
        fetcher = _DatasetKind.create_fetcher(kind, loader.dataset, batched, collate, loader.drop_last)
        for entry in islice(EndlessOrder(loader._index_sampler), _MOST_BATCHES):
            recorder.mark(None, "sample")
            started = time.perf_counter()
            try:
                batch = fetcher.fetch(entry)
            except StopIteration:
                break
            fetching.append(time.perf_counter() - started - collating[-1])
            if len(fetching) == 1:
                watch.seconds.clear()
            batches.append(batch)
            enough = time.perf_counter() - began > seconds or shared_bytes(batch) * len(batches) > _MOST_BYTES
            if enough and len(batches) > 1:
                break
    warm = 1 if len(fetching) > 1 else 0
    return batches, fetching[warm:], collating[warm:]


class _BatchDataset(TorchDataset[Any]):
    """Batches that exist already."""

    def __init__(self, batches: Sequence[Any]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Any:
        return self.batches[index]


def _identity(batch: Any) -> Any:
    return batch


def _transfer(batches: Sequence[Any], recorder: FlightRecorder) -> Stage:
    """The time to send a finished batch from a worker; each is sent once, because it is in shared memory then."""
    if len(batches) < 3:
        return Stage("transfer", skipped="too few batches")
    replay: Loader = DataLoader(
        _BatchDataset(batches), batch_size=None, num_workers=1, collate_fn=_identity, multiprocessing_context="fork"
    )
    arrivals = []
    for _ in replay:
        recorder.mark(None, "transfer")
        arrivals.append(time.perf_counter())
    return Stage("transfer", statistics.median(later - earlier for earlier, later in pairwise(arrivals)))
