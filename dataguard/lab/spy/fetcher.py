"""What one fetcher of torch does under the spy: fetch a batch, record its samples, collate them, record the batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from dataguard.lab.core.index import plain_index
from dataguard.lab.core.leaves import leaves_of, shared_bytes
from dataguard.lab.core.records import BatchRecord, Failure, Stop, sample_records
from dataguard.lab.process.exceptions import incident_of
from dataguard.lab.rng.drawing_libraries import unheeded
from dataguard.lab.rng.global_rng import pinned
from dataguard.lab.rng.rng_discovery import move_on
from dataguard.lab.spy.library_threads import threads_of_libraries
from dataguard.lab.spy.skip_unreadable import UNREAD, without_unread
from dataguard.lab.spy.transferability import why_not_sent

if TYPE_CHECKING:
    from dataguard.lab.spy.worker_spy import Watcher


class Fetch:
    """One fetcher's work: fetch a batch's samples, record them, collate, record the batch."""

    def __init__(self, watcher: Watcher, fetcher: Any, *, iterable: bool) -> None:
        self.watcher = watcher
        self.iterable = iterable
        self.roots = {
            "dataset": fetcher.dataset,
            "collate_fn": fetcher.collate_fn,
            "worker_init_fn": watcher.user_init,
            "stream": getattr(fetcher, "dataset_iter", None),
        }
        self.user_collate = fetcher.collate_fn
        self.torch_fetch = fetcher.fetch
        self.auto_collation = fetcher.auto_collation
        self.batch: list[Any] = []
        self.seconds: list[float] = []
        self.started = 0.0
        self.recorded = 0

    def fetch(self, batch: Any) -> Any:
        """Stand in for the fetch of torch: what the plan wants happens around it."""
        watcher = self.watcher
        if watcher.fetches == watcher.plan.length:
            watcher.epoch, watcher.fetches = watcher.epoch + 1, 0
        if watcher.gauges is not None:
            watcher.gauges.begin(watcher.epoch)
        if watcher.fetches == 0:
            watcher.censuses.take(watcher.epoch, 0, self.roots)
        if watcher.plan.perturb and watcher.plan.moves(watcher.worker, watcher.epoch, watcher.fetches):
            move_on(watcher.plan.perturb, self.roots)
        number, watcher.fetches = watcher.fetches, watcher.fetches + 1
        self.batch = list(batch) if self.auto_collation else [batch]
        self.seconds = []
        self.started = time.perf_counter()
        with watcher.holding(watcher.epoch, number, self.roots), watcher.noting(number, self.roots):
            data = self.torch_fetch(batch)
        if watcher.gauges is not None:
            watcher.gauges.count(watcher.epoch, len(self.batch))
        watcher.censuses.take(watcher.epoch, watcher.fetches, self.roots)
        return data

    def read(self, index: Any, get: Callable[[], Any]) -> Any:
        """Get one sample (or, through `__getitems__`, several) from the user's dataset."""
        seed = self.watcher.plan.pin_each
        with self.watcher.catching("sample", index, self.batch), pinned(seed) if seed is not None else nullcontext():
            started = time.perf_counter()
            try:
                sample = get()
            except StopIteration as error:
                self._stopped(error, index)
                raise
            self.seconds.append(time.perf_counter() - started)
        return sample

    def _stopped(self, error: StopIteration, index: Any) -> None:
        """Take note of what ends a stream rightly, and of a map-style dataset cuts the epoch short."""
        if not self.iterable:
            watcher = self.watcher
            incident = incident_of(error, "sample", index, self.batch, watcher.worker)
            watcher.spool.write(Stop(watcher.worker, watcher.epoch, incident))

    def collate(self, data: Any) -> Any:
        """Stand in for the user's collate_fn: look at the samples, call it, look at the batch."""
        watcher, number = self.watcher, self.watcher.fetches - 1
        if watcher.plan.pass_over:
            if data is UNREAD:
                return None
            if isinstance(data, list) and self.auto_collation:
                data, self.batch, self.seconds = without_unread(data, self.batch, self.seconds)
                if not data:
                    return None
        enough = watcher.plan.most is not None and self.recorded >= watcher.plan.most
        if enough or watcher.gauges is not None:
            batch = self.user_collate(data) if watcher.plan.carry or watcher.gauges is not None else None
            return batch if watcher.plan.carry else None
        fetch_seconds = time.perf_counter() - self.started
        samples = list(data) if self.auto_collation and isinstance(data, list | tuple) else [data]
        self.recorded += len(samples)
        close = watcher.close
        if watcher.prints:
            watcher.prints.take(map(plain_index, self.batch), samples)
        leaves = (watcher.leaves(sample, close=close) for sample in samples)
        records = sample_records((watcher.worker, watcher.epoch, number), self.batch, self.seconds, leaves)
        watcher.keep(*records, closer=lambda one: None if close else watcher.leaves(samples[one.position]))
        appraiser = None if watcher.epoch else watcher.appraiser
        if appraiser is not None:
            appraiser.look_at_samples(number, [plain_index(index) for index in self.batch[: len(samples)]], samples)
        started = time.perf_counter()
        incident = batch = None
        watcher.box.mark(watcher.worker, "collate", None)
        try:
            with unheeded():
                batch = self.user_collate(data)
        except Exception as error:  # noqa: BLE001 - recorded, and raised again below unless the plan goes on
            incident = incident_of(error, "collate", None, self.batch, watcher.worker)
        except BaseException as error:  # it ends this worker: the record is all that will be left
            raised = incident_of(error, "collate", None, self.batch, watcher.worker)
            watcher.spool.write(Failure(watcher.worker, watcher.epoch, raised))
            raise
        collate_seconds = time.perf_counter() - started
        refuses_each = incident is not None and all(self._refuses(sample) for sample in samples)
        if incident is None and watcher.worker is not None:
            watcher.box.mark(watcher.worker, "transfer", None)
            incident = why_not_sent(batch, self.batch, watcher.worker)
        watcher.keep(
            BatchRecord(
                watcher.worker,
                watcher.epoch,
                number,
                len(samples),
                tuple(map(plain_index, self.batch[: len(samples)])),
                fetch_seconds,
                collate_seconds,
                leaves_of(batch, digests=watcher.sieve is None),
                shared_bytes(batch),
                incident,
                refuses_each,
                threads_of_libraries(),
            )
        )
        if appraiser is not None and incident is None:
            appraiser.look_at_batch(number, batch)
        if incident is not None and (watcher.plan.carry or not watcher.plan.keep_going):
            watcher.failed = True
            watcher.spool.write(Failure(watcher.worker, watcher.epoch, incident))
            raise RuntimeError(incident.message)
        return batch if watcher.plan.carry else None

    def _refuses(self, sample: Any) -> bool:
        """Whether collate_fn fails on this sample alone."""
        try:
            self.user_collate([sample] if self.auto_collation else sample)
        except Exception:  # noqa: BLE001 - whether it raises is all that is asked
            return True
        return False
