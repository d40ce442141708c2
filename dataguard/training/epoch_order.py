"""The order in which a loader's sampler yields indices, recorded while torch draws it (DG206)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from dataguard.lab.core.index import members, plain_index
from dataguard.lab.core.loader_facts import is_shuffler
from dataguard.stats.coincidence import ORDERED
from dataguard.training.proxy import Proxy

PREFIX = 64
"""Batches after which two orders are compared before their epochs have ended."""
_DEEPEST = 4
"""Samplers in samplers: a shard of a batch sampler of a sampler."""


class Order:
    """The order of one epoch, or of what was drawn of it so far."""

    def __init__(self) -> None:
        self.waiting: deque[list[Any]] = deque()
        """The indices of batches that were drawn and not yet delivered."""
        self.drawn = 0
        self.first: list[Any] = []
        self._digest = 0
        self._prefix: list[int] = []
        self._distinct: set[Any] = set()
        self._last: Any = None
        self.ascending = True
        """Whether the first batches are in the order of the dataset."""
        self.comparable = True
        """Whether all indices are plain numbers, strings or tuples, and not custom objects."""

    def add(self, entry: Any) -> None:
        """Record what the sampler yielded: the indices of a batch or, without automatic batching, of a sample."""
        indices = members(entry)
        plain = indices if indices and type(indices[0]) is int else [plain_index(index) for index in indices]
        self.comparable = self.comparable and None not in plain
        self.waiting.append(plain if self.comparable else indices)
        self._digest = hash((self._digest, *plain))
        self.drawn += 1
        if self.drawn <= PREFIX:
            self._prefix.append(self._digest)
            self._look(plain)

    def _look(self, plain: list[Any]) -> None:
        if len(self._distinct) < ORDERED:
            self.first += plain
            self._distinct.update(plain)
        line = plain if self._last is None else [self._last, *plain]
        try:
            self.ascending = self.ascending and all(before <= after for before, after in pairwise(line))
        except TypeError:  # indices of several types
            self.ascending = False
        self._last = line[-1] if line else None

    def repeats(self, before: Order, *, prefix: bool) -> bool:
        """Whether this order, or its `prefix`, is that of an earlier epoch, beyond what chance could do."""
        if self.ascending or not self.comparable or len(self._distinct) < ORDERED:
            return False
        if prefix:
            return len(self._prefix) == PREFIX and self._prefix == before._prefix
        return self.drawn == before.drawn and self._digest == before._digest


class Orders:
    """The orders of the last epochs of training, oldest first."""

    def __init__(self) -> None:
        self._kept: list[tuple[Order, int, bool]] = []

    def keep(self, order: Order, epoch: int, *, ended: bool) -> None:
        """Remember the order of an epoch, and whether that was read to its end."""
        self._kept = [*self._kept, (order, epoch, ended)][-2:]

    def repeated(self, order: Order, *, ended: bool) -> int | None:
        """The earlier epoch with the same order, or the same prefix if this epoch has not `ended`.

        An epoch that was abandoned may be started again in its own order: two such epochs must agree with this one.
        """
        earlier = [kept for kept in self._kept if kept[0] is not order]
        enough = bool(earlier) and (earlier[-1][2] or len(earlier) == 2)
        if not enough:
            return None
        last, epoch, whole = earlier[-1]
        if whole:
            return epoch if order.repeats(last, prefix=not ended) else None
        return epoch if all(order.repeats(cut, prefix=True) for cut, _, _ in earlier) else None


class RecordedSampler(Proxy):
    """An index sampler whose indices are recorded in `order`, one for each epoch."""

    def __init__(self, sampler: Any) -> None:
        super().__init__(sampler)
        self.order = Order()

    def __iter__(self) -> Iterator[Any]:
        return _RecordedIndices(iter(self._inner), self.order)

    def __len__(self) -> int:
        return len(self._inner)


class _RecordedIndices(Proxy):
    def __init__(self, indices: Iterator[Any], order: Order) -> None:
        super().__init__(indices)
        self._order = order

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        entry = next(self._inner)
        if type(entry) is not list and hasattr(entry, "__next__"):  # it can be read only once
            entry = list(entry)
        self._order.add(entry)
        return entry


class Shuffler(NamedTuple):
    """The class of a sampler that shuffles, and whether its order follows from `set_epoch`."""

    name: str
    takes_epoch: bool


def shuffler_of(loader: Any) -> Shuffler | None:
    """The sampler of a loader that shuffles, if one does; a sampler with `set_epoch` shuffles unless it says no."""
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    for _ in range(_DEEPEST):
        takes_epoch = callable(getattr(sampler, "set_epoch", None))
        shuffle = getattr(sampler, "shuffle", None)
        if is_shuffler(sampler) or shuffle is True or (takes_epoch and shuffle is None):
            return Shuffler(type(sampler).__name__, takes_epoch)
        sampler = getattr(sampler, "sampler", None) or getattr(sampler, "batch_sampler", None)
        if sampler is None:
            break
    return None
