"""Experiments: what the workers of a loader read, and under which conditions, as data; and what was read.

An observation asks one question of a few experiments. A `Script` says which items each worker reads in each epoch; an
`Experiment` adds the conditions and the instruments. Equal experiments share one run: `perform` keeps its `Readings`
under the experiment itself, so that nothing but its fields may change what is read.
"""

from __future__ import annotations

import importlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from dataguard.core.model import Undecided
from dataguard.lab.core.index_schedules import Schedule, first_distinct, flat, unique
from dataguard.lab.core.instrument import Instrument
from dataguard.lab.core.records import BatchRecord, SampleRecord, WorkerEpoch, named_leaves
from dataguard.lab.process.incidents import read_spools
from dataguard.lab.reading.epoch_trace import EpochTrace
from dataguard.lab.spy.drive import announce_epoch, drive
from dataguard.lab.spy.recording import Records
from dataguard.lab.spy.worker_spy import Plan
from dataguard.machine.machine import Machine
from dataguard.targets.variants import Loader

R = TypeVar("R")

Order = tuple[int, ...]
"""What one worker reads in an epoch, fetch by fetch: positions in the user's order of indices."""
Series = tuple[bytes, ...]
"""The digests of one leaf, fetch by fetch; empty bytes where it was absent."""
Conditions = tuple[tuple[str, Any], ...]
"""Arguments of `DataLoader` that replace the user's, by name."""

FORKED: Conditions = (("num_workers", 1), ("persistent_workers", False), ("multiprocessing_context", "fork"))
"""One new worker for each epoch: every epoch is a trial that starts with the state of the main process."""


@dataclass(frozen=True, slots=True)
class Script:
    """The items of each epoch, worker by worker. All orders have one length, and the last epoch repeats.

    A batch holds one item `size` times or, if `mixed`, it and the items after it. Items are the first of the user's
    order, or `spread` over it, or those of the whole dataset if that order is only this rank's `share`.
    """

    epochs: tuple[tuple[Order, ...], ...]
    size: int = 1
    mixed: bool = False
    spread: bool = False
    share: bool = False

    @property
    def workers(self) -> int:
        """How many workers read."""
        return len(self.epochs[0])

    @property
    def length(self) -> int:
        """Fetches of one worker in an epoch."""
        return len(self.epochs[0][0])

    @property
    def items(self) -> int:
        """How many items there are."""
        return 1 + max(map(max, chain.from_iterable(self.epochs)))

    @property
    def reads(self) -> int:
        """How many samples all workers read in all epochs."""
        return self.size * self.length * self.workers * len(self.epochs)

    @property
    def everywhere(self) -> Iterator[WorkerEpoch]:
        """Each worker in each epoch."""
        return (WorkerEpoch(worker, epoch) for epoch in range(len(self.epochs)) for worker in range(self.workers))

    def schedule(self, inner: Any, batched: bool) -> Scripted:
        """The index sampler that follows this script, in place of the user's."""
        return Scripted(inner, self, batched=batched)


MOST_SPREAD = 10_000
"""Indices of an epoch among which evenly spaced ones are chosen."""


