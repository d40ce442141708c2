"""Files opened before the fork that several workers read through one file description, and so one offset.

Map-style datasets: one process reads items first, which shows their content and the offsets that they move. Then
several workers read at once; they may move the same offsets and read each other's bytes. A file that only one worker
reads is read again by another worker, which finds the offset where the first left it, not where the main process
expects it. Reads under an interprocess lock may safely share an offset, so it is noticed whether workers take one.

Streams: two forks begin to read, one after the other. Both find the file at the same offset, and move it if they read
it through the description that they inherit.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import mmap
import multiprocessing
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from multiprocessing.managers import BaseProxy
from multiprocessing.synchronize import SemLock
from pathlib import Path
from typing import Any, TypeVar

from dataguard.core.incident import Incident, LoaderFailed
from dataguard.core.model import NotTested, Undecided
from dataguard.lab.core.index_schedules import Dealt, drawn
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import Index, SampleRecord, members, plain_index, streamed
from dataguard.lab.process.answers import answer_in, has_answered
from dataguard.lab.process.incidents import FlightRecorder, read_spools
from dataguard.lab.process.isolation import run_child
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.open_files import OpenFile, held_files
from dataguard.lab.reading.sample_reader import emulate_worker
from dataguard.lab.rng.frozen_rng import SeededSamples
from dataguard.lab.rng.rng_discovery import SEED, seeded
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.recording import Records
from dataguard.lab.spy.worker_spy import Plan
from dataguard.lab.subject import Subject
from dataguard.process.originals import os, time
from dataguard.process.process_tree import handle_children_as_user, wait_for_children
from dataguard.targets.variants import Loader

T = TypeVar("T")

MOST_WORKERS = 4
"""Workers that read at once: two can collide already, and more do so sooner."""
BATCHES = 3
"""How many of the user's batches each worker gets."""
MOST_OF_A_BATCH = 8
"""Samples of a batch that are read, so that large batches take no longer than small ones."""
READING_SECONDS = 0.6
"""Duration of each of the two readings."""

Leaves = Mapping[str, bytes]
"""The digest of each leaf of a sample, by its path."""
Moved = tuple[OpenFile, int, int]
"""A file with two of its offsets."""


@dataclass(frozen=True, slots=True)
class SingleProcessRead:
    """The result of reading in one process.

    `shared` are the files whose offset the items move, `dealt` the items of each worker, and `leaves` the content of
    each item that does not vary. `reordered`: the sampler draws another order the second time.
    """

    shared: tuple[OpenFile, ...]
    dealt: tuple[tuple[Index, ...], ...] = ()
    leaves: Mapping[Index, Leaves] = field(default_factory=dict)
    reordered: bool = False


@dataclass(frozen=True, slots=True)
class WrongSample:
    """A sample that differs between a worker and a single process."""

    index: Index
    worker: int | None
    leaf: str


@dataclass(frozen=True, slots=True)
class SharedOffsets:
    """The result of reading by several workers at once.

    `shared` are the files that the items read in one process. `moved` are those whose offset several workers moved,
    with two offsets that the main process saw; `later` are those that workers read one after the other. `raised` is the
    exception that only several workers raise. `locked`: they took an interprocess lock.
    """

    shared: tuple[OpenFile, ...] = ()
    moved: tuple[Moved, ...] = ()
    later: tuple[Moved, ...] = ()
    workers: int = 0
    samples: int = 0
    wrong: tuple[WrongSample, ...] = ()
    raised: Incident | None = None
    locked: bool = False

    @property
    def at_risk(self) -> bool:
        """Whether workers read each other's bytes, or will. One after the other, only if samples were wrong."""
        if self.wrong or self.raised is not None:
            return bool(self.moved or self.later)
        return bool(self.moved) and not self.locked


def find_shared_offsets(subject: Subject) -> SharedOffsets:
    """Read in one process and, if descriptions are shared, in the user's own workers; a stream in two forks.

    All forks share the offset of a file that was open before they started. What moves was moved by this loader only if
    it moves while no other observation runs.
    """
    facts, build = subject.facts, subject.build

    def observe(key: str, run: Callable[[Path], T], found: Callable[[T], object]) -> T:
        beside = subject.cache.observe(key, run)
        return subject.cache.observe((key, "alone"), run, exclusive=True) if found(beside) else beside

    if facts.kind == "stream":
        reads: StreamOffsets = observe(
            "stream offsets", lambda folder: read_in_turn(build, folder), lambda reads: reads.moved
        )
        moved = tuple((replace(file, readers=WORKERS), start, end) for file, start, end in reads.moved)
        files = tuple(file for file, _, _ in moved)
        return SharedOffsets(files, moved, workers=WORKERS, samples=reads.samples, locked=reads.locked)
    workers = min(max(facts.num_workers, 2), MOST_WORKERS)
    in_one_process: SingleProcessRead = observe(
        "alone",
        lambda folder: read_alone(build(num_workers=0), folder, workers),
        lambda read: read.shared,
    )
    if not in_one_process.shared or facts.num_workers < 2:
        return SharedOffsets(in_one_process.shared)
    return subject.cache.observe(
        "shared offsets",
        lambda folder: run_together(build, folder, in_one_process),
        lambda folder, answer: read_together(folder, answer, in_one_process),
        exclusive=True,
    )


