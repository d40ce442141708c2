"""How a guard gets to see what a loader does: the loader becomes an object of a subclass of its own class.

It stays the same object, so that attributes, `len`, `state_dict`, `isinstance` and `type(loader)(...)`, by which
Lightning makes another one like it, work as before. A loader that is made from its class is guarded, too.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from dataguard.lab.core.loader_facts import length_of
from dataguard.model import UsageError
from dataguard.targets.discovery import GUARDED
from dataguard.training.epoch_order import Order, RecordedSampler, shuffler_of
from dataguard.training.loader_pass import Pass
from dataguard.training.options import Options
from dataguard.training.proxy import Proxy
from dataguard.training.watch import WATCHES, Watch

_WATCH = "_dataguard_watch"
"""The attribute of a guarded class that holds its watch."""
_SAMPLER = "_dataguard_sampler"
"""The attribute of a loader that holds its recorded sampler while it makes an iterator."""


class Batches(Proxy):
    """The iterator of a loader, each batch of which is looked at before the loop has it."""

    def __init__(self, inner: Any, watch: Watch, now: Pass, begin: Callable[[], Pass]) -> None:
        super().__init__(inner)
        self._watch = watch
        self._now = now
        self._begin = begin

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._inner)

    def __next__(self) -> Any:
        now, watch = self._now, self._watch
        asked = time.perf_counter()
        try:
            batch = next(self._inner)
        except StopIteration:
            if now.delivered:
                watch.end(now)
            raise
        given = time.perf_counter()
        if now.returned is not None:  # workers start for the first batch
            now.waited += given - asked
            now.worked += asked - now.returned
            watch.waited += given - asked
            watch.worked += asked - now.returned
        watch.see(now, batch)
        if now.delivered == now.planned:  # Lightning asks for no more batches than `len`
            watch.end(now)
        now.returned = time.perf_counter()
        return batch

    def _reset(self, *args: Any, **kwargs: Any) -> None:
        """Begin the next epoch with workers that are alive still, where torch asks for it."""
        self._now = self._begin()
        self._inner._reset(*args, **kwargs)


def _guarded_loader(base: Any) -> type:
    """A class of DataLoaders whose sampler, start of workers, and batches are watched."""

    class Guarded(base):  # type: ignore[misc]
        def _get_iterator(self: Any) -> Any:
            watch: Watch = watch_of(self)
            # A loader holds the iterator of persistent workers: in a circle both would outlive their last use.
            loader = weakref.ref(self)
            streams = isinstance(self.dataset, IterableDataset)
            sampler = None if streams else RecordedSampler(super()._index_sampler)
            shuffler = None if streams else shuffler_of(self)

            def begin() -> Pass:
                if sampler is None:
                    now = watch.begin()
                    now.stream = loader
                    return now
                sampler.order = Order()
                return watch.begin(length_of(loader()), shuffler, sampler.order)

            now, user_init = begin(), self.worker_init_fn
            try:
                self.__dict__[_SAMPLER] = sampler
                self.worker_init_fn = watch.worker_init(self, now)
                return Batches(super()._get_iterator(), watch, now, begin)
            finally:
                del self.__dict__[_SAMPLER]
                self.worker_init_fn = user_init

        @property
        def _index_sampler(self) -> Any:
            recorded = vars(self).get(_SAMPLER)
            return super()._index_sampler if recorded is None else recorded

    return Guarded


def _guarded_iterable(base: Any) -> type:
    """The same for objects that are no DataLoader."""

    class Guarded(base):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            watch: Watch = watch_of(self)
            return Batches(super().__iter__(), watch, watch.begin(), watch.begin)

    return Guarded


def _resuming(base: Any) -> type:
    """A class of guarded loaders with checkpoints: what comes after one is the rest of an epoch."""

    class Resuming(base):  # type: ignore[misc]
        def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
            watch_of(self).resumes = True
            return super().load_state_dict(*args, **kwargs)

    return Resuming


def _reduced(loader: Any, _: Any) -> Any:
    """A pickle holds the loader without the guard, and the options of the guard."""
    watch: Watch = watch_of(loader)
    plain = object.__new__(getattr(type(loader), GUARDED))
    vars(plain).update(vars(loader))
    return guarded, (plain, watch.name, watch.options)


def watch_of(loader: Any) -> Any:
    """The watch of a guarded loader; None for any other object."""
    return getattr(type(loader), _WATCH, None)


def guarded(loader: Any, name: str, options: Options) -> Any:
    """The same loader, watched from now on. Raises UsageError for an object whose class cannot be changed."""
    base = getattr(type(loader), GUARDED, type(loader))
    is_torch = issubclass(base, DataLoader)
    watch = Watch(name, options, getattr(loader, "dataset", None), in_order=getattr(loader, "in_order", True))
    try:
        kind = _guarded_loader(base) if is_torch else _guarded_iterable(base)
        kind = _resuming(kind) if hasattr(base, "load_state_dict") else kind
        for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(kind, attribute, getattr(base, attribute))
        for attribute, value in ((_WATCH, watch), (GUARDED, base), ("__reduce_ex__", _reduced)):
            setattr(kind, attribute, value)
        loader.__class__ = kind
    except (AttributeError, TypeError) as error:
        words = f"guard cannot watch a {base.__name__}: pass a DataLoader, or an object of your own class"
        raise UsageError(words) from error
    WATCHES.append(watch)
    return loader
