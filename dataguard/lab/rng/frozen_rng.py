"""Instruments that freeze, seed or advance random generators while samples are read.

Frozen generators are seeded before each fetch, so that none of them causes variation; what varies all the same depends
on the one that was left unfrozen, or on none. Also which libraries draw random numbers from the global generators of
Python, numpy and torch, which a profiler shows.
"""

from __future__ import annotations

import contextlib
import gc
import random
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import torch

from dataguard.core.incident import is_library
from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.rng.rng_discovery import (
    advance,
    find_generators,
    found_at,
    kind_of,
    reseed,
    seeded,
    unreadable,
    with_shared,
)
from dataguard.process.originals import time


@dataclass(frozen=True, slots=True)
class UnfrozenRng:
    """The path of the one generator that continues while all others are frozen.

    `seeds` lists, for each epoch, pairs of a fetch and the seed it gets before it; the last entry is for later epochs.
    """

    path: str
    seeds: tuple[tuple[tuple[int, int], ...], ...]

    def seed(self, epoch: int, fetch: int) -> int | None:
        """The seed before a fetch, if any."""
        return dict(self.seeds[min(epoch, len(self.seeds) - 1)]).get(fetch)


@dataclass(frozen=True, slots=True)
class FrozenRngs(Instrument):
    """Freezes every generator that can be found during each fetch, and while the `__iter__` of a stream runs.

    `seeds` and `unfrozen` are those of `RngFreezer`.
    """

    seeds: Sequence[Sequence[int]]
    unfrozen: UnfrozenRng | None = None

    def start(self, process: Process) -> Hooks:
        """Each process has its own generators."""
        return _FrozenRngs(RngFreezer(self.seeds, self.unfrozen))


class _FrozenRngs(Hooks):
    def __init__(self, freezer: RngFreezer) -> None:
        self._freezer = freezer

    def around_start(self, epoch: int, dataset: Any) -> contextlib.AbstractContextManager[None]:
        """Freeze the generators of the dataset with the seed of the first fetch."""
        return self._freezer.frozen(epoch, 0, {"dataset": dataset})

    def around_fetch(self, fetch: Fetch) -> contextlib.AbstractContextManager[None]:
        """Freeze all generators that can be found with the seed of this fetch."""
        return self._freezer.frozen(fetch.epoch, fetch.number, fetch.roots)


FEWEST_SEARCHES = 2
"""Fewest searches for generators: a second one finds those that the first fetch creates."""
SEARCH_SECONDS, SEARCH_SECONDS_UNFROZEN = 0.3, 0.1
"""CPU time to find generators that are created late; less with an unfrozen one, in many processes.

More finds later ones, and takes longer in each process of an observation.

"""
_GLOBAL_STATES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "global random": (random.getstate, random.setstate),
    "global torch": (torch.get_rng_state, torch.set_rng_state),
    "global numpy.random": (np.random.get_state, np.random.set_state),
}
"""How to read and set the state of each global generator."""


