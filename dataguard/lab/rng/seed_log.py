"""Writes down which seeds are given while samples are read, fetch by fetch, or until the first batch is there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dataguard.lab.core.records import Seedings, Spool
from dataguard.lab.rng.drawing_libraries import drawing, steerable
from dataguard.lab.rng.rng_discovery import find_generators
from dataguard.lab.rng.seed_watch import Given, SeedWatch


class SeedNotes:
    """Spools which seeds are given during the first fetches of each epoch of a process.

    `burns` tells, for each fetch, how many numbers a generator skips right after it was seeded: with a constant, or
    `always`. In the latter case it is noted, too, which libraries draw what hangs on those seeds.
    """

    def __init__(self, burns: Sequence[int], spool: Spool, worker: int | None, *, always: bool) -> None:
        self._burns = burns
        self._spool = spool
        self._worker = worker
        self._drawing = drawing if always else lambda: contextlib.nullcontext(set[tuple[str, str]]())
        self._watch = SeedWatch(always=always)

    @contextlib.contextmanager
    def taken(self, epoch: int, fetch: int, roots: Mapping[str, Any]) -> Iterator[None]:
        """Take note of what is seeded inside."""
        if fetch >= len(self._burns):
            yield
            return
        if not fetch:
            self._watch.adopt(roots)
        with self._drawing() as drawn, self._watch.watching(self._burns[fetch]) as given:
            yield
        seeds = tuple(seeding for _, seeding in given)
        libraries = steerable(drawn, {seeding.kind for seeding in seeds})
        self._spool.write(Seedings(self._worker, epoch, fetch, seeds, libraries))


class FirstSeeds:
    """Spools which seeds a worker gives until its first batch is there, with the path of each generator."""

    def __init__(self, spool: Spool, worker: int | None) -> None:
        self._spool = spool
        self._worker = worker
        self._watch = SeedWatch()
        self._given: dict[int, Given] = {}

    @contextlib.contextmanager
    def noted(self, roots: Mapping[str, Any]) -> Iterator[None]:
        """Take note of what is seeded inside."""
        self._watch.adopt(roots)
        with self._watch.watching(0) as given:
            yield
        self._given.update({id(generator): (generator, seeding) for generator, seeding in given})

    @contextlib.contextmanager
    def taken(self, epoch: int, fetch: int, roots: Mapping[str, Any]) -> Iterator[None]:
        """Take note of the first fetch, and spool what was noted by then."""
        if fetch:
            yield
            return
        with self.noted(roots):
            yield
        paths = {id(source.generator): source.path for source in find_generators(roots)}
        named = (
            # A generator that the whole process shares is known by the module that seeds it.
            replace(seeding, path=paths.get(number, f"global {seeding.kind.rpartition('.')[0]}"))
            for number, (generator, seeding) in self._given.items()
            if number in paths or isinstance(generator, str)
        )
        self._spool.write(Seedings(self._worker, epoch, fetch, tuple(named)))
        self._given = {}
