"""Every batch of an epoch, distributed to ranks, from the position that an interrupted scan reached."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from dataguard.lab.core.index import members, plain_index
from dataguard.lab.core.index_schedules import Schedule, drawn, existing, size_of


@dataclass(frozen=True, slots=True)
class ScanPosition:
    """How far a run got: from `begun` fetches of each worker to `done`.

    By then the sampler had yielded `drawn` batches; `digest` is that of their indices.
    """

    begun: int
    done: int
    drawn: int
    digest: str


@dataclass(frozen=True, slots=True)
class Turns:
    """How ranks take turns: each gets one batch for each of its workers, then the next rank does.

    torch sends batch k to worker k modulo their number, so that a batch gets the same worker id as in one process.
    """

    rank: int = 0
    world: int = 1
    workers: int = 1

    def takes(self, number: int) -> bool:
        """Whether batch `number` of the epoch is for this rank."""
        return number // self.workers % self.world == self.rank

    def fetch(self, number: int) -> int:
        """The fetch of its worker in which batch `number` of the epoch is read."""
        return number // (self.workers * self.world)

    def place(self, fetch: int, worker: int) -> int:
        """The number in the epoch of the batch that a worker of this rank reads in fetch `fetch`."""
        return (fetch * self.world + self.rank) * self.workers + worker


class FullSchedule(Schedule):
    """All of the user's batches, of which this rank gets its share.

    `sizes` holds the number of samples of every batch of the epoch so far, other ranks included, or None without
    automatic batching; `digest` is that of all indices, `drawn` the number of those batches; `whole`: the sampler was
    drawn to its end. Integer indices of `limit` and above are skipped, and with a `start` also `done` fetches of each
    worker, if the sampler draws the same first batches again.
    """

    def __init__(
        self, inner: Any, limit: int | None, turns: Turns, *, batched: bool, start: ScanPosition | None = None
    ) -> None:
        super().__init__(inner)
        self.limit = limit
        self.turns = turns
        self.batched = batched
        self.start = start
        self.done = 0 if start is None else start.done
        self.sizes: array[int] | None = array("L") if batched else None
        self.digest = hashlib.blake2b(digest_size=16)
        self.drawn = 0
        self.whole = False

    def __iter__(self) -> Iterator[Any]:
        entries = self._entries()
        for number, batch in chain(self._pending(entries), entries):
            if self.turns.takes(number) and self.turns.fetch(number) >= self.done:
                yield from existing(batch, self.limit, batched=self.batched)
        self.whole = True

    def _pending(self, entries: Iterator[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """The batches that were drawn before an interruption and not read yet."""
        if self.start is None:
            return []
        pending = list(islice(entries, self.start.drawn))
        if self.digest.hexdigest() != self.start.digest:  # another order: everything is read again
            self.done = 0
        return [entry for entry in pending if self.turns.fetch(entry[0]) >= self.done]

    def _entries(self) -> Iterator[tuple[int, Any]]:
        for number, batch in enumerate(drawn(self.inner)):
            if self.sizes is not None:
                self.sizes.append(size_of(batch))
            plain = [*map(plain_index, members(batch))] if self.batched else plain_index(batch)
            self.digest.update(repr(plain).encode())
            self.drawn = number + 1
            yield number, batch
