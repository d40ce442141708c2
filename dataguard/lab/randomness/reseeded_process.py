"""Global generators that reading leaves in one state, whatever state they were in before.

A loader without workers reads in the training process, which draws from the same generators: dropout, and the order of
the next epoch. Each sample is read in two epochs, with other states of the generators before each read. A state that is
equal after both reads was set by them; one that is saved before the read and restored after it is not.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.records import Seeding, Seedings
from dataguard.lab.randomness.worker_draws import batch_size, one_by_one
from dataguard.lab.reading.experiment import Experiment, Script, perform
from dataguard.lab.rng.rng_discovery import SEED, find_generators, seed_global_generators, with_shared
from dataguard.lab.rng.seed_watch import SeedLog, global_path
from dataguard.lab.subject import Subject

ITEMS, EPOCHS = 6, 2
"""How many samples are read, and in how many epochs: a seed of epoch and index differs between these."""


@dataclass(frozen=True, slots=True)
class StatesAfter:
    """The states of the global generators after one fetch, by path."""

    epoch: int
    number: int
    states: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class StirredStates(Instrument):
    """Seeds the global generators differently before each fetch, and records their states after it."""

    def start(self, process: Process) -> Hooks:
        """Each process has its own generators."""
        return _StirredStates(process)


class _StirredStates(Hooks):
    def __init__(self, process: Process) -> None:
        self._process = process
        self._fetches = 0

    @contextlib.contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        """Seed before the fetch, read the states after it."""
        self._fetches += 1
        seed_global_generators(SEED + self._fetches)
        yield
        states = {source.path: source.state() for source in find_generators(with_shared({}))}
        self._process.spool.write(StatesAfter(fetch.epoch, fetch.number, states))


@dataclass(frozen=True, slots=True)
class Reseeded:
    """A global generator, by its path, that `times` of `reads` left in the same state in both epochs.

    `constant`: it was one state after all of them, and not one for each sample. `seeding` is what set it, if it was
    seen.
    """

    path: str
    times: int
    reads: int
    constant: bool
    seeding: Seeding | None


@dataclass(frozen=True, slots=True)
class ReseededTrace:
    """The generators that were `found` when so many `samples` were read in each of several `epochs`."""

    found: tuple[Reseeded, ...]
    samples: int
    epochs: int = EPOCHS


def find_reseeded(subject: Subject) -> ReseededTrace:
    """The global generators that reading sets to a state of its own, in a process that has no workers."""
    subject.afford_reads("reseeded", ITEMS * EPOCHS)
    instruments = StirredStates(), SeedLog((0,) * ITEMS)  # the first is outside: its own seeds are not logged
    if subject.facts.kind == "stream":
        experiment = Experiment(None, instruments, one_by_one(subject.facts), (ITEMS,) * EPOCHS)
    else:
        script = Script(((tuple(range(ITEMS)),),) * EPOCHS, batch_size(subject.facts), mixed=True)
        experiment = Experiment(script, instruments)
    readings = perform(subject, experiment)
    states: dict[str, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for after in readings.noted(StatesAfter):
        for path, state in after.states.items():
            states[path][after.number].append(state)
    seedings = {global_path(seeding): seeding for fetch in readings.noted(Seedings) for seeding in fetch.seeds}
    found = []
    for path, by_read in states.items():
        again = {number: after for number, after in by_read.items() if len(after) == EPOCHS}
        equal = {after[0] for after in again.values() if len(set(after)) == 1}
        if equal:
            times = sum(len(set(after)) == 1 for after in again.values())
            found.append(Reseeded(path, times, len(again), len(equal) == 1, seedings.get(path)))
    return ReseededTrace(tuple(found), max(map(len, states.values()), default=0))
