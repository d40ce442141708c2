"""What a loader whose workers are forked would do if they were spawned.

The start of a spawned worker is emulated, which avoids a second import of torch: what it is sent is pickled, the user's
modules are imported again, without what was set in them since, and there it is unpickled, and reads a few samples. What
fails or differs from an emulated forked worker is tried again with real ones. What cannot be pickled at all is searched
for its smallest part that fails.
"""

from __future__ import annotations

import contextlib
import copy
import io
import operator
import threading
import types
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from multiprocessing.synchronize import SemLock
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import IterableDataset

from dataguard.core.incident import Incident, LoaderFailed, LoaderHung, is_library, observed_or_none
from dataguard.core.model import Undecided
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.object_graph import FEW_ENTRIES, parts_of
from dataguard.lab.core.records import BatchRecord, SampleRecord, named_leaves
from dataguard.lab.core.source_location import made_at
from dataguard.lab.process.incidents import FlightRecorder, incident_of, read_spools
from dataguard.lab.reading.experiment import Script
from dataguard.lab.reading.fresh_import import become_new_process
from dataguard.lab.reading.sample_reader import emulate_worker
from dataguard.lab.reading.spawn_transfer import MOST_SECONDS, PickleLimitExceeded, as_if_spawning, send
from dataguard.lab.rng.frozen_rng import FrozenRngs, RngFreezer
from dataguard.lab.rng.rng_discovery import SEED, find_generators, seed_global_generators
from dataguard.lab.spy.drive import announce_epoch, drive
from dataguard.lab.spy.recording import Records
from dataguard.lab.spy.worker_spy import Plan
from dataguard.lab.subject import Subject
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

MOST_DEEP = 100
"""Most failing parts whose own parts are searched."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The smallest part of a loader that cannot be pickled, as plain data.

    `path` leads to it, such as `dataset.transform.transforms[2]`; `what` describes it; `error` is what pickling or
    unpickling it raised; `at` is the file and line where it, or its holder, is defined.
    """

    path: str
    what: str
    error: str
    at: tuple[str, int] | None

    @property
    def words(self) -> str:
        """The problem as text: with the exception, unless its kind can never be pickled."""
        return f"{self.path} is {self.what}" + (f" ({self.error})" if self.what.startswith(_SOME_OBJECT) else "")


@dataclass(frozen=True, slots=True)
class Pickling:
    """The first part of a loader that cannot be pickled, and the torch generators among its parts."""

    culprit: Culprit | None
    generators: tuple[Culprit, ...]


def try_pickling(loader: Loader, *, forked: bool) -> Pickling:
    """Pickle and unpickle what torch sends to a spawned worker.

    `forked`: the loader's workers are forked, so its locks and shared values were created for that. If spawning were
    the default they would be created for spawning, so they do not count.
    """
    roots = {
        "dataset": loader.dataset,
        "collate_fn": loader.collate_fn,
        "worker_init_fn": loader.worker_init_fn,
    }
    # Objects that only globals, classes and code refer to are not sent.
    sent = [source for source in find_generators(roots) if source.kind == "torch.Generator" and "<" not in source.path]
    generators = [Culprit(source.path, "a torch.Generator", "", _place(source.holder)) for source in sent]
    return Pickling(find_culprit(roots, forked=forked), tuple(generators))


def find_culprit(roots: Mapping[str, Any], *, forked: bool = False, seconds: float = MOST_SECONDS) -> Culprit | None:
    """The smallest part of the first root that cannot be pickled; None if every root can."""
    search = _Search(time.monotonic() + seconds, forked=forked)
    with as_if_spawning():
        return next((found for path, root in roots.items() if (found := search.smallest(path, root))), None)


