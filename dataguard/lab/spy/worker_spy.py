"""The part of the spy inside workers: it watches the fetcher that torch creates, and changes nothing else.

`SpyInit` replaces `worker_init_fn`, runs the user's own first (`get_worker_info().dataset` is the user's object), and
then wraps the result of `_DatasetKind.create_fetcher`. torch calls that last before its loop starts, with every start
method (measured on torch 2.15), and so does torchdata's StatefulDataLoader.

In each process a `Watcher` holds the instruments of the `Plan`, and a `WatchedFetcher` passes them what the fetcher of
an epoch reads and collates. The fetcher sees the user's dataset or iterator through proxies that announce every read.

Whether a batch reaches the main process is tested here: a worker pickles it like torch's queues do, without the
contents of its tensors. One batch of each kind travels whole, and the main process loads it: whether that works is
decided by the classes that it consists of.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from torch.utils.data import _DatasetKind, get_worker_info

from dataguard.core.incident import Incident, shown_index
from dataguard.core.model import DataguardError
from dataguard.lab.core.instrument import Fetch, HookLists, Instrument, Process, nested
from dataguard.lab.core.leaves import path_to_itself
from dataguard.lab.core.records import Failure, Refusal, Stop, members
from dataguard.lab.process import incidents
from dataguard.lab.process.incidents import incident_of, raised_by_dataguard, shown_batch
from dataguard.lab.rng.frozen_rng import draws_ignored
from dataguard.process.originals import time
from dataguard.process.process_tree import seconds_without_core


@dataclass(frozen=True, slots=True)
class Plan:
    """What the spy does in one observation, and how the loader is driven meanwhile.

    `instruments` work in the processes that read samples; the first is the outermost. After `most` samples in an epoch,
    a process passes them no more samples, and does not collate. `length` is the number of fetches of a process in an
    epoch, for loaders whose epochs never end. With `carry`, the main process receives the real batches, otherwise None
    instead; with `loads`, it loads the first batch of each kind from each worker. With `keep_going`, an exception in
    collate_fn does not end the epoch. With `announce`, `set_epoch` of sampler and dataset is called when an epoch
    begins; without, it does nothing, if the loader's own `__iter__` calls it.
    """

    folder: Path
    instruments: tuple[Instrument, ...] = ()
    most: int | None = None
    length: int | None = None
    carry: bool = False
    loads: bool = False
    keep_going: bool = False
    announce: bool = True


class SpyInit:
    """A `worker_init_fn` that runs the user's own and then starts watching; picklable when the user's is."""

    def __init__(self, plan: Plan, user_init: Callable[[int], Any] | None) -> None:
        self.plan = plan
        self.user_init = user_init
        self.epoch = 0
        """The epoch in which workers start; persistent ones count from there."""

    def __call__(self, worker: int) -> None:
        """Run in worker number `worker`, where torch calls worker_init_fn."""
        incidents.register_stack_dumps(self.plan.folder)
        watcher = Watcher(self.plan, worker, self.epoch, self.user_init)
        info: Any = get_worker_info()
        with nested([enter() for enter in watcher.hooks.around_init]):
            if self.user_init is not None:
                with watcher.catching("init"):
                    self.user_init(info.id)  # an instrument may have changed the number
        install(watcher, info.dataset)


def install(watcher: Watcher, dataset: Any) -> None:
    """Watch every fetcher that torch makes here for the loader's own dataset, in place of earlier watchers."""
    for begin in watcher.hooks.begin:
        begin()
    current: Any = _DatasetKind.create_fetcher
    create = getattr(current, "replaced", current)  # an earlier watcher of this process or its parent is done

    def create_fetcher(kind: int, fetched: Any, *args: Any) -> Any:
        if fetched is not dataset:  # of a loader inside the user's dataset
            return create(kind, fetched, *args)
        # The user's own `__iter__` runs here, and may draw.
        around = [enter(watcher.epoch + 1, fetched) for enter in watcher.hooks.around_start]
        with watcher.catching("iterate"), nested(around):
            fetcher = create(kind, fetched, *args)
        watch_fetcher(watcher, fetcher, iterable=kind == _DatasetKind.Iterable)
        return fetcher

    create_fetcher.replaced = create  # type: ignore[attr-defined]
    setattr(_DatasetKind, "create_fetcher", staticmethod(create_fetcher))  # noqa: B010 - mypy forbids the plain form


