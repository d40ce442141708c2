"""One run of a loader from fixed seeds: the indices, samples and batches of the beginning of two epochs, as digests.

Each run imports the user's modules again and calls the factory in a new process, with objects at other addresses.
Whatever a run draws from the clock, the system or `id()` differs then, while all that the seeds decide is the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset

from dataguard.lab.core.index import Index, members, plain_index
from dataguard.lab.core.index_schedules import Schedule, drawn, in_use
from dataguard.lab.core.instrument import Instrument
from dataguard.lab.core.loader_facts import overrides_iter, start_method
from dataguard.lab.core.records import BatchRecord, LeafRecord, SampleRecord
from dataguard.lab.core.source_location import caller
from dataguard.lab.core.stand_ins import replaced
from dataguard.lab.process.forked_calls import in_fork
from dataguard.lab.process.spool import read_spools
from dataguard.lab.rng.global_rng import saved_generators
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.recording import Records
from dataguard.model import NotTested
from dataguard.process.originals import os
from dataguard.targets.variants import Loader, copied

MOST_SAMPLES = 2
"""Samples of a batch that are read: each worker reads batches of two epochs, and all that differs counts."""
PLANNED = 64
"""Batches of an epoch whose indices are compared."""
_BALLAST = 400
"""Most objects of each size that shift the addresses of later ones."""

Digests = Mapping[str, bytes]
"""The content of each leaf, by its path."""


@dataclass(frozen=True, slots=True)
class RunBatch:
    """A batch of a run: its number in the epoch, and digests of its samples and of what collate_fn made of them."""

    epoch: int
    number: int
    samples: tuple[Digests, ...]
    indices: tuple[Index, ...]
    leaves: Digests


@dataclass(frozen=True, slots=True)
class Run:
    """A run with so many workers: the indices that the sampler planned for each epoch, and the batches."""

    workers: int
    orders: tuple[tuple[Any, ...], ...]
    batches: tuple[RunBatch, ...]


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one build, with the loader's own workers and without any, and what the user seeds."""

    each: tuple[Run, ...]
    seeded_by: tuple[str, ...]

    @property
    def samples(self) -> int:
        """The number of samples that were read."""
        return sum(len(batch.samples) for run in self.each for batch in run.batches)


class Leading(Schedule):
    """The first batches of each epoch, as far as their first samples, and the `orders` that were planned."""

    def __init__(self, inner: Any, cut: int | None, *, batched: bool) -> None:
        super().__init__(inner)
        self.orders: list[tuple[Any, ...]] = []
        self.lengths: Sequence[int] = (1,)
        """How many batches each epoch has; the last number counts for all that follow."""
        self.cut = cut
        self.batched = batched

    def __iter__(self) -> Iterator[Any]:
        entries = list(islice(drawn(self.inner), PLANNED))
        count = self.lengths[min(len(self.orders), len(self.lengths) - 1)]
        self.orders.append(tuple(map(self._plain, entries)))
        yield from map(self._part, entries[: count if self.batched else count * (self.cut or MOST_SAMPLES)])

    def __len__(self) -> int:
        return max(self.lengths)

    def _plain(self, entry: Any) -> Any:
        return tuple(map(plain_index, members(entry))) if self.batched else plain_index(entry)

    def _part(self, entry: Any) -> Any:
        return members(entry)[: self.cut] if self.batched and self.cut else entry


def _leading(made: list[Leading], cut: int | None, inner: Any, batched: bool) -> Leading:
    """Replace an index sampler, and add the schedule to those that were `made`."""
    made.append(Leading(inner, cut, batched=batched))
    return made[-1]


def run_again(
    build: Callable[..., Loader], folder: Path, instruments: Sequence[Instrument] = (), *, few: bool = False
) -> Runs:
    """Build the loader, and run it with its own number of workers and, if it has workers, without them.

    A `few` samples are enough if they are slow: two batches of the first epoch, and one of the second.

    The latter happens in a fork, so that it does not change the loader, and not if its class handles batches itself.
    Raises LoaderFailed for the former, and NotApplicable if neither is possible.
    """
    made: list[Leading] = []
    shifted = (ShiftedAddresses(), *instruments)
    _shift_addresses()
    with _seeding_seen() as seeded_at:
        loader = build(schedule=partial(_leading, made, 1 if few else MOST_SAMPLES))
    runs: list[Run] = []
    if loader.num_workers and not overrides_iter(loader):
        alone = copied(loader, {"num_workers": 0})
        place = folder / "without workers"
        place.mkdir()
        restore = saved_generators()  # a fork seeds them anew

        def run_alone() -> Run:
            restore()
            return _run(alone, made, place, (1,), shifted)

        run = in_fork(run_alone)
        runs = [run] if run else []
    if not loader.num_workers or start_method(loader) == "fork":  # spawned workers take seconds
        first = 2 if few else max(loader.num_workers, 2) + 1
        runs.insert(0, _run(loader, made, folder, (first, 1), shifted))
    if not runs:
        raise NotTested("its workers are spawned, and it does not run without them")
    return Runs(tuple(runs), (*_generators_of(loader), *seeded_at))


