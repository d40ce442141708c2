"""Generators with the same state in two workers, or in two epochs of one worker, that are drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dataguard.lab.core.records import Census, GeneratorState, WorkerEpoch

Pair = tuple[WorkerEpoch, WorkerEpoch]


def cloned_generators(censuses: Iterable[Census], pair: Pair) -> list[GeneratorState]:
    """The generators with equal states after the same number of fetches that advance later.

    States are compared after the first fetch, when generators that are correctly created in the worker exist; if none
    are equal (the first fetch may draw a different number of times), before it.
    """
    one, two = pair
    table = {(census.where, census.fetches): {state.path: state for state in census.generators} for census in censuses}
    last = max((fetches for _, fetches in table), default=0)
    for fetches in (1, 0):
        first, second, end = table.get((one, fetches), {}), table.get((two, fetches), {}), table.get((one, last), {})
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
    states: dict[WorkerEpoch, dict[str, dict[int, bytes]]] = {}
    named: dict[str, GeneratorState] = {}
    for census in censuses:
        named |= census.states
        for path, state in census.states.items():
            states.setdefault(census.where, {}).setdefault(path, {})[census.fetches] = state.state
    (one, two), (first, second) = pair, (states.get(where, {}) for where in pair)
    for path in (path for path in first if path in second):
        start, later = _advancing(first[path], continues=one.worker == two.worker)
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
