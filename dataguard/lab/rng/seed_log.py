"""Records which seeds generators get while samples are read: in each fetch, or up to the first batch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch.utils.data import get_worker_info

from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.records import Seedings
from dataguard.lab.rng.drawing_libraries import depending, drawing
from dataguard.lab.rng.rng_discovery import find_generators
from dataguard.lab.rng.seed_watch import Given, SeedWatch


@dataclass(frozen=True, slots=True)
class SeedLog(Instrument):
    """Records which seeds generators get during the first fetches of each epoch.

    `skips` holds, for each fetch, how many numbers a generator skips right after it was seeded with a constant. With
    `always` it skips after any seed, and the libraries whose draws depend on those seeds are recorded as well.
    """

    skips: Sequence[int]
    always: bool = False

    def start(self, process: Process) -> Hooks:
        """Each process has its own log."""
        return _SeedLog(self, process)


class _SeedLog(Hooks):
    def __init__(self, asked: SeedLog, process: Process) -> None:
        self._skips, self._always = asked.skips, asked.always
        self._process = process
        self._drawing = drawing if asked.always else lambda: contextlib.nullcontext(set[tuple[str, str]]())
        self._watch: SeedWatch | None = None

    def begin(self) -> None:
        """Watch all seeding functions in this process."""
        self._watch = SeedWatch(always=self._always)

    @contextlib.contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        """Record what is seeded in a fetch."""
        if self._watch is None or fetch.number >= len(self._skips):
            yield
            return
        if fetch.number == 0:
            self._watch.adopt(fetch.roots)
        with self._drawing() as drawn, self._watch.watching(self._skips[fetch.number]) as given:
            yield
        seeds = tuple(seeding for _, seeding in given)
        libraries = depending(drawn, {seeding.kind for seeding in seeds})
        self._process.spool.write(Seedings(self._process.worker, fetch.epoch, fetch.number, seeds, libraries))


@dataclass(frozen=True, slots=True)
class FirstSeeds(Instrument):
    """Records which seeds generators get in a worker up to its first batch, with the path of each generator."""

    def start(self, process: Process) -> Hooks:
        """Each worker has its own log."""
        return _FirstSeeds(process)


class _FirstSeeds(Hooks):
    def __init__(self, process: Process) -> None:
        self._process = process
        self._watch: SeedWatch | None = None
        self._given: dict[int, Given] = {}

    @contextlib.contextmanager
    def around_init(self) -> Iterator[None]:
        """Record what is seeded by the user's `worker_init_fn`."""
        self._watch = SeedWatch()
        with self._recording(self._watch, {"worker": get_worker_info()}):
            yield

    @contextlib.contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        """Record what is seeded in the first fetch, and spool what was recorded by then."""
        if self._watch is None or fetch.number:
            yield
            return
        with self._recording(self._watch, fetch.roots):
            yield
        paths = {id(source.generator): source.path for source in find_generators(fetch.roots)}
        named = (
            # A global generator is named after the module that seeds it.
            replace(seeding, path=paths.get(number, f"global {seeding.kind.rpartition('.')[0]}"))
            for number, (generator, seeding) in self._given.items()
            if number in paths or isinstance(generator, str)
        )
        self._process.spool.write(Seedings(self._process.worker, fetch.epoch, fetch.number, tuple(named)))
        self._given = {}

    @contextlib.contextmanager
    def _recording(self, watch: SeedWatch, roots: Mapping[str, Any]) -> Iterator[None]:
        watch.adopt(roots)
        with watch.watching(0) as given:
            yield
        self._given.update({id(generator): (generator, seeding) for generator, seeding in given})