def run_as_it_is(build: Callable[..., Loader], folder: Path, batches: int) -> Run:
    """Read so many whole batches of an epoch, and one of the next."""
    made: list[Leading] = []
    loader = build(schedule=partial(_leading, made, None))
    return _run(loader, made, folder, (batches, 1), whole=True)


def _run(
    loader: Loader,
    made: Sequence[Leading],
    folder: Path,
    lengths: Sequence[int],
    instruments: Sequence[Instrument] = (),
    *,
    whole: bool = False,
) -> Run:
    """Read the first batches of each epoch in this disposable process: `whole` ones of a stream, or some samples."""
    for one in made:
        one.lengths = lengths
    stream = isinstance(loader.dataset, IterableDataset)
    limit = None if whole or not stream else 4 * MOST_SAMPLES
    drive(loader, Plan(folder, (Records(), *instruments), most=limit, keep_going=True), batches=lengths)
    own = in_use(made, loader)
    orders = tuple(own.orders[: len(lengths)]) if own else ()
    return Run(loader.num_workers, orders, tuple(_batches(folder, max(loader.num_workers, 1), lengths)))


def _batches(folder: Path, workers: int, lengths: Sequence[int]) -> Iterator[RunBatch]:
    """The batches that were asked for, in their order: torch hands batch k to worker k mod `workers`.

    How many more a worker reads ahead depends on its speed. A loader whose iterator outlives its epochs may read the
    same batches again: the first ones count.
    """
    samples: dict[tuple[int, int], dict[int, SampleRecord]] = {}
    collated: dict[tuple[int, int], BatchRecord] = {}
    for record in read_spools(folder):
        if isinstance(record, SampleRecord | BatchRecord):
            place = record.epoch, record.batch * workers + (record.worker or 0)
            if isinstance(record, SampleRecord):
                samples.setdefault(place, {}).setdefault(record.position, record)
            else:
                collated.setdefault(place, record)
    asked = [(epoch, number) for epoch, length in enumerate(lengths) for number in range(length)]
    for place, several in ((place, samples[place]) for place in asked if place in samples):
        batch = collated.get(place)
        yield RunBatch(
            *place,
            tuple(_digests(one.leaves) for one in several.values()),
            tuple(one.index for one in several.values()),
            _digests(batch.leaves) if batch else {},
        )


def _digests(leaves: Sequence[LeafRecord]) -> Digests:
    """The content of the leaves: strings beside arrays are keys and paths, such as that of a temporary file."""
    arrays = [leaf for leaf in leaves if leaf.kind not in ("str", "bytes")]
    return {leaf.path: leaf.digest for leaf in arrays or leaves}


def _generators_of(loader: Loader) -> Iterator[str]:
    """The generators that the user gave to the loader and its sampler."""
    if loader.generator is not None:
        yield "the loader's generator"
    if getattr(loader.sampler, "generator", None) not in (None, loader.generator):
        yield "the sampler's generator"


@contextmanager
def _seeding_seen() -> Iterator[list[str]]:
    """Collect the lines of the user's code that seed a global generator."""
    found: list[str] = []

    def noting(original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def seed(*args: Any, **kwargs: Any) -> Any:
            place = caller()
            if place and (args or kwargs):
                found.append(f"{name} at {place[0]}:{place[1]}")
            return original(*args, **kwargs)

        return seed

    with ExitStack() as stack:
        for module, name in ((random, "seed"), (np.random, "seed"), (torch, "manual_seed")):
            stack.enter_context(replaced(module, name, noting(getattr(module, name), f"{module.__name__}.{name}")))
        yield found


@dataclass(frozen=True, slots=True)
class ShiftedAddresses(Instrument):
    """Shifts addresses before each read: otherwise, what was freed shortly before is used again in all runs."""

    @contextmanager
    def around_sample(self) -> Iterator[None]:
        """Shift, then read."""
        _shift_addresses()
        yield


_kept: list[bytes] = []
"""What shifts addresses."""


def _shift_addresses() -> None:
    """Give later objects other addresses than in any other run: what depends on `id()` differs then."""
    source = random.Random(os.urandom(8))
    for size in range(1, 512, 16):
        _kept.extend(bytes(size) for _ in range(source.randrange(_BALLAST)))
