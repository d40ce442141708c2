"""The first batches of a loader as it yields them, perhaps with fewer samples each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from dataguard.lab.core.index_schedules import Schedule, drawn
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.reading.epoch_trace import first_batches
from dataguard.targets.variants import Loader

TAKEN = 2
"""How many batches are read: one to learn, and one to compare."""


class First(Schedule):
    """The first batches of an epoch, each with at most `most` samples."""

    def __init__(self, inner: Any, most: int | None, *, batched: bool) -> None:
        super().__init__(inner)
        self.most = most if batched else None

    def __iter__(self) -> Iterator[Any]:
        for entry in islice(drawn(self.inner), TAKEN):
            yield entry if self.most is None else list(entry)[: self.most]

    def __len__(self) -> int:
        return min(len(self.inner), TAKEN)


def take(
    build: Callable[..., Loader], facts: LoaderFacts, recorder: FlightRecorder, most: int | None = None
) -> tuple[Loader, list[Any]]:
    """The loader and its first batches; with `most`, each has at most so many samples.

    Workers that would be spawned are not started, which takes longer than the rest.
    """
    changed: dict[str, Any] = {"num_workers": 0} if facts.spawns else {}
    if facts.kind == "map":
        changed["schedule"] = lambda inner, batched: First(inner, most, batched=batched)
    elif facts.batched and most is not None:
        changed["batch_size"] = most
    loader = build(reuse=True, **changed)
    return loader, first_batches(loader, TAKEN, recorder)