class Scripted(Schedule):
    """The batches of a script: torch hands batch k to worker k mod the number of workers."""

    def __init__(self, inner: Any, script: Script, *, batched: bool) -> None:
        super().__init__(inner)
        self.script = script
        self.batched = batched
        self._epoch = -1
        self._items: list[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        script = self.script
        if self._items is None:
            self._items = first_distinct(self._candidates(), script.items)
        items = self._items
        self._epoch += 1  # here, because torch makes an iterator more than it uses
        for positions in zip(*script.epochs[min(self._epoch, len(script.epochs) - 1)], strict=True):
            for position in positions:
                if not self.batched:
                    yield items[position]
                elif script.mixed:
                    yield (items * 2)[position : position + script.size]
                else:
                    yield [items[position]] * script.size

    def __len__(self) -> int:
        return self.script.length * self.script.workers

    def _candidates(self) -> Iterator[Any]:
        """The indices among which the items are the first distinct ones."""
        indices, count = flat(self.inner, batched=self.batched), self.script.items
        if self.script.share:
            share = list(islice(indices, count))
            whole = all(isinstance(index, int) for index in share)
            return iter(range(min(max(share, default=-1) + 1, count)) if whole else share)
        if self.script.spread:  # not up to the end of an epoch, where some may not exist
            candidates = list(islice(unique(indices), MOST_SPREAD))
            return iter(candidates[:: max(len(candidates) // count, 1)])
        return indices


@dataclass(frozen=True, slots=True)
class Experiment:
    """A loader with `changed` arguments that reads a script, or so many `batches` of each epoch if it has none.

    `instruments` work in the processes that read; the first is the outermost. `announced` says for which epochs
    `set_epoch` is called. An epoch takes about `seconds` at most. Modules in `imports` are imported before workers
    start. If it need not be `whole`, what was read before the budget ran out is enough. Experiments that differ only in
    `repeat` are repeats.
    """

    script: Script | None
    instruments: tuple[Instrument, ...] = ()
    changed: Conditions = ()
    batches: tuple[int, ...] = ()
    announced: Literal["each", "first", "never"] = "each"
    seconds: float = math.inf
    imports: tuple[str, ...] = ()
    whole: bool = True
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Readings:
    """Each leaf of samples and batches, by path, worker and epoch; and what the instruments recorded.

    Of a batch in a script, only the first sample counts; of a stream, all do. `shown` are the indices as text, by
    fetch; `single` are leaves of one value; `ended`: the last epoch was read to its end.
    """

    leaves: Mapping[str, Mapping[tuple[int, int], Series]]
    notes: tuple[object, ...]
    shown: Mapping[int, str]
    single: frozenset[str]
    ended: bool

    def noted(self, kind: type[R]) -> list[R]:
        """The records of one kind."""
        return [note for note in self.notes if isinstance(note, kind)]

    def joined(self) -> dict[str, Series]:
        """Each leaf through all workers and epochs."""
        return {path: tuple(chain.from_iterable(by.values())) for path, by in self.leaves.items()}


class Observed(Protocol):
    """What an experiment needs of its subject: a `Subject`, which stands in a layer above."""

    machine: Machine

    @property
    def epoch(self) -> EpochTrace:
        """One ordinary epoch, which says how long a sample takes."""

    def afford(self, key: object, seconds: float, /) -> None:
        """Raise Undecided if the budget is too short."""

    def build(self, **overrides: Any) -> Loader:
        """Make the loader in a disposable process."""

    def observe(
        self, key: object, run: Callable[[Path], bool], read: Callable[[Path, bool | None], Readings], /
    ) -> Readings:
        """Run in such a process, and read what it left; once for each key."""


def perform(subject: Observed, experiment: Experiment) -> Readings:
    """The readings of an experiment.

    Raises Undecided if it takes too long, or if the loader reads other items than its script says.
    """
    if experiment.whole:
        subject.afford(experiment, seconds_of(subject, experiment))
    return subject.observe(experiment, partial(run, subject.build, experiment), partial(readings_of, experiment))


def seconds_of(subject: Observed, experiment: Experiment) -> float:
    """How long the reads take: workers share the cores."""
    script, most = experiment.script, experiment.seconds * max(len(experiment.batches), 1)
    reads, workers = (script.reads, script.workers) if script else (sum(experiment.batches), 1)
    return min(reads * subject.epoch.seconds_per_sample / min(workers, subject.machine.usable_cores), most)


def run(build: Callable[..., Loader], experiment: Experiment, folder: Path) -> bool:
    """Read in this disposable process; return whether the last epoch ended."""
    for module in experiment.imports:
        importlib.import_module(module)
    script, changed, batches, length = experiment.script, dict(experiment.changed), experiment.batches, None
    if script is not None:
        changed |= {"schedule": script.schedule, **({"in_order": True} if script.workers > 1 else {})}
        # Counted, because the epochs of some loaders never end.
        length, batches = script.length, (script.length * script.workers,) * len(script.epochs)
    loader = build(**changed)
    if experiment.announced == "first":
        announce_epoch(loader, 0)
    plan = Plan(
        folder,
        (*experiment.instruments, Records()),
        length=length,
        keep_going=True,
        announce=experiment.announced == "each",
    )
    return drive(loader, plan, batches=batches, seconds=experiment.seconds)[-1].ended


def readings_of(experiment: Experiment, folder: Path, ended: bool | None) -> Readings:
    """The readings that an experiment left in a folder; `ended` is None if the budget cut it short."""
    if ended is None and experiment.whole:
        raise Undecided("the budget ran out while samples were read repeatedly")
    script, sorted_records = experiment.script, _SortedRecords()
    for record in read_spools(folder):
        if not isinstance(record, SampleRecord | BatchRecord):
            sorted_records.notes.append(record)
        elif script is not None:
            sorted_records.add_fetch(record, script)
        elif record.batch < experiment.batches[min(record.epoch, len(experiment.batches) - 1)]:
            sorted_records.add(record)  # a worker prefetches, and not always the same number of batches
    if script is not None and experiment.whole and not sorted_records.follows(script):
        raise Undecided("the loader did not read the requested samples: it uses its own order")
    leaves = {
        path: {worker_epoch: tuple(series) for worker_epoch, series in by.items()}
        for path, by in sorted_records.leaves.items()
    }
    return Readings(
        leaves, tuple(sorted_records.notes), sorted_records.shown, frozenset(sorted_records.single), bool(ended)
    )


@dataclass(slots=True)
class _SortedRecords:
    """The records of one run, sorted."""

    leaves: dict[str, dict[tuple[int, int], list[bytes]]] = field(default_factory=lambda: defaultdict(dict))
    notes: list[object] = field(default_factory=list)
    shown: dict[int, str] = field(default_factory=dict)
    single: set[str] = field(default_factory=set)
    fetches: dict[WorkerEpoch, set[int]] = field(default_factory=lambda: defaultdict(set))
    indices: dict[int, set[str | None]] = field(default_factory=lambda: defaultdict(set))
    """For each item of a script, the indices that were read as this item, as text."""

    def add_fetch(self, record: SampleRecord | BatchRecord, script: Script) -> None:
        """Add the first sample or the batch of a fetch."""
        where = WorkerEpoch(record.worker or 0, record.epoch)
        if record.epoch >= len(script.epochs) or where.worker >= script.workers:
            return  # a loader that never ends its epochs has fetched ahead
        if isinstance(record, SampleRecord):
            if record.position:
                return
            self.indices[script.epochs[record.epoch][where.worker][record.batch]].add(record.shown)
            if record.shown is not None:
                self.shown.setdefault(record.batch, record.shown)
            self.fetches[where].add(record.batch)
        self.add(record, script.length)

    def add(self, record: SampleRecord | BatchRecord, length: int = 0) -> None:
        """Add the leaves of a sample or batch, at the place of its fetch if the number of fetches is known."""
        where = record.worker or 0, record.epoch
        for path, leaf in named_leaves(record):
            series = self.leaves[path].setdefault(where, [b""] * length)
            if length:
                series[record.batch] = leaf.digest
            else:
                series.append(leaf.digest)
            if not leaf.shape:
                self.single.add(path)

    def follows(self, script: Script) -> bool:
        """Whether every worker made all fetches of a script, and read the same index wherever it names one item."""
        complete = all(len(self.fetches[where]) == script.length for where in script.everywhere)
        return complete and all(len(texts) == 1 for texts in self.indices.values())
