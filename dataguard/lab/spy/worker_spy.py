"""The part of the spy inside workers: it watches the fetcher that torch creates, and changes nothing else.

`SpyInit` replaces `worker_init_fn`, runs the user's own first (`get_worker_info().dataset` is the user's object), and
then wraps the result of `_DatasetKind.create_fetcher`. torch calls that last before its loop starts, with every start
method (measured on torch 2.15), and so does torchdata's StatefulDataLoader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import _DatasetKind, get_worker_info

from dataguard.lab.core.instrument import nested
from dataguard.lab.process import stack_dumps
from dataguard.lab.spy.dataset_proxies import WatchedBatches, WatchedItems, WatchedIterator
from dataguard.lab.spy.fetcher import WatchedFetcher
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.watcher import Watcher


class SpyInit:
    """A `worker_init_fn` that runs the user's own and then starts watching; picklable when the user's is."""

    def __init__(self, plan: Plan, user_init: Callable[[int], Any] | None) -> None:
        self.plan = plan
        self.user_init = user_init
        self.epoch = 0
        """The epoch in which workers start; persistent ones count from there."""

    def __call__(self, worker: int) -> None:
        """Run in worker number `worker`, where torch calls worker_init_fn."""
        stack_dumps.register(self.plan.folder)
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