def read_alone(loader: Loader, folder: Path, workers: int) -> SingleProcessRead:
    """Read some items in this process, as they would be distributed to so many workers."""
    files = held_files(loader, folder.parent)  # before reading, which may move them to other holders
    if not files:
        return SingleProcessRead(())
    dealt = _deal(loader, workers)
    recorder, deadline = FlightRecorder(folder), time.monotonic() + READING_SECONDS
    start = [file.offset() for file in files]
    movers: dict[OpenFile, set[int]] = defaultdict(set)
    leaves: dict[Index, Leaves] = {}
    tried: list[tuple[int, Index]] = []
    for worker, index in _round_robin(dealt):
        tried.append((worker, index))
        offsets = [[file.offset() for file in files]]
        drawn = []
        for _ in range(2):
            drawn.append(_read(loader.dataset, recorder, index))
            offsets.append([file.offset() for file in files])
        for file, seen in zip(files, zip(*offsets, strict=True), strict=True):
            if len(set(seen)) > 1:
                movers[file].add(worker)
        if drawn[0] is not None and drawn[1] is not None:
            again = drawn[1]
            leaves[index] = {path: digest for path, digest in drawn[0].items() if again.get(path) == digest}
        if time.monotonic() > deadline and worker == workers - 1:
            break
    for worker, index in tried:
        # A file that is always read to its end returns to the same offset: starting far off shows the move. A sample
        # that varied shows it too: where another observation shares the file, all may.
        still = [(file, file.offset(), file.seek_far()) for file in files if worker not in movers[file]]
        if still:
            _read(loader.dataset, recorder, index)
        for file, before, far in still:
            if file.offset() != far:
                movers[file].add(worker)
            else:
                file.seek(before)
    shared = [replace(file, readers=len(movers[file])) for file in files if movers[file] and not file.is_written()]
    for file, offset in zip(files, start, strict=True):
        file.seek(offset)  # later observations share it if the user's module opened it
    kept = tuple(tuple(index for index in items if index in leaves) for items in dealt)
    return SingleProcessRead(tuple(shared), kept, leaves, reordered=_deal(loader, workers) != dealt)


def _deal(loader: Loader, workers: int) -> list[list[Any]]:
    """The items of the first batches in the user's order, by the worker to which torch sends them."""
    order: Any = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    dealt: list[list[Any]] = [[] for _ in range(workers)]
    for number, batch in enumerate(islice(drawn(order), BATCHES * workers)):
        items = [batch] if loader.batch_sampler is None else members(batch)[:MOST_OF_A_BATCH]
        dealt[number % workers].extend(plain_index(item) for item in items)
    if any(None in items for items in dealt):
        raise NotTested("the sampler yields custom index objects, which cannot be requested again")
    return [list(dict.fromkeys(items)) for items in dealt]


def _round_robin(dealt: Sequence[Sequence[Any]]) -> Iterator[tuple[int, Any]]:
    """The first item of every worker, then the second of every worker, and so on."""
    for position in range(max(map(len, dealt), default=0)):
        for worker, items in enumerate(dealt):
            if position < len(items):
                yield worker, items[position]


def _read(dataset: Any, recorder: FlightRecorder, index: Any) -> Leaves | None:
    """The digests of a sample's leaves, with the global generators seeded; None if reading it raises."""
    recorder.mark(None, "sample", index)
    batched = getattr(dataset, "__getitems__", None)
    try:
        with seeded(SEED):
            sample = batched([index])[0] if batched else dataset[index]
    except Exception:  # noqa: BLE001 - the user's own code: the ordinary epoch reports it
        return None
    return {leaf.path: leaf.digest for leaf in leaves_of(sample)}


