"""One torch fetcher under the spy: fetch samples, pass them to the instruments, collate them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from dataguard.incident import Incident, shown_index
from dataguard.lab.core.index import members
from dataguard.lab.core.instrument import Fetch, nested
from dataguard.lab.core.leaves import path_to_itself
from dataguard.lab.core.records import Refusal, Stop
from dataguard.lab.process.exceptions import incident_of, raised_by_dataguard
from dataguard.lab.rng.drawing_libraries import draws_ignored
from dataguard.lab.spy.transferability import Parcel
from dataguard.lab.spy.watcher import Watcher
from dataguard.model import DataguardError
from dataguard.process.originals import time
from dataguard.process.process_tree import seconds_without_core

SLOW = 1e-3
"""Seconds of a read after which the next one is timed without its wait for a core; that costs 20 microseconds."""


class WatchedFetcher:
    """Replaces the methods of one torch fetcher during one epoch."""

    def __init__(self, watcher: Watcher, fetcher: Any, *, iterable: bool) -> None:
        self.watcher = watcher
        self.hooks = watcher.hooks
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
        self.current = Fetch(watcher.epoch, 0, self.roots, [])
        self.looked_at = 0
        self._slow = True  # until a read shows otherwise

    def fetch(self, batch: Any) -> Any:
        """Replace torch's fetch: call it inside the instruments' hooks."""
        number = self.watcher.begin_fetch()
        indices = members(batch) if self.auto_collation else [batch]
        self.current = Fetch(self.watcher.epoch, number, self.roots, indices)
        with nested([enter(self.current) for enter in self.hooks.around_fetch]):
            self.current.began = time.perf_counter()
            return self.torch_fetch(batch)

    def read(self, index: Any, get: Callable[[], Any], count: int = 1) -> Any:
        """Get one sample (or, through `__getitems__`, so many at once) from the user's dataset."""
        fetch = self.current
        around = nested([enter() for enter in self.hooks.around_sample])
        with self.watcher.catching("sample", index, fetch.indices), around:
            waited = seconds_without_core() if self._slow else 0.0
            started = time.perf_counter()
            try:
                sample = get()
            except StopIteration as error:
                self._stopped(error, index)
                raise
            seconds = time.perf_counter() - started
            seconds -= seconds_without_core() - waited if self._slow else 0.0
            self._slow = seconds > SLOW
            fetch.seconds += [seconds / count] * count
        return sample

    def _stopped(self, error: StopIteration, index: Any) -> None:
        """Record a StopIteration of a map-style dataset, which cuts the epoch short; a stream ends with one."""
        if not self.iterable:
            process, fetch = self.watcher.process, self.current
            incident = incident_of(error, "sample", index, fetch.indices, process.worker)
            process.spool.write(Stop(process.worker, fetch.epoch, incident))

    def collate(self, data: Any) -> Any:
        """Replace the user's collate_fn: pass on the samples, call it, pass on the batch."""
        plan, fetch = self.watcher.plan, self.current
        samples = list(data) if self.auto_collation and isinstance(data, list | tuple) else [data]
        if self.hooks.keeps:
            kept = [place for place, sample in enumerate(samples) if all(keeps(sample) for keeps in self.hooks.keeps)]
            if not kept:
                return None
            if len(kept) < len(samples):
                samples = _at(kept, samples)
                data = list(samples)
                fetch.indices, fetch.seconds = _at(kept, fetch.indices), _at(kept, fetch.seconds)
        looks = self.hooks.at_samples or self.hooks.at_batch
        enough = plan.most is not None and self.looked_at >= plan.most
        if enough or not looks:
            with self.watcher.catching("collate", None, fetch.indices):
                batch = self.user_collate(data) if plan.carry or not looks else None
            return batch if plan.carry else None
        fetch.fetch_seconds = time.perf_counter() - fetch.began
        fetch.size = len(samples)
        self.looked_at += fetch.size
        for at_samples in self.hooks.at_samples:
            with self._looking():
                at_samples(fetch, samples)
        batch = self._collated(fetch, data, samples)
        for at_batch in self.hooks.at_batch:
            with self._looking():
                at_batch(fetch, batch)
        if fetch.incident is not None and (plan.carry or not plan.keep_going):
            self.watcher.fail(fetch.incident)
            raise RuntimeError(fetch.incident.message)
        parcel = self._parcel(fetch, batch) if plan.loads and fetch.incident is None else None
        return parcel or (batch if plan.carry else None)

    def _parcel(self, fetch: Fetch, batch: Any) -> Parcel | None:
        """The batch, if it travels to be loaded in the main process."""
        sender = self.watcher.sender
        if sender is None:
            return None
        with self.watcher.catching("transfer", None, fetch.indices):
            return sender.parcel_of(batch, fetch.indices, carry=self.watcher.plan.carry)

    @contextlib.contextmanager
    def _looking(self) -> Iterator[None]:
        """Record that the user's objects raise when inspected, which is no fault of the loader."""
        try:
            yield
        except DataguardError:
            raise
        except Exception as error:
            if raised_by_dataguard(error, __file__):
                raise
            worker = self.watcher.process.worker
            self.watcher.process.spool.write(Refusal(incident_of(error, "sample", None, (), worker)))

    def _collated(self, fetch: Fetch, data: Any, samples: Sequence[Any]) -> Any:
        """The batch from the user's collate_fn, tested for whether it can be sent; None if it fails."""
        recorder, worker = self.watcher.process.recorder, self.watcher.process.worker
        batch = None
        started = time.perf_counter()
        recorder.mark(worker, "collate")
        try:
            with draws_ignored():
                batch = self.user_collate(data)
        except Exception as error:  # noqa: BLE001 - recorded, and raised again by `collate` unless the plan continues
            fetch.incident = incident_of(error, "collate", None, fetch.indices, worker)
            if isinstance(error, RecursionError):
                fetch.incident = _with_cycle(fetch.incident, fetch.indices, samples)
        except BaseException as error:  # it ends this worker: only the record remains
            self.watcher.fail(incident_of(error, "collate", None, fetch.indices, worker))
            raise
        fetch.collate_seconds = time.perf_counter() - started
        if fetch.incident is not None:
            fetch.refuses_each = all(self._refuses(sample) for sample in samples)
        elif (sender := self.watcher.sender) is not None:
            recorder.mark(worker, "transfer")
            fetch.incident = sender.why_not_sent(batch, fetch.indices)
        return batch

    def _refuses(self, sample: Any) -> bool:
        """Whether collate_fn fails on this sample alone."""
        try:
            self.user_collate([sample] if self.auto_collation else sample)
        except Exception:  # noqa: BLE001 - only whether it raises matters
            return True
        return False


def _with_cycle(incident: Incident, indices: Sequence[Any], samples: Sequence[Any]) -> Incident:
    """An incident of too deep a recursion, which says which of the samples contains itself, if one does."""
    for index, sample in zip_longest(indices, samples):
        path = path_to_itself(sample)
        if path is not None:
            name = "a sample" if index is None else f"sample {shown_index(index)}"
            return replace(incident, message=f"{incident.message}; {name} contains itself: sample{path}")
    return incident


def _at(places: Sequence[int], row: Sequence[Any]) -> list[Any]:
    return [row[place] for place in places if place < len(row)]
