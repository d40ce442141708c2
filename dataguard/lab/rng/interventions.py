"""Instruments that seed the global random generators, advance a single one, or seed those of libraries."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.rng.global_rng import seeded
from dataguard.lab.rng.rng_discovery import advance, reseed


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
            reseed(library, 1_000_003 * (worker + 1) + self._process.epoch)
