"""What a loader yields after its state is restored in another process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from dataguard.core.incident import LoaderRaised
from dataguard.core.model import Undecided
from dataguard.lab.core.leaves import leaves_of, rows_of
from dataguard.lab.core.records import Index, SampleRecord
from dataguard.lab.core.source_location import Place
from dataguard.lab.process.incidents import read_spools
from dataguard.lab.process.write_protection import forbid_writes
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.fresh_import import Places, own_sources
from dataguard.lab.reading.hash_order import ordered_sets, rewrite_beforehand
from dataguard.lab.rng.frozen_rng import SeededSamples
from dataguard.lab.rng.rng_discovery import SEED, seed_global_generators
from dataguard.lab.spy.drive import announce_epoch, shut, watch
from dataguard.lab.spy.recording import Records
from dataguard.lab.spy.worker_spy import Plan
from dataguard.lab.streams.resume_methods import OF_LOADER, Method, find_method
from dataguard.lab.subject import Subject
from dataguard.machine.units import counted
from dataguard.process.originals import pickle
from dataguard.targets.discovery import iterated, through_wrapper
from dataguard.targets.variants import Loader

MOST_BATCHES = 32
"""Most batches of an epoch that are read: each point of interruption reads them once more."""

TRIED_BY_JSON = 2
"""The number of the state that also goes through JSON: that of the second point, in the middle of an epoch."""

FEWEST_STATES = 2
"""With fewer states of an epoch, nothing shows whether they change with the position."""

Identity = tuple[tuple[str, bytes], ...]
Batches = tuple[Identity, ...]
"""The identities of the batches of an epoch: paths and digests of their leaves."""
Rows = tuple[tuple[bytes, ...], ...]
"""The digests of the samples in each batch of an epoch, as far as they are rows of its arrays."""


@dataclass(frozen=True, slots=True)
class Point:
    """Where a run is interrupted: in this epoch, after so many batches, or at its `end`; `again`: a restored one."""

    epoch: int
    after: int
    end: bool = False
    again: bool = False

    def __str__(self) -> str:
        if self.end:
            return "at the end of an epoch"
        if self.again:
            return f"a second time, after {counted(self.after, 'batches')}"
        return f"after {counted(self.after, 'batches')}{' of the second epoch' if self.epoch else ''}"


FIRST = Point(0, 1)
"""The first interruption; the run that it restores is interrupted again."""


@dataclass(frozen=True, slots=True)
class Run:
    """The batches of two epochs; `ended`: the first one was read to its end.

    `states` are pickled states along the way, and `by_json` those that a round trip through JSON changed; `refused`
    says why a state could not be pickled or restored. `samples` are the identities of all samples that were read,
    `indices` those of a map-style dataset, and `rows` the identities in each batch. A restored run has the rest of an
    epoch and, after the first interruption, the next one.
    """

    epochs: tuple[Batches, ...]
    ended: bool
    states: Mapping[Point, bytes] = field(default_factory=dict)
    by_json: Mapping[Point, bytes] = field(default_factory=dict)
    refused: str | None = None
    samples: frozenset[Identity] = frozenset()
    indices: frozenset[Index] = frozenset()
    rows: tuple[Rows, ...] = ()

    @property
    def points(self) -> tuple[Point, ...]:
        """Where to interrupt: after the first, a middle and the last but one batch, at the end, in a second epoch."""
        count, later = len(self.epochs[0]), len(self.epochs[1]) // 2
        places = [1, count // 2, count - 1] if self.ended else [1, count // 2]
        points = [Point(0, after) for after in dict.fromkeys(places) if 0 < after < count]
        return (*points, Point(0, count, end=True), Point(1, later)) if self.ended and later else tuple(points)

    def rest(self, point: Point) -> Batches:
        """The batches after this point."""
        return self.epochs[1] if point.end else self.epochs[point.epoch][point.after :]

    def compared(self, point: Point, restored: Run) -> tuple[Batches, Batches]:
        """What a restored run yielded and what was expected, as far as this run was read."""
        expected = self.rest(point)
        return restored.epochs[0] if self.ended else restored.epochs[0][: len(expected)], expected


@dataclass(frozen=True, slots=True)
class Resumes:
    """A run without interruption, one that saved its states, and the runs restored from each state.

    `by_json` are the runs restored from states that a round trip through JSON changed. `reseeded` is a run without
    interruption under another seed, of a stream of which a restored run yields other batches. `method` is how the
    loader is resumed.
    """

    reference: Run
    asked: Run
    restored: Mapping[Point, Run]
    by_json: Mapping[Point, Run]
    reseeded: Run | None = None
    method: Method = OF_LOADER

    @property
    def holds_position(self) -> bool:
        """Whether states of one epoch differ with the batches before them."""
        within = [state for point, state in self.asked.states.items() if point.epoch == 0 and not point.end]
        return len(within) < FEWEST_STATES or len(set(within)) > 1


def find_resumes(subject: Subject, workers: int) -> Resumes:
    """Interrupt and restore a loader with so many workers, each time in a separate process.

    Raises NotApplicable for a loader without a state.
    """

    def build() -> Loader:
        loader: Loader = through_wrapper(subject.build(**_workers(workers)))
        seed_global_generators(subject.settings.seed)  # Python's has another state in each fork
        return loader

    method = subject.observe(
        ("resumes", workers, "method"), lambda _: find_method(build(), subject.settings.contract), unobservable=True
    )

    def observe(key: object, run: Callable[[Loader, Path], Run]) -> Run:
        observation = (("resumes", workers, key), lambda folder: run(build(), folder), _with_samples)
        # Batches of the user's own `__iter__` can be compared although their samples were not observed.
        return subject.observe(*observation, unobservable=subject.facts.own_iter)

    reference = observe("reference", run_epochs)
    asked = observe("asked", partial(run_epochs, method=method, points=reference.points))
    restored, by_json = (
        {
            point: observe((serialization, point), partial(run_restored, method=method, point=point, state=state))
            for point, state in states.items()
        }
        for serialization, states in (("pickle", asked.states), ("json", asked.by_json))
    )
    for point, state in restored[FIRST].states.items() if FIRST in restored else ():
        restored[point] = observe(("pickle", point), partial(run_restored, method=method, point=point, state=state))
    # Samples that are read by index again differ by their augmentation alone, which no loader restores.
    runs = [*restored.items(), *by_json.items()] if subject.facts.kind == "stream" else []
    compared = [reference.compared(point, run) for point, run in runs if not run.refused]
    differ = any(yielded != expected for yielded, expected in compared)
    reseeded = observe("reseeded", partial(run_epochs, seed=SEED + 1)) if differ else None
    return Resumes(reference, asked, restored, by_json, reseeded, method)


def _workers(count: int) -> dict[str, Any]:
    """The arguments of a loader with so many workers."""
    return {"num_workers": count} | ({"multiprocessing_context": "fork"} if count else {})


def _with_samples(folder: Path, run: Run | None) -> Run:
    if run is None:
        raise Undecided("the budget ran out while a state was restored")
    records = [record for record in read_spools(folder) if isinstance(record, SampleRecord)]
    indices = frozenset(record.index for record in records if record.index is not None)
    return replace(run, samples=frozenset(record.digest for record in records), indices=indices)


OTHER_SEED = 1_000_003
"""What is added to the seeds of global generators in a process that did not draw what the first one drew."""


@dataclass(frozen=True, slots=True)
class NewProcess:
    """A process in which the user's modules are imported again, and the loader is made of new objects.

    `sets_backward` is one of two orders of sets of strings, and of what their hashes are; None: that of the first
    process. `made` and `read`: global generators have other states as the loader is made, and as it is restored.
    """

    sets_backward: bool | None = None
    made: bool = False
    read: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """The run that was restored at a point in a new process, and where sets and hashes of strings were used there."""

    point: Point
    run: Run
    hashed: tuple[Place | None, ...] = ()


def find_restart(subject: Subject, workers: int, resumes: Resumes, process: NewProcess) -> Restart:
    """Restore the state from the middle of an epoch in a new process. Raises Undecided if that would take long."""
    within = [point for point in resumes.asked.states if point.epoch == 0 and not point.end]
    if not within or not subject.is_called or not subject.cache.takes_little(subject.factory_seconds):
        raise Undecided("the loader is not made again, or making it takes long")
    point = min(within, key=lambda one: abs(one.after - len(resumes.reference.epochs[0]) // 2))
    state, places = resumes.asked.states[point], Places()
    if process.sets_backward is not None:
        rewrite_beforehand(own_sources().values())

    def restart(folder: Path) -> tuple[Run, tuple[Place | None, ...]]:
        with ExitStack() as stack:
            if process.sets_backward is not None:
                stack.enter_context(ordered_sets(places, backward=process.sets_backward))
                forbid_writes()  # what the factory saves in one order would stay so
            loader = through_wrapper(subject.rebuild(offset=OTHER_SEED * process.made, **_workers(workers)))
            seed_global_generators(subject.settings.seed + OTHER_SEED * process.read)
            return run_restored(loader, folder, resumes.method, point, state), tuple(places)

    def read(folder: Path, restarted: tuple[Run, tuple[Place | None, ...]] | None) -> Restart:
        run, hashed = restarted or (None, ())
        return Restart(point, _with_samples(folder, run), hashed)

    key = ("resumes", workers, point, process)
    return subject.observe(key, restart, read, unobservable=subject.facts.own_iter)


def run_epochs(
    loader: Any, folder: Path, method: Method | None = None, points: tuple[Point, ...] = (), seed: int = SEED
) -> Run:
    """Read two epochs, and save the state at each of the points."""
    states: dict[Point, bytes] = {}
    by_json: dict[Point, bytes] = {}
    refused: list[str] = []

    def snap(point: Point, batch: Any) -> None:
        if method is None or point not in points:
            return
        state = method.saved(loader, point.epoch, point.after, batch)
        try:
            states[point] = pickle.dumps(state)
        except Exception as error:  # noqa: BLE001 - the user's objects may raise anything
            refused.append(f"{type(error).__name__}: {error}")
        if len(states) == TRIED_BY_JSON and (plain := through_json(state)) is not None:
            by_json[point] = pickle.dumps(plain)

    watch(loader, Plan(folder, (SeededSamples(seed), Records()), carry=True))
    epochs, rows = [], []
    for number in range(2):
        announce_epoch(loader, number)
        batches: list[Identity] = []
        samples: list[tuple[bytes, ...]] = []
        batch = None
        for batch, identity, members in _batches(iterated(loader)):
            batches.append(identity)
            samples.append(members)
            snap(Point(number, len(batches)), batch)
        snap(Point(number, len(batches), end=True), batch)
        epochs.append(tuple(batches))
        rows.append(tuple(samples))
    ended = len(epochs[0]) < MOST_BATCHES
    return Run(tuple(epochs), ended, states, by_json, refused[0] if refused else None, rows=tuple(rows))


def run_restored(loader: Any, folder: Path, method: Method, point: Point, state: bytes) -> Run:
    """Restore a pickled state in a new loader, and read the batches that follow.

    After the first interruption, also save a state when each worker has made two of them: some loaders count from zero
    after a restart. Then the next epoch is read, too, which some begin where the one before was continued.
    """
    watch(loader, Plan(folder, (SeededSamples(SEED), Records()), carry=True))
    announce_epoch(loader, point.epoch + point.end)
    try:
        continued = method.restored(loader, pickle.loads(state))
    except Exception as error:  # noqa: BLE001 - whether it accepts its own state is the question
        load = "load_state_dict" if method.load is None else method.load
        return Run(((),), ended=True, refused=f"{load} raises {type(error).__name__}: {error}")
    epochs: list[list[Identity]] = [[]]
    rows: list[list[tuple[bytes, ...]]] = [[]]
    states: dict[Point, bytes] = {}
    refused: str | None = None
    some = 2 * max(loader.num_workers, 1)
    try:
        for batch, identity, members in _batches(continued):
            epochs[0].append(identity)
            rows[0].append(members)
            if len(epochs[0]) == some and point == FIRST:
                after = point.after + some
                saved = method.saved(continued, point.epoch, after, batch)
                states[Point(point.epoch, after, again=True)] = pickle.dumps(saved)
        if point == FIRST and len(epochs[0]) < MOST_BATCHES:
            announce_epoch(loader, point.epoch + 1)
            following = [(identity, members) for _, identity, members in _batches(iterated(loader))]
            epochs.append([identity for identity, _ in following])
            rows.append([members for _, members in following])
    except LoaderRaised as failure:  # a state may be restored only now, by the first iteration
        if failure.incident.out_of_shared_memory:
            raise
        refused = f"iterating raises {failure.incident.headline}"
    ended = len(epochs[0]) < MOST_BATCHES
    batches, samples = tuple(map(tuple, epochs)), tuple(map(tuple, rows))
    return Run(batches, ended, states, refused=refused, rows=samples)


def through_json(state: Any) -> Any:
    """A state after a round trip through JSON; None if JSON refuses it or returns it unchanged."""
    try:
        back = json.loads(json.dumps(state))
    except (TypeError, ValueError):
        return None
    return None if back == state else back


def _batches(loader: Any) -> Iterator[tuple[Any, Identity, tuple[bytes, ...]]]:
    """The batches of one epoch, with the digests of their leaves, and of their samples."""
    with gate("iterate"):
        iterator = iter(loader)
        for number, batch in enumerate(iterator, 1):
            yield batch, tuple((leaf.path, leaf.digest) for leaf in leaves_of(batch)), rows_of(batch)
            if number == MOST_BATCHES:
                shut(iterator)
                break