def uninstall() -> None:
    """Let torch make fetchers by itself again: a watcher that is done would keep its dataset from being freed."""
    current: Any = _DatasetKind.create_fetcher
    setattr(_DatasetKind, "create_fetcher", staticmethod(getattr(current, "replaced", current)))  # noqa: B010 - as above


def watch_fetcher(watcher: Watcher, fetcher: Any, *, iterable: bool) -> None:
    """Replace the methods, the dataset and the iterator of a fetcher."""
    watcher.begin_epoch()
    watched = WatchedFetcher(watcher, fetcher, iterable=iterable)
    if iterable:
        fetcher.dataset_iter = WatchedIterator(fetcher.dataset_iter, watched.read)
    else:
        batched = hasattr(fetcher.dataset, "__getitems__") and fetcher.dataset.__getitems__
        for wrap in watcher.hooks.wrap:
            fetcher.dataset = wrap(fetcher.dataset)
        fetcher.dataset = (WatchedBatches if batched else WatchedItems)(fetcher.dataset, watched.read)
    fetcher.collate_fn = watched.collate
    fetcher.fetch = watched.fetch


class Watcher:
    """Watches one process: worker number `worker`, or the main process if that is None."""

    def __init__(self, plan: Plan, worker: int | None, epoch: int = 0, user_init: Any = None) -> None:
        self.plan = plan
        self.user_init = user_init
        self.process = Process(plan.folder, worker, epoch)
        self.hooks = HookLists(instrument.start(self.process) for instrument in plan.instruments)
        self.sender = BatchSender(worker) if worker is not None else None
        self.epoch = epoch - 1  # each fetcher begins an epoch
        self.fetches = 0
        self.failed = False

    def begin_epoch(self) -> None:
        """Start counting fetches from 0."""
        self.epoch, self.fetches = self.epoch + 1, 0

    def begin_fetch(self) -> int:
        """The number of the fetch that begins now; it begins an epoch if the plan limits their length."""
        if self.fetches == self.plan.length:
            self.begin_epoch()
        self.fetches += 1
        return self.fetches - 1

    def fail(self, incident: Incident) -> None:
        """Spool an incident."""
        self.failed = True
        self.process.spool.write(Failure(self.process.worker, self.epoch, incident))

    @contextlib.contextmanager
    def catching(self, stage: str, index: Any = None, batch: Sequence[Any] = ()) -> Iterator[None]:
        """Spool what the user's code raises (once), and let torch see it."""
        self.process.recorder.mark(self.process.worker, stage, index)
        try:
            yield
        except StopIteration:
            raise
        # Nothing is swallowed: SystemExit and KeyboardInterrupt end a worker, and are distinguished later.
        except BaseException as error:
            if not self.failed:
                incident = incident_of(error, stage, index, batch, self.process.worker)
                unsent = why_not_raised(error) if self.sender is not None and isinstance(error, Exception) else None
                if unsent is not None:
                    self.fail(replace(incident, stage="raise", message=f"{incident.headline} ({unsent})"))
                    raise RuntimeError(unsent) from error
                self.fail(incident)
            raise


def why_not_raised(error: BaseException) -> str | None:
    """Why the main process never hears of an exception: torch's queues pickle its class by name; None if they can."""
    try:
        ForkingPickler.dumps(type(error))
    except Exception as refused:  # noqa: BLE001 - a user-defined metaclass may raise anything
        return f"{type(refused).__name__}: {refused}"
    return None


SLOW_READ = 1e-3
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
            self._slow = seconds > SLOW_READ
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
            kept = [
                position for position, sample in enumerate(samples) if all(keeps(sample) for keeps in self.hooks.keeps)
            ]
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
    return [row[position] for position in places if position < len(row)]


Read = Callable[..., Any]
"""Called with an index (None in a stream), a function that reads, and how many samples it reads if not one; returns
what that returns."""


class WatchedItems:
    """A map-style dataset as the fetcher sees it."""

    def __init__(self, dataset: Any, read: Read) -> None:
        self._dataset = dataset
        self._read = read

    def __getitem__(self, index: Any) -> Any:
        return self._read(index, lambda: self._dataset[index])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


class WatchedBatches(WatchedItems):
    """A map-style dataset that fetches a whole batch at once."""

    def __getitems__(self, indices: Any) -> Any:
        asked = members(indices)
        index = asked[0] if len(asked) == 1 else None
        return self._read(index, lambda: self._dataset.__getitems__(indices), max(len(asked), 1))


