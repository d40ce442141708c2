"""Random generators of a process: found in the user's objects, seeded, advanced, and compared between workers.

`find_generators` searches the object graph. `RngCensus` records their states from fetch to fetch, and
`cloned_generators` and `overlapping_generators` compare the records of two workers, or of two epochs of one. The global
generators of Python, numpy and torch can be `seeded` for the duration of a context.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import inspect
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.object_graph import Node, reachable
from dataguard.lab.core.records import Census, GeneratorState, WorkerEpoch
from dataguard.lab.core.source_location import Place, assigned_at, is_own, made_at, package_of
from dataguard.process.originals import pickle

SEED = 20_246_093
"""The seed wherever any seed will do, and the first of several random states.

Seeds are not all as good: from some, six states in a row give the same `np.random.randint(2)`, and no image is flipped.
From this one, each of the first three coins that the usual calls toss falls on both sides in three states.
"""


@dataclass(frozen=True, slots=True)
class Source:
    """A generator that was found: its type and its node in the object graph."""

    kind: str
    node: Node

    @property
    def path(self) -> str:
        """The path to the generator."""
        return self.node.path

    @property
    def generator(self) -> Any:
        """The generator itself."""
        return self.node.value

    @property
    def holder(self) -> Any:
        """The object that holds the generator; None for a root."""
        return self.node.holder.value if self.node.holder else None

    @property
    def owner(self) -> Node | None:
        """The nearest object, function or class from the user's code on the path to the generator."""
        return next((node for node in self.node.line[1:] if is_own(node.value)), None)

    @property
    def assigned_at(self) -> Place | None:
        """The line that assigns the attribute of the user's object through which the generator is held."""
        held = next((below for below, node in pairwise(self.node.line) if node is self.owner), None)
        return assigned_at(held.holder.value, held.step.removeprefix(".")) if held and held.holder else None

    @property
    def part(self) -> Node | None:
        """The outermost object of the package that holds the generator, below those of the user or another package."""
        package, part = None, None
        for node in self.node.line[1:-1]:  # a root does not count as the user's
            node_package = package_of(node.value)
            if is_own(node.value) or (node_package and package and node_package != package):
                break
            package, part = (node_package, node) if node_package else (package, part)
        return part

    @property
    def reseed(self) -> str | None:
        """The path of a method that reseeds the holder, if there is one."""
        for node in (self.part, self.owner):
            for name in _RESEED if node else ():
                # Looked up in the classes: getattr on the object may run the user's code.
                if node and any(name in cls.__dict__ for cls in type(node.value).__mro__):
                    return f"{node.path}.{name}"
        return None

    def state(self) -> bytes:
        """A digest of the generator's current state."""
        return hashlib.blake2b(_state(self.generator), digest_size=8).digest()


def find_generators(roots: Mapping[str, Any]) -> list[Source]:
    """Each generator that can be reached from the roots, once, nearest first."""
    return [Source(kind_of(node.value) or "", node) for node in reachable(roots, kind_of)]


def with_shared(roots: Mapping[str, Any]) -> dict[str, Any]:
    """The global generators of Python, numpy and torch, then the roots."""
    return {
        "global random": random.getstate.__self__,  # type: ignore[attr-defined]
        "global torch": torch.default_generator,
        "global numpy.random": np.random.mtrand._rand,
        **roots,
    }


def found_at(path: str, roots: Mapping[str, Any]) -> list[Any]:
    """The generator at a path, if there is one."""
    return [source.generator for source in find_generators(with_shared(roots)) if source.path == path]


def kind_of(value: Any) -> str | None:
    """The name of a generator's type; None for anything else."""
    kind = type(value)  # isinstance reads __class__, which may run the user's code
    if issubclass(kind, random.Random):
        return None if issubclass(kind, random.SystemRandom) else "random.Random"
    if issubclass(kind, _NUMPY):
        return f"numpy.random.{kind.__name__}"
    return "torch.Generator" if issubclass(kind, torch.Generator) else None


