"""Proxies that replace the user's dataset or iterator in the fetcher, and announce every read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dataguard.lab.core.index import members

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
