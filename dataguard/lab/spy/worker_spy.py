"""The part that runs inside workers: it watches the fetcher that torch makes there, and changes nothing else.

`SpyInit` takes the place of `worker_init_fn`, runs the user's own first (with `get_worker_info().dataset` the
user's own object), and then wraps what `_DatasetKind.create_fetcher` returns. That is the last thing torch does before
its loop starts, in every start method (measured on torch 2.15), and torchdata's StatefulDataLoader does the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch.utils.data import _DatasetKind, get_worker_info

from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import BatchRecord, Failure, Leaf, SampleRecord, Spool
from dataguard.lab.process import stack_dumps
from dataguard.lab.process.exceptions import incident_of
from dataguard.lab.process.flight_recorder import BlackBox
from dataguard.lab.rng.frozen_rng import Stillness
from dataguard.lab.rng.global_rng import pinned
from dataguard.lab.rng.rng_census import Censuses
from dataguard.lab.rng.rng_discovery import reseed
from dataguard.lab.rng.seed_log import FirstSeeds, SeedNotes
from dataguard.lab.spy.content_hashes import PrintFile
from dataguard.lab.spy.dataset_proxies import WatchedBatches, WatchedItems, WatchedIterator
from dataguard.lab.spy.fetcher import Fetch
from dataguard.lab.spy.global_worker_id import take_seat
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.record_sampling import Sieve
from dataguard.lab.spy.sample_ledger import Ledger
from dataguard.lab.spy.skip_unreadable import Passing, PassingBatches
from dataguard.lab.spy.usage_readings import Gauges
from dataguard.lab.spy.value_summaries import Appraiser
from dataguard.target.loading import load

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
        stack_dumps.register(self.plan.folder)
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
        self.appraiser = Appraiser(self.spool, worker, plan.appraise) if plan.appraise else None
        self.ledger = Ledger(plan.folder, worker, plan.ledger) if plan.ledger is not None else None
        self.gauges = Gauges(self.spool, worker, plan.gauge, plan.threads) if plan.gauge is not None else None
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
            self.notes = SeedNotes(self.plan.burns, self.spool, self.worker, always=self.plan.burn_always)
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
        watch = Fetch(self, fetcher, iterable=iterable)
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
