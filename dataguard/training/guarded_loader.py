"""How a guard gets to see what a loader does: the loader becomes an object of a subclass of its own class.

It stays the same object, so that attributes, `len`, `state_dict`, `isinstance` and `type(loader)(...)`, by which
Lightning makes another one like it, work as before. A loader that is made from its class is guarded, too.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from dataguard.lab.core.loader_facts import length_of
from dataguard.model import UsageError
from dataguard.training.epoch_order import Order, RecordedSampler, shuffler_of
from dataguard.training.loader_pass import Pass
from dataguard.training.options import Options
from dataguard.training.proxy import Proxy
from dataguard.training.watch import WATCHES, Watch

_WATCH = "_dataguard_watch"
_BASE = "_dataguard_base"
"""The attributes of a guarded class that hold its watch, and the loader's own class."""
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
            if now.delivered and not now.ended:
                watch.end(now)
            raise
        given = time.perf_counter()
        if now.returned is not None:  # workers start for the first batch
            now.waited += given - asked
            now.worked += asked - now.returned
            watch.waited += given - asked
            watch.worked += asked - now.returned
        watch.see(now, batch)
        now.returned = time.perf_counter()
        return batch

    def _reset(self, *args: Any, **kwargs: Any) -> None:
        """Begin the next epoch with workers that are alive still, where torch asks for it."""
        self._now = self._begin()
        self._inner._reset(*args, **kwargs)


class _GuardedLoader:
    """A guarded DataLoader: its sampler, the start of its workers, and its batches are watched."""

    __slots__ = ()

    def _get_iterator(self: Any) -> Any:
        watch: Watch = watch_of(self)
        streams = isinstance(self.dataset, IterableDataset)
        sampler = None if streams else RecordedSampler(super()._index_sampler)  # type: ignore[misc]
        shuffler = None if streams else shuffler_of(self)

        def begin() -> Pass:
            watch.compare_planned(length_of(self))
            if sampler is None:
                return watch.begin()
            sampler.order = Order()
            return watch.begin(shuffler, sampler.order)

        now, user_init = begin(), self.worker_init_fn
        vars(self)[_SAMPLER] = sampler
        if now.training and not streams and self.num_workers:
            self.worker_init_fn = watch.replays.recording(self, user_init, now.serial)
        try:
            return Batches(super()._get_iterator(), watch, now, begin)  # type: ignore[misc]
        finally:
            del vars(self)[_SAMPLER]
            self.worker_init_fn = user_init

    @property
    def _index_sampler(self: Any) -> Any:
        recorded = vars(self).get(_SAMPLER)
        return super()._index_sampler if recorded is None else recorded  # type: ignore[misc]


class _GuardedIterable:
    """A guarded object of a class with an `__iter__` of its own."""

    __slots__ = ()

    def __iter__(self: Any) -> Iterator[Any]:
        watch = watch_of(self)
        return Batches(super().__iter__(), watch, watch.begin(), watch.begin)  # type: ignore[misc]


class _Guarded:
    """What both have: a pickle holds the loader as it was, and how it is guarded."""

    __slots__ = ()

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        watch = watch_of(self)
        plain = object.__new__(getattr(type(self), _BASE))
        vars(plain).update(vars(self))
        return guarded, (plain, watch.name, watch.options)


class _Resuming:
    """A guarded loader with checkpoints: what comes after one is the rest of an epoch."""

    __slots__ = ()

    def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        watch_of(self).resumes = True
        return super().load_state_dict(*args, **kwargs)  # type: ignore[misc]


def watch_of(loader: Any) -> Any:
    """The watch of a guarded loader; None for any other object."""
    return getattr(type(loader), _WATCH, None)


def guarded(loader: Any, name: str, options: Options) -> Any:
    """The same loader, watched from now on. Raises UsageError for an object whose class cannot be changed."""
    base = getattr(type(loader), _BASE, type(loader))
    is_torch = issubclass(base, DataLoader)
    dataset = getattr(loader, "dataset", None)
    planned = is_torch and not isinstance(dataset, IterableDataset)
    watch = Watch(name, options, dataset, planned=planned, in_order=getattr(loader, "in_order", True))
    names = {_WATCH: watch, _BASE: base, "__slots__": (), "__doc__": base.__doc__}
    names |= {"__module__": base.__module__, "__qualname__": base.__qualname__}
    mixins: list[type] = [_Guarded, _GuardedLoader if is_torch else _GuardedIterable]
    mixins += [_Resuming] if hasattr(base, "load_state_dict") else []
    kind = types.new_class(base.__name__, (*mixins, base), {}, lambda space: space.update(names))
    try:
        loader.__class__ = kind
    except (AttributeError, TypeError) as error:
        raise UsageError(
            f"guard cannot watch a {base.__name__}: pass a DataLoader, or an object of your own class"
        ) from error
    WATCHES.append(watch)
    return loader
