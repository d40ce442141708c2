"""What a stream yields, worker by worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataguard.lab.drive import Ride, drive
from dataguard.lab.records import Census, SampleRecord, read_spools
from dataguard.lab.spy import Plan
from dataguard.variants import Loader

Identity = tuple[tuple[str, bytes], ...]
"""What a sample is recognised by: paths and digests of its leaves."""


MOMENTS = (1, 2, 3)
"""Fetches of an epoch after which generators are looked at."""


@dataclass(frozen=True, slots=True)
class StreamTrace:
    """The identities of the samples that each process yielded, in order; `ended` tells whether that was all of them.

    `censuses` tell the generators that were found in each worker after some fetches of two epochs; `again` is how each
    process began the second one.
    """

    by_worker: tuple[tuple[Identity, ...], ...]
    ended: bool
    censuses: tuple[Census, ...] = ()
    again: tuple[tuple[Identity, ...], ...] = ()

    @property
    def total(self) -> int:
        """How many samples came out altogether."""
        return sum(map(len, self.by_worker))

    @property
    def distinct(self) -> float:
        """The share of samples that differ from all others."""
        return len({identity for ids in self.by_worker for identity in ids}) / max(self.total, 1)

    @property
    def paths(self) -> list[str]:
        """The paths of the leaves that samples have."""
        return list(dict.fromkeys(path for ids in self.by_worker for identity in ids for path, _ in identity))

    @property
    def begins_otherwise(self) -> bool:
        """Whether any process begins the second epoch with other samples than the first."""
        pairs = zip(self.by_worker, self.again, strict=False)
        return any(first[: len(second)] != second[: len(first)] for first, second in pairs)

    def by_leaf(self, path: str) -> StreamTrace:
        """The same with samples recognised by one leaf alone."""
        by_worker = (
            tuple(tuple(part for part in identity if part[0] == path) for identity in ids) for ids in self.by_worker
        )
        return StreamTrace(tuple(by_worker), self.ended)

    def same_samples(self, other: StreamTrace) -> bool:
        """Whether both yielded the very same samples, to the end and equally often, in whatever order."""
        one, two = (Counter(identity for ids in trace.by_worker for identity in ids) for trace in (self, other))
        return self.ended and other.ended and one == two


def run_stream(build: Callable[..., Loader], num_workers: int, samples: int, seconds: float, plan: Plan) -> Ride:
    """Iterate one epoch, of about `samples` samples from each worker at most, and the beginning of a second one."""
    loader = build(num_workers=num_workers)
    processes = max(num_workers, 1)
    most = max(len(MOMENTS) + 1, -(-samples // (loader.batch_size or 1))) * processes
    return drive(loader, plan, batches=(most, (len(MOMENTS) + 1) * processes), seconds=seconds)[0]


def read_stream(folder: Path, ride: Ride | None) -> StreamTrace:
    """Group the samples by worker."""
    records = list(read_spools(folder))
    samples = [record for record in records if isinstance(record, SampleRecord)]
    first, second = (_by_worker([record for record in samples if record.epoch == epoch]) for epoch in (0, 1))
    censuses = tuple(record for record in records if isinstance(record, Census))
    return StreamTrace(first, ride is not None and ride.ended, censuses, second)


def _by_worker(samples: Sequence[SampleRecord]) -> tuple[tuple[Identity, ...], ...]:
    by_worker: dict[int, list[Identity]] = {}
    for record in samples:
        by_worker.setdefault(-1 if record.worker is None else record.worker, []).append(record.digest)
    return tuple(tuple(ids) for _, ids in sorted(by_worker.items()))
