"""Batches that no DataLoader makes, as a stream: those of an iterable, or of a function that returns one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import isgenerator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from dataguard.targets.discovery import is_container, is_loader
from dataguard.targets.variants import Loader


class BatchStream(IterableDataset[Any]):
    """The batches of each epoch: what `epoch` returns is iterated."""

    def __init__(self, epoch: Callable[[], Iterable[Any]]) -> None:
        self._epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        """Raises TypeError for a loader in place of a batch."""
        for batch in self._epoch():
            if is_loader(batch):
                raise TypeError(f"a {type(batch).__name__} is yielded (did you mean return instead of yield?)")
            yield batch


def streams_of(product: Any, again: Callable[[], Any] | None) -> dict[str, Loader]:
    """Loaders of what is no loader, by name, without workers; a single one has an empty name.

    `again` calls the factory that returned the product. A batch means that the factory returns one at a time; an
    iterator can be read once, so that each epoch gets a new one.
    """
    if _is_batch(product):
        return {} if again is None else {"": _loader(lambda: _endless(again))}
    if isinstance(product, Mapping):
        nested = {str(key): streams_of(value, None) for key, value in product.items()}
        return {name: streams[""] for name, streams in nested.items() if "" in streams}
    if isinstance(product, type) or (is_container(product) and not isgenerator(product)):
        return {}
    if isinstance(product, Iterator):
        return {} if again is None else {"": _loader(again)}
    return {"": _loader(lambda: product)} if hasattr(type(product), "__iter__") else {}


def _is_batch(value: Any, depth: int = 2) -> bool:
    """Whether a value is an array, or a container of some."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return True
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return depth > 0 and any(_is_batch(part, depth - 1) for part in parts)


def _endless(make: Callable[[], Any]) -> Iterator[Any]:
    while True:
        yield make()


def _loader(epoch: Callable[[], Iterable[Any]]) -> Loader:
    return DataLoader(BatchStream(epoch), batch_size=None, collate_fn=_unchanged)


def _unchanged(batch: Any) -> Any:
    return batch