class RngFreezer:
    """Freezes the generators of one process: the global ones, those in the user's objects, and that of cv2.

    `seeds` lists, for each epoch, the seeds of its fetches; the last seed is for all later fetches, and the last list
    for all later epochs. One generator may be left `unfrozen`.
    """

    def __init__(self, seeds: Sequence[Sequence[int]], unfrozen: UnfrozenRng | None = None) -> None:
        self._seeds = seeds
        self._unfrozen = unfrozen
        self._found: dict[int, Any] = {}
        self._excluded = {*_GLOBAL_STATES, unfrozen.path if unfrozen else ""}
        self._fetches = 0
        self._spent = 0.0

    @contextlib.contextmanager
    def frozen(self, epoch: int, fetch: int, roots: Mapping[str, Any]) -> Iterator[None]:
        """Seed every generator that can be reached from the roots; restore the states of the global ones afterwards."""
        row = self._seeds[min(epoch, len(self._seeds) - 1)]
        seed = row[min(fetch, len(row) - 1)]
        self._find(roots)
        path = self._unfrozen.path if self._unfrozen else ""
        read, write = _GLOBAL_STATES.get(path, (lambda: None, lambda _: None))
        state = read()
        with seeded(seed):
            for generator in self._found.values():
                _seed_if_possible(generator, seed)
            for library in unreadable():
                if path != f"global {library}":
                    reseed(library, seed)
            write(state)
            if self._unfrozen:
                _seed_at(path, self._unfrozen.seed(epoch, fetch), roots)
            try:
                yield
            finally:
                state = read()
        write(state)

    def _find(self, roots: Mapping[str, Any]) -> None:
        """Search before the first fetches, after one that creates a generator, and when twice as many have passed."""
        self._fetches += 1
        first = self._fetches <= FEWEST_SEARCHES
        if not first and self._spent > (SEARCH_SECONDS_UNFROZEN if self._unfrozen else SEARCH_SECONDS):
            return
        started = time.thread_time()
        # At powers of two the searches of an epoch are few, and what is created late is found in half of the fetches.
        if first or self._fetches.bit_count() == 1 or _is_created():
            self._search(roots)
            gc.freeze()  # the collector lists only what is created from here on
        self._spent += time.thread_time() - started

    def _search(self, roots: Mapping[str, Any]) -> None:
        # The generators of a running stream are created with it: seeding them is part of its work.
        lasting = {name: root for name, root in roots.items() if name != "stream"}
        others = [source for source in find_generators(with_shared(lasting)) if source.path not in self._excluded]
        self._found.update({id(source.generator): source.generator for source in others})
        if self._unfrozen and self._unfrozen.path.startswith("stream"):  # another path may lead to it too
            for generator in found_at(self._unfrozen.path, roots):
                self._found.pop(id(generator), None)


def _is_created() -> bool:
    """Whether a generator was created since the last `gc.freeze`. The collector does not list a `torch.Generator`."""
    return any(kind_of(created) for created in gc.get_objects())


def _seed_at(path: str, seed: int | None, roots: Mapping[str, Any]) -> None:
    if seed is None:
        return
    for library in unreadable():
        if path == f"global {library}":
            reseed(library, seed)
    for generator in found_at(path, roots):
        _seed_if_possible(generator, seed)


def _seed_if_possible(generator: Any, seed: int) -> None:
    # A generator that cannot be seeded varies: then its leaves count as uncontrolled.
    with contextlib.suppress(Exception):
        seed_generator(generator, seed)


def seed_generator(generator: Any, seed: int) -> None:
    """Seed any generator that `find_generators` finds."""
    if isinstance(generator, torch.Generator):
        generator.manual_seed(seed)
    elif isinstance(generator, random.Random):
        random.Random.seed(generator, seed)
    elif isinstance(generator, np.random.RandomState):
        generator.seed(seed)
    else:
        bits = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
        bits.state = type(bits)(seed).state


@dataclass(frozen=True, slots=True)
class SeededFetches(Instrument):
    """Seeds the global generators before each fetch of an epoch, and restores their states after it.

    A fetch whose seed is None, or that has no entry in `seeds`, is not changed.
    """

    seeds: Sequence[int | None]

    def around_fetch(self, fetch: Fetch) -> contextlib.AbstractContextManager[None]:
        """Seed for this fetch."""
        seed = self.seeds[fetch.number] if fetch.number < len(self.seeds) else None
        return contextlib.nullcontext() if seed is None else seeded(seed)


@dataclass(frozen=True, slots=True)
class SeededSamples(Instrument):
    """Seeds the global generators with one `seed` before each sample, and restores their states after it."""

    seed: int

    def around_sample(self) -> contextlib.AbstractContextManager[None]:
        """Seed for this sample."""
        return seeded(self.seed)


@dataclass(frozen=True, slots=True)
class AdvancedRng(Instrument):
    """Advances the generator at a `path` before the second fetch of an epoch.

    `only` is the worker and epoch in which to do so, by default all of them; the main process counts as worker 0.
    """

    path: str
    only: tuple[int, int] | None = None

    def start(self, process: Process) -> Hooks:
        """Remember the worker."""
        return _AdvancedRng(self, process.worker or 0)


