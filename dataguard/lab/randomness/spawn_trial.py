"""What a loader whose workers are forked would do if they were spawned.

The start of a spawned worker is emulated, which avoids a second import of torch: what it is sent is pickled, the user's
modules are imported again, without what was set in them since, and there it is unpickled, and reads a few samples. What
fails or differs from an emulated forked worker is tried again with real ones.
"""

from __future__ import annotations

import contextlib
import copy
import operator
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import IterableDataset

from dataguard.core.incident import Incident, LoaderFailed, LoaderHung, observed_or_none
from dataguard.core.model import Undecided
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.loader_facts import by_type, wrapped_by
from dataguard.lab.core.source_location import Place
from dataguard.lab.culprit.line_trace import LineTrace, Look, content_of, first_unlike
from dataguard.lab.culprit.source_flow import returned
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.reading.experiment import Experiment, Readings, Script, readings_of, run
from dataguard.lab.reading.fresh_import import become_new_process
from dataguard.lab.reading.sample_reader import emulate_worker
from dataguard.lab.reading.spawn_transfer import PickleLimitExceeded, Sent, as_if_spawning, send
from dataguard.lab.rng.frozen_rng import FrozenRngs, RngFreezer
from dataguard.lab.rng.rng_discovery import SEED, seed_global_generators
from dataguard.lab.spy.drive import announce_epoch
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

ITEMS, FEW_ITEMS = 3, 2
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


@dataclass(frozen=True, slots=True)
class Followed:
    """What an emulated worker holds after each line while it reads its first sample, and collates it.

    `dropped` is where the user's `__getstate__` returns, if an attribute of a dataset is None afterwards or missing.
    """

    looks: Sequence[Look]
    dropped: Place | None = None


def find_diverging_line(subject: Subject) -> Place | None:
    """The line after which a value of the first sample, or of its batch, differs in a spawned worker.

    If the other one does not run a line at all, for which an attribute may be missing, it is the line that drops that.
    """
    forked, spawned = (
        subject.observe(("followed", method), partial(_followed, subject, method)) for method in ("fork", "spawn")
    )
    look = first_unlike(forked.looks, spawned.looks)
    if look is None:
        return None
    runs_in_both = {(other.file, other.line) for other in spawned.looks} >= {(look.file, look.line)}
    return spawned.dropped if spawned.dropped and not runs_in_both else (look.file, look.line, look.function)


def _followed(subject: Subject, method: str, folder: Path) -> Followed:
    looks: list[Look] = []
    dropped: Place | None = None
    if method == "fork":
        loader, indices = _ready(subject)
    else:
        own = _ready(subject)[0]
        loader, indices = _sent(subject, folder)[:2]
        dropped = _line_that_drops(own, loader)

    @contextlib.contextmanager
    def following() -> Iterator[None]:
        trace = LineTrace(content_of, {"dataset": loader.dataset, "collate_fn": loader.collate_fn}, plain=True)
        with trace.following():
            yield
        looks.extend(trace.looks)

    for _ in _steps(loader, indices[:1], folder, following):
        pass
    return Followed(looks, dropped)


def _line_that_drops(loader: Loader, arrived: Loader) -> Place | None:
    after = dict(wrapped_by(arrived.dataset, by_type))
    for path, part in wrapped_by(loader.dataset, by_type):
        kept = getattr(after.get(path), "__dict__", {})
        lost = [name for name, value in getattr(part, "__dict__", {}).items() if value is not None]
        if any(kept.get(name) is None for name in lost):
            place = returned(part, ("__getstate__",))
            if place:
                return place
    return None


def _items(subject: Subject) -> int:
    """How many samples an emulated worker reads."""
    return subject.affordable_reads(ITEMS, FEW_ITEMS, 2)


def _steadily_changed(subject: Subject, forked: Steps, spawned: Steps) -> set[str]:
    """The leaves that differ between the two, and not because every process has its own."""
    leaves = _changed(forked, spawned)
    for method, steps in (("fork", forked), ("spawn", spawned)) if leaves else ():
        leaves -= _changed(steps, _emulated(subject, method, repeat=1) or {})
    return leaves


def _changed(steps: Steps, others: Steps) -> set[str]:
    """The leaves that differ in any step."""
    pairs = ((name.partition(" ")[0], step or {}, others.get(name) or {}) for name, step in steps.items())
    return {
        name + path
        for name, step, other in pairs
        if step and other and name != ARRIVED
        for path in step.keys() | other.keys()
        if step.get(path) != other.get(path)
    }


