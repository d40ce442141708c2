"""Whether the user's code, or a library's stream, reads its rank from torch.distributed or the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch.distributed as dist

from dataguard.lab.core.index import members
from dataguard.lab.core.index_schedules import Schedule, drawn
from dataguard.lab.reading.rank_queries import rank_queries
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.recording import Records
from dataguard.lab.subject import Subject
from dataguard.model import Location, NotApplicable, NotTested
from dataguard.targets.variants import Loader

_SAMPLES = 4
"""Samples of a map-style dataset that are read."""


DEFAULT, MOST = 2, 4
"""How many ranks to run by default for a rank-aware loader, and at most."""


def world(subject: Subject) -> int:
    """How many ranks to run: the number in the settings, or two if the loader is rank-aware.

    Raises NotApplicable if the loader is meant for one process only, and NotTested if it was made as that of one rank
    and cannot be made again for another.
    """
    asked = subject.settings.ranks
    if asked == 1:
        raise NotApplicable("ranks is set to 1")
    if subject.target.is_made_once and (_shards(subject) or (dist.is_available() and dist.is_initialized())):
        raise NotTested("the loader in hand or of a script is that of one rank: give its name, 'pkg.mod:factory'")
    if asked:
        return min(asked, MOST)
    if is_given(subject) or _shards(subject) or asks(subject):
        return DEFAULT
    raise NotApplicable("the loader does not use ranks (--ranks 2 tests it with two)")


def is_given(subject: Subject) -> bool:
    """Whether the settings request several ranks, or the factory takes `rank` or `world_size`."""
    return (subject.settings.ranks or 0) > 1 or subject.target.takes("rank", "world_size")


def asks(subject: Subject) -> Location | None:
    """Where the user's code reads its rank from torch.distributed or the environment, if it does."""
    return subject.asked_for_rank or subject.vary("asking", lambda folder: watch_for_asking(subject.build, folder))


def is_declared(subject: Subject) -> bool:
    """Whether the loader itself shards by rank, or the settings request several ranks.

    Code that reads its rank counts for a stream only: a trainer may add a distributed sampler to any other loader.
    """
    if subject.settings.ranks == 1:
        return False
    return is_given(subject) or _shards(subject) or bool(subject.facts.kind == "stream" and asks(subject))


def _shards(subject: Subject) -> bool:
    """Whether the sampler of the loader is one that gives each rank a share."""
    return "DistributedSampler" in subject.facts.sampler


def watch_for_asking(build: Callable[..., Loader], folder: Path) -> Location | None:
    """Build the loader, read its first batch in this process; return where the user's code first read its rank."""
    with rank_queries() as asked:
        loader = build(num_workers=0, schedule=lambda inner, batched: _First(inner, batched=batched))
        drive(loader, Plan(folder, (Records(),), keep_going=True), batches=(1,))
    return asked[0] if asked else None


class _First(Schedule):
    """The first batch, or the first indices, reduced to a few samples."""

    def __init__(self, inner: Any, *, batched: bool) -> None:
        super().__init__(inner)
        self.batched = batched

    def __iter__(self) -> Iterator[Any]:
        for entry in islice(drawn(self.inner), 1 if self.batched else _SAMPLES):
            yield members(entry)[:_SAMPLES] if self.batched else entry