_NUMPY = (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
_RESEED = ("set_random_seed", "set_random_state", "seed_", "reseed")
"""Methods that reseed a pipeline of albumentations, MONAI or imgaug."""


def generator_states(roots: Mapping[str, Any]) -> list[tuple[Source, GeneratorState]]:
    """The global generators and those that can be reached from the roots, with their current states."""
    return [(source, state_of(source, roots)) for source in find_generators(with_shared(roots))]


def state_of(source: Source, roots: Mapping[str, Any]) -> GeneratorState:
    """The current state of a generator, and where it was created."""
    if source.node.holder:
        owner, part = source.owner, source.part
        location = made_at(owner.value) if owner else None
        part_path = part.path if part else None
        made = id(source.generator)
        return GeneratorState(source.path, source.kind, source.state(), location, source.reseed, part_path, made)
    init = roots.get("worker_init_fn")
    location = None if init is None else made_at(init)
    return GeneratorState(source.path, source.kind, source.state(), location)


def _state(generator: Any) -> bytes:
    if isinstance(generator, random.Random):
        return repr(random.Random.getstate(generator)).encode()
    if isinstance(generator, torch.Generator):
        return generator.get_state().numpy().tobytes()
    bits = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
    state = bits.get_state() if isinstance(bits, np.random.RandomState) else bits.state
    return pickle.dumps(state)


def state_reader(path: str, roots: Mapping[str, Any]) -> Callable[[], bytes] | None:
    """A function that reads the state of the generator at a path, or probes it; None if there is none."""
    library = path.removeprefix("global ")
    if library in unreadable():
        return functools.partial(_probe, library)
    return next((source.state for source in find_generators(with_shared(roots)) if source.path == path), None)


def advance(path: str, roots: Mapping[str, Any]) -> None:
    """Advance the generator at a path."""
    for generator in found_at(path, roots):
        skip(generator, SKIPPED_NUMBERS)


SKIPPED_NUMBERS = 1009
"""How many numbers an advanced generator skips: more than most samples draw, so that the next one does not just get the
numbers of the one after it; a prime, and so no multiple of what a sample draws.

"""


def skip(generator: Any, count: int) -> None:
    """Draw so many numbers and discard them."""
    if isinstance(generator, torch.Generator):
        torch.rand(count, generator=generator, device=generator.device)
    elif isinstance(generator, np.random.BitGenerator):
        generator.random_raw(count)
    elif isinstance(generator, random.Random):
        for _ in range(count):
            generator.random()
    else:
        generator.random(count)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, numpy and torch, and restore their states afterwards.

    Meanwhile `torch.initial_seed` returns the worker's own seed, because generators that are correctly created in the
    worker are seeded from it. The generator of cv2 cannot be read and is not changed.
    """
    restore = saved_generators()
    own_seed = torch.initial_seed()
    replaced = [(torch, torch.initial_seed), (torch.random, torch.random.initial_seed)]
    for module, _ in replaced:
        module.initial_seed = lambda: own_seed  # type: ignore[attr-defined]
    seed_global_generators(seed)
    try:
        yield
    finally:
        for module, initial_seed in replaced:
            module.initial_seed = initial_seed  # type: ignore[attr-defined]
        restore()


def saved_generators() -> Callable[[], None]:
    """Save the states of the global generators of Python, numpy and torch; call the result to restore them."""
    python, numpy, pytorch = random.getstate(), np.random.get_state(), torch.get_rng_state()

    def restore() -> None:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(pytorch)

    return restore


def seed_global_generators(seed: int) -> None:
    """Seed the global generators of Python, numpy and torch as torch seeds them in a worker."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)


def unreadable() -> tuple[str, ...]:
    """The imported libraries whose generator can be seeded but not read."""
    return tuple(name for name in ("cv2",) if name in sys.modules)


def reseed(library: str, seed: int) -> None:
    """Seed the generator of an `unreadable` library in this process."""
    inspect.unwrap(importlib.import_module(library).setRNGSeed)(seed)  # unseen by who watches the user's code


def probed_states() -> Iterator[GeneratorState]:
    """A substitute for the states of unreadable generators: a digest of their next numbers.

    The user's code skips those numbers: it continues from a seed that follows from them, so that the next numbers are
    known, and the state counts as the same until somebody else draws.
    """
    for library in unreadable():
        yield GeneratorState(f"global {library}", library, _probe(library), None)


def _probe(library: str) -> bytes:
    numbers = _next_numbers(library)
    expected, state = _probed.get(library, (b"", b""))
    digest = hashlib.blake2b(numbers, digest_size=8).digest()
    state = state if numbers == expected else digest
    seed = int.from_bytes(digest[:4], "little") >> 1
    reseed(library, seed)
    _probed[library] = _next_numbers(library), state
    reseed(library, seed)
    return state


_probed: dict[str, tuple[bytes, bytes]] = {}
"""For each unreadable library, the numbers that come next if nobody draws, and the state when somebody last did."""


def _next_numbers(library: str) -> bytes:
    drawn: bytes = sys.modules[library].randu(np.empty((1, 4), dtype=np.float32), 0.0, 1.0).tobytes()
    return drawn


FOLLOWED_FETCHES = 8
"""After each of so many first fetches of an epoch, known generators are read; a new search would take far longer.

Generators that are made late and drawn from unevenly are found to share a state after a few of them.

"""


@dataclass(frozen=True, slots=True)
class RngCensus(Instrument):
    """Searches for generators after some numbers of fetches (`moments`), and reads the known ones in between."""

    moments: Sequence[int]

    def start(self, process: Process) -> Hooks:
        """Each process has its own generators."""
        return _RngCensus(self.moments, process)


class _RngCensus(Hooks):
    def __init__(self, moments: Sequence[int], process: Process) -> None:
        self._process = process
        self._moments = frozenset(moments)
        self._known: list[tuple[Source, GeneratorState]] = []

    @contextlib.contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        """Spool the states before the first fetch of an epoch, and after each."""
        if fetch.number == 0:
            self._take(fetch.epoch, 0, fetch.roots)
        yield
        self._take(fetch.epoch, fetch.number + 1, fetch.roots)

    def _take(self, epoch: int, fetches: int, roots: Mapping[str, Any]) -> None:
        worker, spool = self._process.worker, self._process.spool
        if fetches in self._moments:
            self._known = generator_states(roots)
            states = tuple(state for _, state in self._known)
            spool.write(Census(worker, epoch, fetches, states, unreadable(), tuple(probed_states())))
        elif 0 < fetches <= FOLLOWED_FETCHES:
            states = tuple(replace(state, state=source.state()) for source, state in self._known)
            spool.write(Census(worker, epoch, fetches, states, ()))


Pair = tuple[WorkerEpoch, WorkerEpoch]
"""Two workers, or two epochs of one."""


def cloned_generators(censuses: Iterable[Census], pair: Pair) -> list[GeneratorState]:
    """The generators with equal states after the same number of fetches that advance later.

    States are compared after the first fetch, when generators that are correctly created in the worker exist; if none
    are equal (the first fetch may draw a different number of times), before it.
    """
    # A state is thousands of bits, which two generators do not share by chance: equal ones are copies of one generator,
    # and yield the same numbers as soon as one is drawn from. One that never advances yields none.
    first_worker, second_worker = pair
    table = {(census.where, census.fetches): {state.path: state for state in census.generators} for census in censuses}
    last = max((fetches for _, fetches in table), default=0)
    for fetches in (1, 0):
        first, second, end = (
            table.get((first_worker, fetches), {}),
            table.get((second_worker, fetches), {}),
            table.get((first_worker, last), {}),
        )
        equal = [
            state
            for path, state in first.items()
            if path in second
            and second[path].state == state.state
            and (path not in end or end[path].state != state.state)
        ]
        if equal:
            return equal
    return []


def overlapping_generators(censuses: Iterable[Census], pair: Pair) -> Iterator[tuple[GeneratorState, bool]]:
    """The generators that reach an equal state, perhaps after different numbers of fetches.

    Each comes with whether that state is the one before the first fetch, which may still seed the generator.
    """
    # Whoever is in a state continues in the same way: one state in common is enough, whenever each of them was in it.
    states: dict[WorkerEpoch, dict[str, dict[int, bytes]]] = {}
    named: dict[str, GeneratorState] = {}
    for census in censuses:
        named |= census.states
        for path, state in census.states.items():
            states.setdefault(census.where, {}).setdefault(path, {})[census.fetches] = state.state
    (first_worker, second_worker), (first, second) = pair, (states.get(worker_epoch, {}) for worker_epoch in pair)
    for path in (path for path in first if path in second):
        start, later = _advancing(first[path], continues=first_worker.worker == second_worker.worker)
        other_start, other_later = _advancing(second[path])
        if later & other_later:
            yield named[path], False
        elif start is not None and start == other_start and later | other_later:
            yield named[path], True


def _advancing(states: Mapping[int, bytes], *, continues: bool = False) -> tuple[bytes | None, set[bytes]]:
    """The state before the first fetch, and those after it; none if the generator does not advance.

    A persistent worker `continues` its next epoch from the last state of this one, which proves nothing.
    """
    if len(set(states.values())) < 2:
        return (None, set()) if continues else (states.get(0), set())
    last = states[max(states)] if continues else None
    return states.get(0), {state for fetches, state in states.items() if fetches and state != last}
