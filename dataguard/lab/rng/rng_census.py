"""The states of the random generators in a process, from fetch to fetch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dataguard.lab.core.records import Census, GeneratorState, Spool
from dataguard.lab.rng.rng_discovery import Source, generator_states, probed_states, unreadable

FOLLOWED = 8
"""Fetches of an epoch after which generators that are known are read again; to look for others takes far longer."""


class Censuses:
    """Looks for generators after the fetches in `moments`, and reads those that it knows in between."""

    def __init__(self, spool: Spool, worker: int | None, moments: Sequence[int]) -> None:
        self._spool = spool
        self._worker = worker
        self._moments = frozenset(moments)
        self._known: list[tuple[Source, GeneratorState]] = []

    def take(self, epoch: int, fetches: int, roots: Mapping[str, Any]) -> None:
        """Spool the states after so many fetches, if they are wanted."""
        if fetches in self._moments:
            self._known = generator_states(roots)
            states = tuple(state for _, state in self._known)
            self._spool.write(Census(self._worker, epoch, fetches, states, unreadable(), tuple(probed_states())))
        elif self._moments and 0 < fetches <= FOLLOWED:
            states = tuple(replace(state, state=source.state()) for source, state in self._known)
            self._spool.write(Census(self._worker, epoch, fetches, states, ()))