def _emulated(subject: Subject, method: str, repeat: int = 0, *, overwritten: bool = True) -> Steps | None:
    """What an emulated worker does; None if it died or hung. Each repeat has other addresses and random numbers."""
    spawned = partial(_emulate_spawned, subject, repeat, overwritten)
    emulate = spawned if method == "spawn" else partial(_emulate_forked, subject)
    steps: Steps | None = observed_or_none(lambda: subject.observe(("emulated", method, repeat, overwritten), emulate))
    if steps is not None and not steps:
        raise Undecided("the dataset takes too long to be pickled here (--start-method spawn tests spawned workers)")
    return steps


def _emulate_forked(subject: Subject, folder: Path) -> Steps:
    loader, indices = _ready(subject)
    return dict(_steps(loader, indices, folder))


def _emulate_spawned(subject: Subject, repeat: int, overwritten: bool, folder: Path) -> Steps:
    """The steps of a spawned worker; none if the loader is too big to be pickled."""
    try:
        arrived, indices, sent = _sent(subject, folder, repeat, overwritten=overwritten)
    except PickleLimitExceeded:
        return {}
    except Exception:  # noqa: BLE001 - whatever the user's code raises when it is pickled or imported
        return {"start": None}
    if sent.generators:  # they are pickled, but the worker may die as it unpickles them
        return {"start": None}
    return dict(_steps(arrived, indices, folder)) | ({FREED: {}} if sent.has_freed else {})


def _sent(
    subject: Subject, folder: Path, repeat: int = 0, *, overwritten: bool = True
) -> tuple[Loader, list[Any], Sent]:
    """The loader and the indices as they arrive in a spawned worker, which this process becomes."""
    loader, indices = _ready(subject)
    with as_if_spawning():
        sent = send((loader.dataset, loader.collate_fn, loader.worker_init_fn), forked=True)
        sent_indices = send(indices)  # separately, as to a worker
        become_new_process(subject.target.spelling, repeat, folder)
        dataset, collate_fn, worker_init_fn = sent.received(overwritten=overwritten)
        indices = sent_indices.received()
    arrived = copy.copy(loader)
    vars(arrived).update(dataset=dataset, collate_fn=collate_fn, worker_init_fn=worker_init_fn)
    return arrived, indices, sent


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


def _steps(
    loader: Loader,
    indices: Sequence[Any],
    folder: Path,
    following: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> Iterator[tuple[str, Step]]:
    """What one worker does, in this disposable process, with all RNGs frozen, and each sample and batch `following`."""
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
            with freezer.frozen(0, number, roots), following():
                samples.append(reading(index))
            yield f"sample {number}", _digests(samples[-1])
        except StopIteration:
            break
        except Exception:  # noqa: BLE001 - the user's code may raise anything
            yield f"sample {number}", None
    if samples:
        with freezer.frozen(0, ITEMS, roots), contextlib.suppress(Exception):  # it may need full batches
            with following():
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


def _real_reads(subject: Subject, method: str) -> Readings | Incident:
    """What a real worker reads, or how it fails."""
    stream, size = subject.facts.kind == "stream", subject.facts.batch_size or 1
    experiment = Experiment(
        None if stream else SCRIPT,
        (FrozenRngs((tuple(SEED + number for number in range(ITEMS)),)),),
        (("num_workers", 1), ("persistent_workers", False), ("multiprocessing_context", method)),
        (-(-ITEMS // size),) if stream else (),
    )

    def readings(folder: Path, ended: bool | None) -> Readings:
        if ended is None:
            raise Undecided("the budget ran out while a worker started")
        return readings_of(experiment, folder, ended)

    try:
        return subject.cache.observe(experiment, partial(run, subject.build, experiment), readings)
    except LoaderHung as failure:
        if failure.incident.worker is not None:
            return failure.incident
        why = f"{failure.incident.headline} while a worker started by {method}"
        raise Undecided(f"{why}, which is slow with many imports: raise --timeout") from failure
    except LoaderFailed as failure:
        return failure.incident


def _differing(forked: Readings, spawned: Readings, leaves: Container[str]) -> dict[str, tuple[str, ...]]:
    """The samples in which one of these leaves differs: their indices, or their numbers in a stream."""
    under_fork, under_spawn = (
        {path: series[:ITEMS] for path, series in readings.joined().items()} for readings in (forked, spawned)
    )
    lengths = {max(map(len, leaf_series.values()), default=0) for leaf_series in (under_fork, under_spawn)}
    if forked.shown != spawned.shown or len(lengths) > 1:
        raise Undecided("the loader draws different indices in each run, so their samples cannot be compared")
    differing = {}
    for path in under_fork | under_spawn:
        pairs = zip_longest(under_fork.get(path, ()), under_spawn.get(path, ()))
        numbers = [number for number, (before, after) in enumerate(pairs) if before != after]
        if path in leaves and numbers:
            differing[path] = tuple(forked.shown.get(number, str(number)) for number in numbers)
    return differing