class _AdvancedRng(Hooks):
    def __init__(self, asked: AdvancedRng, worker: int) -> None:
        self._asked = asked
        self._worker = worker

    def around_fetch(self, fetch: Fetch) -> contextlib.AbstractContextManager[None]:
        """Advance the generator before the second fetch."""
        if fetch.number == 1 and self._asked.only in (None, (self._worker, fetch.epoch)):
            advance(self._asked.path, fetch.roots)
        return contextlib.nullcontext()


@dataclass(frozen=True, slots=True)
class SeededLibraries(Instrument):
    """Seeds the generators of these libraries when a worker starts, differently in each worker and epoch."""

    libraries: tuple[str, ...]

    def start(self, process: Process) -> Hooks:
        """Remember the worker and the epoch in which it starts."""
        return _SeededLibraries(self.libraries, process)


class _SeededLibraries(Hooks):
    def __init__(self, libraries: tuple[str, ...], process: Process) -> None:
        self._libraries = libraries
        self._process = process

    def begin(self) -> None:
        """Seed the libraries, after the user's `worker_init_fn`."""
        worker = -1 if self._process.worker is None else self._process.worker
        for library in self._libraries:
            # A prime above any number of epochs: no two of a worker and an epoch have the same seed.
            reseed(library, 1_000_003 * (worker + 1) + self._process.epoch)


_DRAWING_FUNCTIONS = frozenset(
    {"rand", "randn", "randint", "randperm", "random", "getrandbits", "uniform", "normal", "bernoulli", "multinomial"}
    | {"uniform_", "normal_", "bernoulli_", "random_", "exponential_"}
)
"""The functions that finally draw, all of them written in C."""


@contextlib.contextmanager
def drawing() -> Iterator[set[tuple[str, str]]]:
    """Collect the packages whose own code draws in this thread, each with the owner of the generator."""
    drawers: set[tuple[str, str]] = set()

    def profile(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and getattr(called, "__name__", "") in _DRAWING_FUNCTIONS:
            package = package_at(frame)
            if package:
                drawers.add((package, _owner(called)))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield drawers
    finally:
        sys.setprofile(before)


@contextlib.contextmanager
def draws_ignored() -> Iterator[None]:
    """Make `drawing` ignore draws inside this block."""
    before = sys.getprofile()
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(before)


def depending(drawn: Collection[tuple[str, str]], kinds: Collection[str]) -> tuple[str, ...]:
    """The packages that drew and whose draws depend on seeds of these kinds."""
    owners = {owner for kind in kinds for owner in OWNERS_SEEDED_BY.get(kind, ())}
    return tuple(sorted({package for package, owner in drawn if owner in owners}))


OWNERS_SEEDED_BY = {
    "random.seed": ("random",),
    "random.setstate": ("random",),
    "numpy.random.seed": ("numpy", "random"),  # draws of numpy are invisible to a profiler; most code draws from both
    "numpy.random.set_state": ("numpy", "random"),
    "torch.manual_seed": ("torch",),
    "torch.set_rng_state": ("torch",),
}
"""The modules whose draws depend on each function that seeds a global generator.

Libraries do not use the generators that the user's code creates.
"""


def package_at(frame: FrameType | None) -> str | None:
    """The package whose code runs in this frame, skipping Python, numpy, torch and dataguard, which draw for a caller.

    None for the user's own code.
    """
    while frame is not None:
        file = frame.f_code.co_filename
        installed = _PACKAGE.search(file)
        if installed is None and not is_library(file):
            return None
        if installed and installed[1] not in _ON_BEHALF:
            return installed[1]
        frame = frame.f_back
    return None


_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\](\w+)")
_ON_BEHALF = ("torch", "numpy", "dataguard")
"""Packages that draw or seed on behalf of their caller."""


def _owner(called: Any) -> str:
    """The module whose generator a function draws from: random, numpy or torch."""
    owner = getattr(called, "__self__", None)
    module = (
        owner.__name__
        if isinstance(owner, ModuleType)
        else (owner if isinstance(owner, type) else type(owner)).__module__
    )
    top = module.partition(".")[0]
    return "torch" if top == "builtins" else top  # torch's own functions belong to no module