def run_together(build: Callable[..., Loader], folder: Path, in_one_process: SingleProcessRead) -> SharedOffsets:
    """Read the same items in forked workers, each only its own, and watch the offsets.

    If only one worker reads some files, a second epoch gives its items to other workers, as happens in training unless
    persistent workers repeat the same order.
    """
    workers = len(in_one_process.dealt)
    schedules: list[_Rotated] = []

    def schedule(inner: Any, batched: bool) -> _Rotated:
        schedules.append(_Rotated(inner, in_one_process.dealt, MOST_OF_A_BATCH, batched=batched))
        return schedules[-1]

    apart = any(file.readers == 1 for file in in_one_process.shared)
    rotated = apart and (in_one_process.reordered or not build(num_workers=workers).persistent_workers)
    loader = build(num_workers=workers, in_order=True, persistent_workers=False, schedule=schedule, reuse=True)
    opened = held_files(loader, folder.parent)
    files = [
        replace(file, readers=shared.readers)
        for shared in in_one_process.shared
        for file in opened
        if file.is_same(shared)
    ]
    start = [file.offset() for file in files]
    seen: list[set[int]] = [set() for _ in files]

    def note_offsets() -> None:
        for file, offsets in zip(files, seen, strict=True):
            offsets.add(file.offset())

    for dealing in schedules:
        dealing.before_batch = note_offsets
    watch = LockWatch()
    plan = Plan(folder, (SeededSamples(SEED), Records()), keep_going=True)
    raised = _drive(loader, plan, (None, None) if rotated else (None,))
    note_offsets()
    moved: list[Moved] = []
    for file, offset, offsets in zip(files, start, seen, strict=True):
        others = offsets - {offset}
        if not others and not watch.taken and file.readers > 1:
            others = _far_moves(loader, folder, file)
        if others and not file.is_written():
            moved.append((file, offset, max(others)))
        file.seek(offset)
    at_once = tuple(file for file in moved if file[0].readers > 1)
    later = tuple(file for file in moved if file[0].readers == 1)
    return SharedOffsets(in_one_process.shared, at_once, later, workers, raised=raised, locked=watch.taken)


def read_together(folder: Path, seen: SharedOffsets | None, in_one_process: SingleProcessRead) -> SharedOffsets:
    """Compare the samples of the workers with those of one process. Raises Undecided when workers could not read."""
    records = [record for record in read_spools(folder) if isinstance(record, SampleRecord)]
    if seen is None or not (records or seen.raised):
        raise Undecided("several workers could not read the same items at once: raise --budget")
    return replace(seen, samples=len(records), wrong=tuple(_wrong(records, in_one_process.leaves)))


class _Rotated(Dealt):
    """Gives each worker the items of the next one in every further epoch."""

    _begun = False

    def __iter__(self) -> Iterator[Any]:
        if self._begun:
            self.dealt = [*self.dealt[1:], self.dealt[0]]
        self._begun = True
        return super().__iter__()


def _drive(loader: Loader, plan: Plan, batches: Sequence[int | None]) -> Incident | None:
    """Read epochs of so many batches for a limited time; return what the workers raised, if anything."""
    before = {process.pid for process in multiprocessing.active_children()}
    try:
        drive(loader, plan, batches=batches, seconds=READING_SECONDS)
    except LoaderFailed as failure:
        # torch takes seconds to shut down an iterator that is being collected, unless its workers are gone. Its handler
        # would raise for each that is killed.
        wait_for_children()
        for process in multiprocessing.active_children():
            if process.pid not in before:
                process.kill()
                process.join()
        handle_children_as_user()
        return failure.incident
    return None


def _far_moves(loader: Loader, folder: Path, file: OpenFile) -> set[int]:
    """The offset that workers leave in a file after it was set far off; empty if they did not move it."""
    apart = folder / f"far{file.descriptor}"
    apart.mkdir()
    far = file.seek_far()
    # Its exceptions are known already.
    _drive(loader, Plan(apart, (Records(),), keep_going=True), (2 * loader.num_workers,))
    return {file.offset()} - {far}


def _wrong(records: Sequence[SampleRecord], expected: Mapping[Index, Leaves]) -> Iterator[WrongSample]:
    """The samples with a leaf that differs from one process, although the same worker reads that leaf right elsewhere.

    A leaf that a worker never reads right depends on the worker by design.
    """
    pairs = [(record, {leaf.path: leaf.digest for leaf in record.leaves}) for record in records]
    right = set()
    for record, leaves in pairs:
        expected_leaves = expected.get(record.index, {})
        right |= {(record.worker, path) for path, digest in expected_leaves.items() if leaves.get(path) == digest}
    for record, leaves in pairs:
        for path, digest in expected.get(record.index, {}).items():
            if leaves.get(path) != digest and (record.worker, path) in right:
                yield WrongSample(record.index, record.worker, f"sample{path}")
                break


WORKERS, SAMPLES = 2, 8
"""Workers, the fewest that can share an offset, and samples that each reads of a stream: more take longer."""


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """The files whose offset every fork moved, each with two of its offsets, and how many samples they read.

    `locked`: they took an interprocess lock.
    """

    moved: tuple[tuple[OpenFile, int, int], ...] = ()
    samples: int = 0
    locked: bool = False


