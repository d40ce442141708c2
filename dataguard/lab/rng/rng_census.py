"""The states of the random generators in a process, from fetch to fetch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.records import Census, GeneratorState
from dataguard.lab.rng.rng_discovery import Source, generator_states, probed_states, unreadable

FOLLOWED = 8
"""After each of so many first fetches of an epoch, known generators are read; a new search would take far longer."""


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
        elif 0 < fetches <= FOLLOWED:
            states = tuple(replace(state, state=source.state()) for source, state in self._known)
            spool.write(Census(worker, epoch, fetches, states, ()))
