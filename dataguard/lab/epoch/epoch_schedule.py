"""Every batch of an epoch, distributed to ranks."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dataguard.lab.core.index import members, plain_index
from dataguard.lab.core.index_schedules import Schedule, drawn, existing, size_of


@dataclass(frozen=True, slots=True)
class RankAssignment:
    """How ranks take turns: each gets one batch for each of its workers, then the next rank does.

    torch sends batch k to worker k modulo their number, so that a batch gets the same worker id as in one process.
    """

    rank: int = 0
    world: int = 1
    workers: int = 1

    def takes(self, number: int) -> bool:
        """Whether batch `number` of the epoch is for this rank."""
        return number // self.workers % self.world == self.rank

    def place(self, fetch: int, worker: int) -> int:
        """The number in the epoch of the batch that a worker of this rank reads in fetch `fetch`."""
        return (fetch * self.world + self.rank) * self.workers + worker


class FullSchedule(Schedule):
    """All of the user's batches, of which this rank gets its share.

    `sizes` holds the number of samples of every batch of the epoch so far, other ranks included, or None without
    automatic batching; `digest` is that of all indices; `whole`: the sampler was
    drawn to its end. Integer indices of `limit` and above are skipped.
    """

    def __init__(self, inner: Any, limit: int | None, turns: RankAssignment, *, batched: bool) -> None:
        super().__init__(inner)
        self.limit = limit
        self.turns = turns
        self.batched = batched
        self.sizes: array[int] | None = array("L") if batched else None
        self.digest = hashlib.blake2b(digest_size=16)
        self.whole = False

    def __iter__(self) -> Iterator[Any]:
        for number, batch in enumerate(drawn(self.inner)):
            if self.sizes is not None:
                self.sizes.append(size_of(batch))
            plain = [*map(plain_index, members(batch))] if self.batched else plain_index(batch)
            self.digest.update(repr(plain).encode())
            if self.turns.takes(number):
                yield from existing(batch, self.limit, batched=self.batched)
        self.whole = True
