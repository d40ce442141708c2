"""What a stream yields, worker by worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataguard.lab.drive import Ride, drive
from dataguard.lab.pins import PIN
from dataguard.lab.records import Census, SampleRecord, read_spools
from dataguard.lab.spy import Plan
from dataguard.model import Undecided
from dataguard.variants import Loader

Identity = tuple[tuple[str, bytes], ...]
"""What a sample is recognised by: paths and digests of its leaves."""


MOMENTS = (0, 1, 2, 3)
"""Fetches of an epoch after which generators are looked at."""


RECOGNISED = 0.5
"""The share of samples that differ from all others in a leaf by which they are recognised."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a check asks for: what a stream yields under so many workers.

    Pinned, so that random augmentation does not hide an identity: before each sample the global generators are set to
    one state; or, with `still`, before each fetch every generator that can be found. `perturb` is the path of a
    generator that is moved on after the first batch. `persistent` and the start `method` are the user's own where they
    are None; `announce` tells the dataset which epoch begins. Requests that differ in `run` alone look twice.
    """

    num_workers: int
    pin: bool
    still: bool = False
    perturb: str | None = None
    persistent: bool | None = None
    method: str | None = None
    announce: bool = True
    run: int = 0

    def plan(self, folder: Path) -> Plan:
        """What the spy does."""
        return Plan(
            folder,
            pin_each=PIN if self.pin and not self.still else None,
            keep_going=True,
            census=() if self.still else MOMENTS,
            perturb=self.perturb,
            announce=self.announce,
            still=((PIN,),) if self.still else (),
        )

    @property
    def overrides(self) -> dict[str, Any]:
        """The arguments of the loader that are not the user's own."""
        other = {"persistent_workers": self.persistent, "multiprocessing_context": self.method}
        return {"num_workers": self.num_workers, **{name: value for name, value in other.items() if value is not None}}


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

    @property
    def renewed(self) -> float:
        """The share of samples with which the second epoch begins that are others than those of the first."""
        pairs = [pair for ids in zip(self.by_worker, self.again, strict=False) for pair in zip(*ids, strict=False)]
        return sum(first != second for first, second in pairs) / max(len(pairs), 1)

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

    def differing(self, other: StreamTrace) -> list[str]:
        """The leaves that two runs give otherwise, in whatever order their samples come.

        Where a stream goes on after what was read, a leaf that recognises samples has to come in the same order. Raises
        Undecided when there is none.
        """
        pairs = {path: (self.by_leaf(path), other.by_leaf(path)) for path in dict.fromkeys((*self.paths, *other.paths))}
        if self.ended and other.ended:
            return [path for path, (one, two) in pairs.items() if not one.same_samples(two)]
        alike = [path for path, (one, two) in pairs.items() if one._begins_like(two)]
        if len(alike) < len(pairs) and not any(pairs[path][0].distinct > RECOGNISED for path in alike):
            raise Undecided("the stream is longer than what was read, which may be in another order: raise --samples")
        return [path for path in pairs if path not in alike]

    def _begins_like(self, other: StreamTrace) -> bool:
        """Whether each process yielded the same samples in the same order, as far as both were read."""
        pairs = list(zip(self.by_worker, other.by_worker, strict=False))
        return bool(pairs) and all(one[: len(two)] == two[: len(one)] for one, two in pairs)


def run_stream(
    build: Callable[..., Loader], folder: Path, request: Request, samples: int, seconds: float, *, again: bool = True
) -> Ride:
    """Iterate one epoch, of about `samples` samples from each worker at most; and `again`, to begin a second one."""
    loader = build(**request.overrides)
    processes = max(request.num_workers, 1)
    most = max(len(MOMENTS), -(-samples // (loader.batch_size or 1))) * processes
    plan = request.plan(folder)
    second = (len(MOMENTS) * processes,) if again else ()
    return drive(loader, plan, batches=(most, *second), seconds=seconds)[0]


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