class WatchedIterator:
    """A stream's iterator as the fetcher sees it."""

    def __init__(self, iterator: Any, read: Read) -> None:
        self._iterator = iterator
        self._read = read

    def __iter__(self) -> WatchedIterator:
        return self

    def __next__(self) -> Any:
        return self._read(None, lambda: next(self._iterator))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


class BatchSender:
    """Decides which batches of one worker travel to the main process."""

    def __init__(self, worker: int) -> None:
        self._worker = worker
        self._loaded: dict[int, Any] = {id(torch.Tensor): torch.Tensor}
        self._new: dict[int, Any] = {}

    def why_not_sent(self, batch: Any, indices: Sequence[Any]) -> Incident | None:
        """Pickle a batch like torch's queues do, discard the result, and return what was raised.

        In a queue it would happen in a feeder thread: the failure is silent, and the main process waits forever.
        """
        pickler = _TransferPickler()
        try:
            pickler.dump(batch)
        except Exception as error:  # noqa: BLE001 - the user's own __reduce__ may raise anything
            return incident_of(error, "transfer", None, indices, self._worker)
        finally:
            self._new = {key: part for key, part in pickler.parts.items() if key not in self._loaded}
        return None

    def parcel_of(self, batch: Any, indices: Sequence[Any], *, carry: bool) -> Parcel | None:
        """The batch that was pickled last, as it travels; None if all of its classes have been loaded before."""
        if not self._new:
            return None
        self._loaded.update(self._new)
        content = ForkingPickler.dumps(batch).tobytes()
        return Parcel(self._worker, indices, _names(self._new.values()), content, carry=carry)


class _TransferPickler(ForkingPickler):
    """Pickles like torch's queues, but leaves tensor contents where they are.

    `parts` are the classes of the objects in it, and the classes and functions that it names, by id: user-defined
    metaclasses may not hash.
    """

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.parts: dict[int, Any] = {}

    def reducer_override(self, value: Any) -> Any:
        part = value if isinstance(value, type | FunctionType) else type(value)
        self.parts[id(part)] = part
        if isinstance(value, torch.Tensor):
            if value.requires_grad and not value.is_leaf:
                raise RuntimeError(
                    "a non-leaf tensor that requires grad cannot be sent to another process: detach() it"
                )
            return torch.Tensor, ()
        return NotImplemented


MOST_NAMES = 3
"""Most classes of a batch that are named, in one line of a report."""
_PLAIN = ("builtins", "collections", "copyreg", "numpy", "torch", "multiprocessing")
"""Packages whose classes are named only if there are no others."""


def _names(parts: Iterable[Any]) -> str:
    """The classes among these for the reader, the user's own if there are any."""
    classes = [part for part in parts if isinstance(part, type)]
    users_classes = [cls for cls in classes if cls.__module__.partition(".")[0] not in _PLAIN]
    return ", ".join(cls.__qualname__ for cls in (users_classes or classes)[:MOST_NAMES])


class Parcel:
    """A batch on its way to the main process, which loads it where torch does, and gives it to the loop if `carry`.

    `classes` are the names of those that have not been loaded before.
    """

    def __init__(self, worker: int, indices: Sequence[Any], classes: str, content: bytes, *, carry: bool) -> None:
        self._parts = worker, shown_batch(indices), classes, content, carry

    def __reduce__(self) -> tuple[Any, ...]:
        return _receive, self._parts


def receive_in(main: Process) -> None:
    """Let parcels that arrive in this process report to it."""
    _mains[:] = [main]


_mains: list[Process] = []


def _receive(worker: int, indices: tuple[str, ...], classes: str, content: bytes, carry: bool) -> Any:
    """Called where torch loads a parcel: load the batch in it, and report what the user's objects raise."""
    recorder, spool = _mains[0].recorder, _mains[0].spool
    recorder.mark(None, "receive", classes=classes)
    try:
        batch = ForkingPickler.loads(content)
    # Nothing is swallowed: SystemExit ends this process, and is distinguished later.
    except BaseException as error:
        incident = replace(incident_of(error, "receive", worker=worker), batch=indices, classes=classes)
        spool.write(Failure(None, 0, incident))
        raise
    finally:
        recorder.mark(None, "iterate")
    return batch if carry else None