def read_in_turn(build: Callable[..., Loader], folder: Path) -> StreamOffsets:
    """Begin to read the stream in forks of this process, each of which emulates a worker."""
    loader = build(num_workers=0)
    files = held_files(loader, folder.parent)
    if not files:
        return StreamOffsets()
    watch, start = LockWatch(), [file.offset() for file in files]
    movers: list[dict[int, int]] = [{} for _ in files]
    samples = 0
    for number in range(WORKERS):
        for far in (False, True):  # a file that is read to its end, where it was, is moved from far off
            if all(number in offsets for offsets in movers):
                break
            before = [file.seek_far() if far else file.offset() for file in files]
            samples += _read_two_streams(loader, folder / f"worker{number}{'far' * far}", number)
            for file, offset, offsets, first in zip(files, before, movers, start, strict=True):
                reached = file.offset()
                if reached != offset:
                    offsets.setdefault(number, reached)
                file.seek(first)
    moved = tuple(
        (file, first, max(offsets.values()))
        for file, first, offsets in zip(files, start, movers, strict=True)
        if len(offsets) == WORKERS and not file.is_written()
    )
    return StreamOffsets(moved, samples, watch.taken)


def _read_two_streams(loader: Loader, folder: Path, number: int) -> int:
    """Read a few samples in a fork; return how many, 0 if that fails."""
    folder.mkdir()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        run_child(partial(_begin, loader, folder, number), folder, parent)
    os.waitpid(pid, 0)
    with contextlib.suppress(LoaderFailed):  # what fails without workers is known from the ordinary epoch
        return int(answer_in(folder)) if has_answered(folder) else 0
    return 0


def _begin(loader: Loader, folder: Path, number: int) -> int:
    emulate_worker(loader, FlightRecorder(folder), WORKERS, number)
    with gate("sample"):
        return sum(1 for _ in islice(streamed(loader.dataset), SAMPLES))


class LockWatch:
    """Records that a process forked from this one takes a lock that other processes honour.

    Those are the locks of multiprocessing and its managers, and file locks. Only for a disposable process: audit hooks
    cannot be removed.
    """

    def __init__(self) -> None:
        self._seen = mmap.mmap(-1, 1)  # shared with forks
        self._parent = os.getpid()
        self._open = dict(_open_descriptors())
        for lock in _locks():
            lock._semlock = _WatchedLock(lock._semlock, self._record)
            lock.acquire = lock._semlock.acquire
        call = BaseProxy._callmethod

        def recording(proxy: Any, method: str, *args: Any, **kwargs: Any) -> Any:
            if method == "acquire":
                self._record()
            return call(proxy, method, *args, **kwargs)

        setattr(BaseProxy, "_callmethod", recording)  # noqa: B010 - mypy forbids the plain form
        sys.addaudithook(self._audit)

    @property
    def taken(self) -> bool:
        """Whether a worker has taken a lock so far."""
        return bool(self._seen[0])

    def _record(self) -> None:
        if os.getpid() != self._parent:
            self._seen[0] = 1

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("fcntl.lockf", "fcntl.flock"):
            return
        descriptor, operation = arguments[:2]
        # flock belongs to the file description: if it was opened before the fork, all workers hold the lock at once.
        shared = event == "fcntl.flock" and self._open.get(descriptor, 0) == _identity(descriptor)
        if operation & fcntl.LOCK_EX and not shared:
            self._record()


def _locks() -> list[Any]:
    """The locks of multiprocessing in this process, those of the user's modules too, which were frozen after import."""
    gc.unfreeze()
    holders = gc.get_referrers(*_subclasses(SemLock))  # this writes to no other object, as listing all of them would
    gc.freeze()
    # isinstance reads __class__, which may run the user's code.
    return [lock for lock in holders if issubclass(type(lock), SemLock) and "_semlock" in vars(lock)]


def _subclasses(cls: type[object]) -> list[type[object]]:
    return [descendant for child in cls.__subclasses__() for descendant in (child, *_subclasses(child))]


def _open_descriptors() -> Iterator[tuple[int, object]]:
    """The descriptors of this process, each with the identity of its file."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            yield int(entry.name), _identity(int(entry.name))


def _identity(descriptor: int) -> object:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


class _WatchedLock:
    """A semaphore of multiprocessing that reports when it is acquired."""

    def __init__(self, inner: Any, record: Callable[[], None]) -> None:
        self._inner = inner
        self._record = record

    def __enter__(self) -> Any:
        self._record()
        return self._inner.__enter__()

    def __exit__(self, *reason: object) -> Any:
        return self._inner.__exit__(*reason)

    def acquire(self, *args: Any, **kwargs: Any) -> Any:
        self._record()
        return self._inner.acquire(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