class _Search:
    """A search for the smallest part that fails; after the deadline it returns the part reached so far."""

    def __init__(self, deadline: float, *, forked: bool) -> None:
        self.deadline = deadline
        self.forked = forked
        self.entered: dict[int, Any] = {}
        """The failing parts by `id`; held, so that each `id` stays unique."""

    def smallest(self, path: str, value: Any, holder: Any = None) -> Culprit | None:
        """The value itself if it fails and no part of it does; `holder` is the user's object around it, if any."""
        if id(value) in self.entered:
            return None
        error = self.attempt(value)
        if error is None:
            return None
        self.entered[id(value)] = value
        unsettled = isinstance(error, PickleLimitExceeded)
        if self.may_blame_parts(value, error):
            for step, part in self.suspects(value):
                found = self.smallest(path + step, part, value if _place(value) else holder)
                if found:
                    return found
                # It fails because of an object around it: another part of the cycle is the culprit.
                unsettled = unsettled or (holder is not None and id(part) in self.entered)
        return None if unsettled else _culprit(path, value, holder, error)

    def may_blame_parts(self, value: Any, error: Exception) -> bool:
        """Whether to search the parts: not if the class itself fails, or the object is nested too deeply."""
        if len(self.entered) >= MOST_DEEP or isinstance(error, RecursionError):
            return False
        return type(value).__module__ == "builtins" or self.attempt(type(value)) is None

    def suspects(self, value: Any) -> Sequence[tuple[str, Any]]:
        """The parts of an object; a large container is bisected down to a few."""
        try:
            parts = list(parts_of(value))
        except Exception:  # noqa: BLE001 - `__reduce__` is the user's code; then the object itself fails
            return ()
        while len(parts) > FEW_ENTRIES:
            half = parts[: len(parts) // 2]
            error = self.attempt([part for _, part in half])
            if isinstance(error, PickleLimitExceeded):
                return parts[:: len(parts) // FEW_ENTRIES]
            parts = half if error else parts[len(half) :]
        return parts

    def attempt(self, value: Any) -> Exception | None:
        """The exception that pickling an object and unpickling the result raises, if any."""
        if time.monotonic() > self.deadline:
            return None
        try:
            send(value, forked=self.forked, deadline=self.deadline).received()
        except Exception as error:  # noqa: BLE001 - `__reduce__` is the user's code
            return error
        return None


def _culprit(path: str, value: Any, holder: Any, error: Exception) -> Culprit:
    incident = incident_of(error, "transfer")
    frame = incident.own_frame
    place = (frame.file, frame.line) if frame else _place(value) or _place(holder)
    return Culprit(path, _what(value), incident.headline, place)


def _place(thing: Any) -> tuple[str, int] | None:
    """Where the class or function is defined, if it is the user's."""
    place = None if thing is None else made_at(thing)
    return place if place and place[0] and not is_library(place[0]) else None


def _is_local(thing: Any) -> bool:
    return "<locals>" in thing.__qualname__


def _what(value: Any) -> str:
    if isinstance(value, types.FunctionType):
        if value.__name__ == "<lambda>":
            return "a lambda"
        return f"the {'local ' if _is_local(value) else ''}function {value.__name__}"
    if isinstance(value, type):
        return f"the {'local ' if _is_local(value) else ''}class {value.__name__}"
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    kind = type(value)
    if _is_local(kind):
        return f"an instance of the local class {kind.__name__}"
    for kinds, words in _WORDS:
        if isinstance(value, kinds):
            return words
    return f"{_SOME_OBJECT} {kind.__module__}.{kind.__qualname__}".replace(" builtins.", " ")


_SOME_OBJECT = "an instance of the class"
_WORDS: tuple[tuple[Any, str], ...] = (
    (types.GeneratorType, "a generator"),
    (io.IOBase, "an open file"),
    ((type(threading.Lock()), type(threading.RLock())), "a lock"),
    (SemLock, "a multiprocessing lock"),
    (torch.Tensor, "a non-leaf tensor that requires grad"),
)

ITEMS, FEW_ITEMS = 4, 2
"""How many samples are read, and how many of those that are slow."""
SCRIPT = Script(((tuple(range(ITEMS)),),), spread=True)

_FORKED_LOCK = "created in a fork context"
"""What Python says of a lock that would have been made otherwise where workers are spawned."""

ARRIVED, FREED = "arrived", "freed"
"""The step of the batch as the main process receives it, and a mark of a dataset that reads freed memory."""
Step = Mapping[str, bytes] | None
"""What one step of a worker gave: the digests of leaves by path; None if it failed."""
Steps = Mapping[str, Step]
"""The steps of an emulated worker by name: `start`, `init`, the samples, a `batch` of them, and what arrives of it."""


@dataclass(frozen=True, slots=True)
class SpawnTrial:
    """What a spawned worker does otherwise than a forked one, as real ones confirm.

    `failure` is how it fails. `differing` are the samples in which a leaf differs, by its path: their indices, or their
    numbers in a stream. `items` is how many samples were compared.
    """

    items: int
    failure: Incident | None = None
    differing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def find_spawn_trial(subject: Subject) -> SpawnTrial:
    """Try spawned workers. Raises Undecided where an object is too big to be pickled for this, or time ran out."""
    items = _items(subject)
    subject.afford_reads("spawn trial", 2 * items)
    forked = _emulated(subject, "fork")
    if forked is None:  # it may wait for the other workers
        raise Undecided("samples can only be read in real workers: --start-method spawn tests spawned ones")
    spawned = _emulated(subject, "spawn")
    # A step that fails in both, such as an init that needs a real worker, says nothing.
    fails = spawned is None or any(step is None and forked.get(name, {}) is not None for name, step in spawned.items())
    leaves = set() if fails else _steadily_changed(subject, forked, spawned or {})
    if not fails and (not leaves or find_freed(subject)):
        return SpawnTrial(items)
    real = _real_reads(subject, "spawn")
    if isinstance(real, Incident):
        if _FORKED_LOCK in real.message and (spawned or {}).get("start", {}) is not None:
            raise Undecided("its locks were made for forked workers, so that no other can be started here")
        return SpawnTrial(items, real)
    other = _real_reads(subject, "fork") if leaves else real
    if isinstance(other, Incident):
        raise Undecided(other.under_other_settings)
    return SpawnTrial(items, differing=_differing(other, real, leaves))


def find_freed(subject: Subject) -> tuple[str, ...]:
    """The leaves that a spawned worker reads from memory that was freed when the dataset was sent to it.

    No real one is asked: it may still find their values there, or die.
    """
    subject.afford_reads("spawn trial", 2 * _items(subject))
    forked, spawned = _emulated(subject, "fork") or {}, _emulated(subject, "spawn") or {}
    if FREED not in spawned:
        return ()
    kept = _emulated(subject, "spawn", overwritten=False) or {}
    return tuple(sorted(_changed(forked, spawned) - _changed(forked, kept), reverse=True))  # samples first


def find_lost_views(subject: Subject) -> tuple[str, ...]:
    """The leaves of a batch that the main process receives with other values: views of memory that is freed by then."""
    subject.afford_reads("spawn trial", 2 * _items(subject))
    steps = _emulated(subject, "fork") or {}
    batch, arrived = steps.get("batch") or {}, steps.get(ARRIVED) or {}
    return tuple(path for path, digest in batch.items() if digest != arrived.get(path, digest))


def _items(subject: Subject) -> int:
    """How many samples an emulated worker reads."""
    return subject.affordable_reads(ITEMS, FEW_ITEMS, 2)


def _steadily_changed(subject: Subject, forked: Steps, spawned: Steps) -> set[str]:
    """The leaves that differ between the two, and not because every process has its own."""
    leaves = _changed(forked, spawned)
    for method, steps in (("fork", forked), ("spawn", spawned)) if leaves else ():
        leaves -= _changed(steps, _emulated(subject, method, run=1) or {})
    return leaves


def _changed(one: Steps, two: Steps) -> set[str]:
    """The leaves that differ in any step."""
    pairs = ((name.partition(" ")[0], step or {}, two.get(name) or {}) for name, step in one.items())
    return {
        name + path
        for name, step, other in pairs
        if step and other and name != ARRIVED
        for path in step.keys() | other.keys()
        if step.get(path) != other.get(path)
    }


def _emulated(subject: Subject, method: str, run: int = 0, *, overwritten: bool = True) -> Steps | None:
    """What an emulated worker does; None if it died or hung. Each run has other addresses and random numbers."""
    spawned = partial(_emulate_spawned, subject, run, overwritten)
    emulate = spawned if method == "spawn" else partial(_emulate_forked, subject)
    steps: Steps | None = observed_or_none(lambda: subject.observe(("emulated", method, run, overwritten), emulate))
    if steps is not None and not steps:
        raise Undecided("the dataset takes too long to be pickled here (--start-method spawn tests spawned workers)")
    return steps


def _emulate_forked(subject: Subject, folder: Path) -> Steps:
    loader, indices = _ready(subject)
    return dict(_steps(loader, indices, folder))


def _emulate_spawned(subject: Subject, run: int, overwritten: bool, folder: Path) -> Steps:
    """The steps of a spawned worker; none if the loader is too big to be pickled."""
    loader, indices = _ready(subject)
    try:
        with as_if_spawning():
            sent = send((loader.dataset, loader.collate_fn, loader.worker_init_fn), forked=True)
            sent_indices = send(indices)  # separately, as to a worker
            become_new_process(subject.target.spelling, run, folder)
            dataset, collate_fn, worker_init_fn = sent.received(overwritten=overwritten)
            indices = sent_indices.received()
    except PickleLimitExceeded:
        return {}
    except Exception:  # noqa: BLE001 - whatever the user's code raises when it is pickled or imported
        return {"start": None}
    if sent.generators:  # they are pickled, but the worker may die as it unpickles them
        return {"start": None}
    arrived = copy.copy(loader)
    vars(arrived).update(dataset=dataset, collate_fn=collate_fn, worker_init_fn=worker_init_fn)
    return dict(_steps(arrived, indices, folder)) | ({FREED: {}} if sent.has_freed else {})


def _ready(subject: Subject) -> tuple[Loader, list[Any]]:
    """The loader when its workers start, and the indices that they read."""
    loader = subject.build(schedule=SCRIPT.schedule)
    announce_epoch(loader, 0)
    if isinstance(loader.dataset, IterableDataset):
        return loader, list(range(_items(subject)))
    batched = loader.batch_sampler is not None
    order: Any = loader.batch_sampler if batched else loader.sampler
    entries = islice(order, _items(subject))  # a loader may repeat its sampler
    return loader, [entry[0] if batched else entry for entry in entries]


def _steps(loader: Loader, indices: Sequence[Any], folder: Path) -> Iterator[tuple[str, Step]]:
    """What one worker does, in this disposable process, with all RNGs frozen."""
    recorder, freezer = FlightRecorder(folder), RngFreezer([[SEED + number for number in range(ITEMS + 1)]])
    roots = {"dataset": loader.dataset, "collate_fn": loader.collate_fn}
    seed_global_generators(SEED)
    torch.set_num_threads(1)
    try:
        emulate_worker(loader, recorder, loader.num_workers)
    except LoaderFailed:
        yield "init", None
    samples: list[Any] = []
    stream = isinstance(loader.dataset, IterableDataset)
    reading = _stream(loader.dataset) if stream else partial(operator.getitem, loader.dataset)
    for number, index in enumerate(indices):
        recorder.mark(None, "sample", index)
        try:
            with freezer.frozen(0, number, roots):
                samples.append(reading(index))
            yield f"sample {number}", _digests(samples[-1])
        except StopIteration:
            break
        except Exception:  # noqa: BLE001 - the user's code may raise anything
            yield f"sample {number}", None
    if samples:
        with freezer.frozen(0, ITEMS, roots), contextlib.suppress(Exception):  # it may need full batches
            batch = loader.collate_fn(samples if loader.batch_sampler is not None else samples[0])
            yield "batch", _digests(batch)
            yield ARRIVED, _digests(send(batch, forked=True).received())


def _stream(dataset: Any) -> Callable[[Any], Any]:
    """Reads the samples of a stream one by one; the first read begins it."""
    begun: list[Iterator[Any]] = []

    def read(_: Any) -> Any:
        if not begun:
            begun.append(iter(dataset))
        return next(begun[0])

    return read


def _digests(value: Any) -> Mapping[str, bytes]:
    return {leaf.path: leaf.digest for leaf in leaves_of(value)}


Reads = Sequence[tuple[str, Mapping[str, bytes]]]
"""What a real worker read: for each sample its index, or its number in a stream, and digests by leaf."""


def _real_reads(subject: Subject, method: str) -> Reads | Incident:
    """What a real worker reads, or how it fails."""
    try:
        reads: Reads = subject.cache.observe(
            ("real worker", method), partial(_run_worker, subject.build, method), _read_worker
        )
    except LoaderHung as failure:
        if failure.incident.worker is not None:
            return failure.incident
        why = f"{failure.incident.headline} while a worker started by {method}"
        raise Undecided(f"{why}, which is slow with many imports: raise --timeout") from failure
    except LoaderFailed as failure:
        return failure.incident
    return reads


def _run_worker(build: Callable[..., Loader], method: str, folder: Path) -> bool:
    loader = build(
        num_workers=1,
        persistent_workers=False,
        multiprocessing_context=method,
        schedule=SCRIPT.schedule,
    )
    stream = isinstance(loader.dataset, IterableDataset)
    seeds = [[SEED + number for number in range(ITEMS)]]
    plan = Plan(folder, (FrozenRngs(seeds), Records()), most=ITEMS if stream else None, length=ITEMS, keep_going=True)
    drive(loader, plan, batches=(-(-ITEMS // (loader.batch_size or 1)) if stream else ITEMS,))
    return True


def _read_worker(folder: Path, complete: bool | None) -> Reads:
    if not complete:
        raise Undecided("the budget ran out while a worker started")
    records = list(read_spools(folder))
    samples = sorted(
        (one for one in records if isinstance(one, SampleRecord)), key=lambda one: (one.batch, one.position)
    )
    batches = {one.batch: one for one in records if isinstance(one, BatchRecord)}
    reads = []
    for number, sample in enumerate(samples[:ITEMS]):
        batch = None if sample.position else batches.get(sample.batch)
        leaves = chain(named_leaves(sample), named_leaves(batch) if batch else ())
        reads.append((sample.shown or str(number), {path: leaf.digest for path, leaf in leaves}))
    return reads


def _differing(forked: Reads, spawned: Reads, leaves: Container[str]) -> dict[str, tuple[str, ...]]:
    """The samples in which one of these leaves differs."""
    if [name for name, _ in forked] != [name for name, _ in spawned]:
        raise Undecided("the loader draws different indices in each run, so their samples cannot be compared")
    found: dict[str, tuple[str, ...]] = {}
    for (name, one), (_, two) in zip(forked, spawned, strict=True):
        for path in one.keys() | two.keys():
            if path in leaves and one.get(path) != two.get(path):
                found[path] = (*found.get(path, ()), name)
    return found
