"""The order of an epoch's indices, recorded while no sample is read.

The loader itself is iterated, because its own `__iter__` may change the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dataguard.core.incident import LoaderFailed
from dataguard.lab.core.index_schedules import Schedule, drawn, endless_after
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.records import members, plain_index
from dataguard.lab.spy.drive import announce_epoch
from dataguard.targets.discovery import iterated
from dataguard.targets.variants import Loader


def recorder(length: int | None, kept: int | None = None) -> tuple[list[Recorded], Callable[[Any, bool], Recorded]]:
    """A list, and a schedule that records the sampler of a dataset of this length and joins the list when iterated.

    `kept` is the number of indices that are enough, if not all are needed.
    """
    begun: list[Recorded] = []

    def schedule(inner: Any, batched: bool) -> Recorded:
        most = most_recorded(length)
        if length is not None and length_of(inner) is None:
            most = min(most, endless_after(length))
        return Recorded(inner, most, begun, batched=batched, kept=kept)

    return begun, schedule


def draw_epoch(
    loader: Loader,
    recorded: list[Recorded],
    epoch: int,
    announce: Callable[[Loader, int], None] = announce_epoch,
) -> None:
    """Iterate the loader for an epoch that is `announce`d, whose order is then in `recorded`.

    Raises LoaderFailed if its sampler fails, and what its own `__iter__` raises before there is an order. There is none
    where what is iterated in its place gets its batches from another rank, which has ended.
    """
    for schedule in recorded:  # some loaders never begin a new epoch
        schedule.batches, schedule.count = [], 0
    announce(loader, epoch)
    try:
        for _ in iterated(loader):
            pass
    except LoaderFailed:
        raise
    except Exception:
        from_elsewhere = iterated(loader) is not loader and not recorded
        if not from_elsewhere and not any(schedule.batches or schedule.whole for schedule in recorded):
            raise  # otherwise it is the empty batch that the user's code does not expect


class Recorded(Schedule):
    """Records the `batches` of indices that `inner` yields in an epoch, and yields one empty batch in their place.

    Without one, a loader that repeats its sampler forever would wait for it. Without automatic batching there is no
    entry that is empty, and nothing is yielded.

    `whole`: it ended before `most` indices. `refills`: a batch is the same object as the one before, with other
    indices. After `kept` indices, batches are only counted; `count` is how many there
    were in all. Once iterated, it is in `begun`: a factory may build other loaders, which are not.
    """

    def __init__(self, inner: Any, most: int, begun: list[Recorded], *, batched: bool, kept: int | None = None) -> None:
        super().__init__(inner)
        self.most = most
        self.begun = begun
        self.batched = batched
        self.kept = most if kept is None else kept
        self.batches: list[tuple[Any, ...]] = []
        self.whole, self.refills, self.count = False, False, 0

    def __iter__(self) -> Iterator[Any]:
        self.batches, self.whole, self.count = [], False, 0
        if not any(recorder is self for recorder in self.begun):
            self.begun.append(self)
        indices, before, held = 0, None, [None]
        for entry in drawn(self.inner, as_is=True):
            batch = members(entry) if self.batched else [entry]
            if self.batched and entry is before and list(map(plain_index, batch)) != list(map(plain_index, held)):
                self.refills = True
            before, held = entry, batch
            if indices < self.kept:
                self.batches.append(tuple(batch))
            indices += len(batch)
            self.count += 1
            if indices >= self.most:
                break
        else:
            self.whole = True
        if self.batched:
            yield []

    def __len__(self) -> int:
        return int(self.batched)


MOST_RECORDED = 100_000
"""Indices of an epoch that are drawn at most, unless the dataset has as many."""


NOMINAL_LENGTH = 100_000_000
"""A dataset of so many samples has no end that training sees, as one of length `int(1e10)`: an epoch takes minutes."""


def most_recorded(length: int | None) -> int:
    """How many indices show that a sampler of a dataset of this length never ends."""
    length = length or 0
    return max(MOST_RECORDED, 2 * length) if length < NOMINAL_LENGTH else MOST_RECORDED
