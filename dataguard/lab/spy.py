"""The part that runs inside workers: it watches the fetcher that torch makes there, and changes nothing else.

`SpyInit` takes the place of `worker_init_fn`, runs the user's own first (with `get_worker_info().dataset` the
user's own object), and then wraps what `_DatasetKind.create_fetcher` returns. That is the last thing torch does before
its loop starts, in every start method (measured on torch 2.15), and torchdata's StatefulDataLoader does the same.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch.utils.data import _DatasetKind, get_worker_info

from dataguard.lab import stacks
from dataguard.lab.blackbox import BlackBox
from dataguard.lab.censuses import Censuses
from dataguard.lab.generators import move_on, reseed
from dataguard.lab.incidents import incident_of
from dataguard.lab.leaves import leaves_of, shared_bytes
from dataguard.lab.ledgers import Ledger
from dataguard.lab.passing import UNREAD, Passing, PassingBatches, without_unread
from dataguard.lab.pins import pinned
from dataguard.lab.plan import Plan
from dataguard.lab.prints import PrintFile
from dataguard.lab.proxies import WatchedBatches, WatchedItems, WatchedIterator
from dataguard.lab.records import (
    BatchRecord,
    Failure,
    Leaf,
    SampleRecord,
    Spool,
    Stop,
    plain_index,
    sample_records,
)
from dataguard.lab.seats import take_seat
from dataguard.lab.seeds import FirstSeeds, SeedNotes
from dataguard.lab.sieve import Sieve
from dataguard.lab.stillness import Stillness
from dataguard.lab.transfer import why_not_sent
from dataguard.target import load

_NOTHING: contextlib.AbstractContextManager[None] = contextlib.nullcontext()


class SpyInit:
    """A `worker_init_fn` that runs the user's own and then starts watching; picklable when the user's is."""

    def __init__(self, plan: Plan, user_init: Callable[[int], Any] | None) -> None:
        self.plan = plan
        self.user_init = user_init
        self.epoch = 0
        """The epoch in which workers start; persistent ones count on from there."""

    def __call__(self, worker: int) -> None:
        """Run in worker number `worker`, where torch calls worker_init_fn."""
        stacks.register(self.plan.folder)
        seat = take_seat(worker, *self.plan.seats) if self.plan.seats else worker
        watcher = Watcher(self.plan, worker, self.epoch, self.user_init)
        first = watcher.notes = FirstSeeds(watcher.spool, worker) if self.plan.first_seeds else None
        if self.user_init is not None:
            with watcher.catching("init"), first.noted({"worker": get_worker_info()}) if first else _NOTHING:
                self.user_init(seat)
        for library in self.plan.reseed:
            reseed(library, 1_000_003 * (worker + 1) + self.epoch)
        watcher.install()


class Watcher:
    """Watches the fetchers of one process and spools what they give."""

    def __init__(self, plan: Plan, worker: int | None, epoch: int = 0, user_init: Any = None) -> None:
        self.plan = plan
        self.worker = worker
        self.epoch = epoch - 1  # each fetcher begins an epoch
        self.fetches = 0
        self.box = BlackBox(plan.folder / "blackbox")
        self.spool = Spool(plan.folder, worker)
        self.censuses = Censuses(self.spool, worker, plan.census)
        self.failed = False
        self.user_init = user_init
        self.notes: SeedNotes | FirstSeeds | None = None
        self.stillness = Stillness(plan.still, plan.free) if plan.still else None
        self.sieve = Sieve(plan.keep) if plan.keep is not None else None
        self.ledger = Ledger(plan.folder, worker, plan.ledger) if plan.ledger is not None else None
        self.prints = PrintFile(plan.folder, worker) if plan.prints else None
        self.key: Callable[[Any], Any] | None = load(plan.key).source if plan.key else None

    def keep(
        self, *records: SampleRecord | BatchRecord, closer: Callable[[Any], tuple[Leaf, ...] | None] = lambda _: None
    ) -> None:
        """Count samples, and spool what the plan wants to be kept; `closer` gives leaves with digests for that."""
        samples = [record for record in records if isinstance(record, SampleRecord)]
        if self.ledger is not None and samples:
            self.ledger.enter(self.epoch, samples)
        if self.sieve is not None:
            self.box.count(self.worker, len(samples))
            kept = filter(self.sieve.keeps, records)
            records = tuple(replace(record, leaves=closer(record) or record.leaves) for record in kept)
        if records:
            self.spool.write(*records)

    @property
    def close(self) -> bool:
        """Whether samples are looked at closely, so that each of their leaves has a digest."""
        return self.sieve is None or self.ledger is not None or self.sieve.early

    def leaves(self, sample: Any, *, close: bool = True) -> tuple[Leaf, ...]:
        """What a sample is described by: its leaves, or the user's own key."""
        return leaves_of({"key": self.key(sample)} if self.key else sample, digests=close)

    def holding(self, epoch: int, fetch: int, roots: Mapping[str, Any]) -> contextlib.AbstractContextManager[None]:
        """What the plan does to random generators during a fetch."""
        if self.stillness is not None:
            return self.stillness.held(epoch, fetch, roots)
        seed = self.plan.pin(fetch)
        return contextlib.nullcontext() if seed is None else pinned(seed)

    def noting(self, fetch: int, roots: Mapping[str, Any]) -> contextlib.AbstractContextManager[None]:
        """What the plan wants to be noted during a fetch."""
        return self.notes.taken(self.epoch, fetch, roots) if self.notes else _NOTHING

    def install(self, dataset: Any = None) -> None:
        """Wrap every fetcher that torch makes in this process for the loader's own dataset."""
        if self.plan.burns:
            self.notes = SeedNotes(self.plan.burns, self.spool, self.worker)
        create: Any = _DatasetKind.create_fetcher
        if self.worker is not None:
            info = get_worker_info()
            dataset = info.dataset if info else None

        def create_fetcher(kind: int, fetched: Any, *args: Any) -> Any:
            if fetched is not dataset:  # a loader inside the user's dataset is none of our business
                return create(kind, fetched, *args)
            # The user's own `__iter__` runs here, and may draw.
            held = self.holding(self.epoch + 1, 0, {"dataset": fetched}) if self.plan.still else _NOTHING
            with self.catching("iterate"), held:
                fetcher = create(kind, fetched, *args)
            self._watch(fetcher, iterable=kind == _DatasetKind.Iterable)
            return fetcher

        setattr(_DatasetKind, "create_fetcher", staticmethod(create_fetcher))  # noqa: B010 - mypy forbids the plain form

    def _watch(self, fetcher: Any, *, iterable: bool) -> None:
        self.epoch += 1
        self.fetches = 0
        watch = _Fetch(self, fetcher, iterable=iterable)
        if iterable:
            fetcher.dataset_iter = WatchedIterator(fetcher.dataset_iter, watch.read)
        else:
            batched = hasattr(fetcher.dataset, "__getitems__") and fetcher.dataset.__getitems__
            if self.plan.pass_over:
                passing = PassingBatches if batched else Passing
                fetcher.dataset = passing(fetcher.dataset, self.plan.folder, self.worker, lambda: self.fetches - 1)
            fetcher.dataset = (WatchedBatches if batched else WatchedItems)(fetcher.dataset, watch.read)
        fetcher.collate_fn = watch.collate
        fetcher.fetch = watch.fetch

    @contextlib.contextmanager
    def catching(self, stage: str, index: Any = None, batch: Sequence[Any] = ()) -> Iterator[None]:
        """Spool what the user's code raises (once), and let it pass on to torch."""
        self.box.mark(self.worker, stage, index)
        try:
            yield
        except StopIteration:
            raise
        # Nothing is swallowed: SystemExit and KeyboardInterrupt end a worker, and must be told apart afterwards.
        except BaseException as error:
            if not self.failed:
                self.failed = True
                self.spool.write(Failure(self.worker, self.epoch, incident_of(error, stage, index, batch, self.worker)))
            raise


