"""The order of each epoch of training, to compare it with earlier ones (DG206).

The indices of a sampler are recorded while torch draws them (`RecordedSampler`). A stream has no indices: if the first
batches of two epochs are equal, a fork reads whether it shuffles (`StreamEpochs`). `Pass` describes one iteration over
a guarded loader.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch.distributed
from torch import Tensor
from xxhash import xxh3_64_intdigest

from dataguard.core.model import Finding, Location, without_empty
from dataguard.lab.core.leaves import array_of
from dataguard.lab.core.loader_facts import is_shuffler, start_method
from dataguard.lab.core.records import members, plain_index
from dataguard.lab.process.isolation import in_fork
from dataguard.lab.streams.orders import StreamOrder, find_stream_order
from dataguard.stats.coincidence import ORDERED
from dataguard.training.batch_values import arrays_of


class Proxy:
    """Has the attributes of the object inside, and its class for `isinstance`.

    Protocols that are checked at run time (torchdata's `Stateful`) look at the class, so that it must be that of the
    object inside.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # not set yet
            raise AttributeError(name)
        return getattr(self._inner, name)


PREFIX_BATCHES = 64
"""Batches after which two orders are compared before their epochs have ended: an epoch of a large dataset may take
days."""
_MOST_NESTED = 4
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
        if self.drawn <= PREFIX_BATCHES:
            self._prefix.append(self._digest)
            self._follow_values(plain)

    def _follow_values(self, plain: list[Any]) -> None:
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
            return len(self._prefix) == PREFIX_BATCHES and self._prefix == before._prefix
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
    for _ in range(_MOST_NESTED):
        takes_epoch = callable(getattr(sampler, "set_epoch", None))
        shuffle = getattr(sampler, "shuffle", None)
        if is_shuffler(sampler) or shuffle is True or (takes_epoch and shuffle is None):
            return Shuffler(type(sampler).__name__, takes_epoch)
        sampler = getattr(sampler, "sampler", None) or getattr(sampler, "batch_sampler", None)
        if sampler is None:
            break
    return None


COMPARED_BATCHES = 16
"""How many batches of an epoch are compared with those of the one before."""
FORK_SECONDS = 10.0
"""The longest that a fork of the training process may read, once in a training."""
VARIED_SHARE = 0.5
"""The share of distinct batches above which a leaf has an order. Chosen, not derived."""

Digests = dict[str, list[int]]
"""By path: the digests of the first batches."""


def digest_of(leaf: Any) -> int | None:
    """The digest of a tensor or array of numbers; None on a device, where reading it would wait for that."""
    if isinstance(leaf, Tensor) and (leaf.device.type != "cpu" or leaf.is_sparse):
        return None
    values = np.ascontiguousarray(array_of(leaf))
    return xxh3_64_intdigest(values.data) if values.dtype.kind in "fiub" else None


class StreamEpochs:
    """The first batches of two epochs, until two have differed or were judged."""

    def __init__(self) -> None:
        self.done = False
        self._before: tuple[int, Digests] | None = None
        self._digests: Digests = {}

    def see(self, number: int, batch: Any) -> None:
        """Record a batch of the open epoch, which has this number in it."""
        if self.done or number >= COMPARED_BATCHES:
            return
        if number == 0:
            self._digests = {}
        for path, leaf in arrays_of(batch):
            digest = digest_of(leaf)
            if digest is not None:
                self._digests.setdefault(path, []).append(digest)

    def end(self, epoch: int, loader: Any) -> Finding | None:
        """The finding about an epoch that was read to its end, if it repeats the order of the one before."""
        if self.done or loader is None:
            return None
        before, self._before = self._before, (epoch, self._digests)
        if before is None:
            return None
        self.done = True
        same = any(_is_varied(digests) and digests == before[1].get(path) for path, digests in self._digests.items())
        order = in_fork(lambda: _order(loader), FORK_SECONDS) if same and _may_fork(loader) else None
        return None if order is None else _finding(order, loader, before[0], epoch)


def _is_varied(digests: list[int]) -> bool:
    return len(set(digests)) > VARIED_SHARE * len(digests)


def _may_fork(loader: Any) -> bool:
    """Whether reading in a fork does what training does; ranks may talk to each other while one reads its stream."""
    undisturbed = loader.num_workers > 0 or not (
        torch.distributed.is_available() and torch.distributed.is_initialized()
    )
    return start_method(loader) == "fork" and undisturbed


def _order(loader: Any) -> StreamOrder:
    # What the stream prints was printed in each epoch of training already.
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as null, redirect_stdout(null):
        return find_stream_order(lambda **_: loader, Path(folder), announce=False)


def _finding(order: StreamOrder, loader: Any, before: int, epoch: int) -> Finding | None:
    epochs, seed = f"epochs {before} and {epoch}", order.seed
    if order.awaits_epoch:
        name = type(loader.dataset).__name__
        fix = "call dataset.set_epoch(epoch) before each epoch"
        late = "; persistent workers hold copies of the dataset, which do not see it"
        evidence = {"fix here": fix + late * loader.persistent_workers}
        return Finding(f"{name} has the same order in {epochs}, and another one once set_epoch is called", evidence)
    if seed is None:
        return None
    return Finding(
        f"{type(loader.dataset).__name__} shuffles, but {seed.kind}({seed.seed}) gives {epochs} the same order",
        without_empty({"samples compared": order.samples}),
        at=Location(seed.file, seed.line, seed.function),
    )


@dataclass(slots=True)
class Pass:
    """From `iter()` to the end, or until it is abandoned.

    `gradients`: it is no evaluation, by what is known when it begins. `training`: the loader shuffles, too, or its role
    is train. `resumed`: it continues from a `state_dict`, so that it is not a whole epoch.
    """

    serial: int
    gradients: bool
    training: bool
    resumed: bool
    shuffler: Shuffler | None
    order: Order | None
    """The order of its indices; a stream has none."""
    planned: int | None = None
    """How many batches there will be, if the loader says so and is no stream."""
    stream: Callable[[], Any] | None = None
    """Returns the loader, if it reads a stream and still exists."""
    epoch: int = 0
    """How many passes with batches there were before."""
    delivered: int = 0
    waited: float = 0.0
    """Seconds that the loop waited for batches, without the first, for which workers start."""
    worked: float = 0.0
    """Seconds that the loop took with them."""
    returned: float | None = None
    """When the loop was given its last batch."""
    ended: bool = False
    size: int | None = None
    """The samples of each batch so far; 0 if the batches differ, None before the first."""

    @property
    def may_replay(self) -> bool:
        """Whether it is an epoch of training by the order of its indices: one that does not ascend."""
        return self.gradients and self.order is not None and (self.training or not self.order.ascending)

    def next_indices(self, *, in_order: bool) -> list[Any] | None:
        """The indices of the batch that is delivered now; None if unknown."""
        if self.order is None or not self.order.waiting:
            return None
        indices = self.order.waiting.popleft()
        return indices if in_order and not self.resumed else None

    def is_single(self, count: int | None) -> bool:
        """Whether a batch has one sample, after batches that all had the same number of several."""
        before, self.size = self.size, count if self.size in (None, count) else 0
        return count == 1 and before is not None and before > 1