class _Fetch:
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
        watcher = self.watcher
        if watcher.fetches == watcher.plan.length:
            watcher.epoch, watcher.fetches = watcher.epoch + 1, 0
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
        watcher.censuses.take(watcher.epoch, watcher.fetches, self.roots)
        return data

    def read(self, index: Any, get: Callable[[], Any]) -> Any:
        """Get one sample (or, through `__getitems__`, several) from the user's dataset."""
        seed = self.watcher.plan.pin_each
        with self.watcher.catching("sample", index, self.batch), _NOTHING if seed is None else pinned(seed):
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
        if watcher.plan.most is not None and self.recorded >= watcher.plan.most:
            return self.user_collate(data) if watcher.plan.carry else None
        fetch_seconds = time.perf_counter() - self.started
        samples = list(data) if self.auto_collation and isinstance(data, list | tuple) else [data]
        self.recorded += len(samples)
        close = watcher.close
        if watcher.prints:
            watcher.prints.take(map(plain_index, self.batch), samples)
        leaves = (watcher.leaves(sample, close=close) for sample in samples)
        records = sample_records((watcher.worker, watcher.epoch, number), self.batch, self.seconds, leaves)
        watcher.keep(*records, closer=lambda one: None if close else watcher.leaves(samples[one.position]))
        started = time.perf_counter()
        incident = batch = None
        watcher.box.mark(watcher.worker, "collate", None)
        try:
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
            )
        )
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
