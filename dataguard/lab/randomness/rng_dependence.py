"""Which outputs depend on one generator.

It draws freely from its own seed, while all other RNGs are frozen. Each reading is made twice with the same seed for
that generator, and once with another. Leaves that differ between the first two are uncontrolled: they depend on
something that cannot be frozen. Leaves that differ only under the other seed depend on the generator. Two workers read
a map-style dataset, which shows whether a leaf also depends on the worker id; one process reads a stream, because
workers would read different samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dataguard.lab.core.records import Census
from dataguard.lab.randomness.worker_draws import batch_size, one_by_one
from dataguard.lab.reading.experiment import FORKED, Conditions, Experiment, Readings, Script, Series, perform
from dataguard.lab.rng.frozen_rng import FrozenRngs, UnfrozenRng
from dataguard.lab.rng.rng_discovery import SEED, RngCensus
from dataguard.lab.subject import Subject

WORKERS = 2
"""Workers, the fewest that can differ."""
TWO_FORKED: Conditions = (*FORKED, ("num_workers", WORKERS))
FROZEN_ITEMS, FROZEN_ROUNDS = 8, 8
"""Items that are read with all other RNGs frozen, and how often after the generator was seeded again.

What a generator changes in one read of sixteen shows in 64 reads with a probability of 98 %; more take longer.
"""
RESEEDED = 1 + FROZEN_ITEMS
"""The fetch before which the generator is seeded: by then caches are filled, and generators exist."""
ORDER = (0, *(tuple(range(1, RESEEDED)) * (1 + FROZEN_ROUNDS)))
SEEDS = tuple(SEED + fetch for fetch in range(len(ORDER)))
ONE, OTHER = SEED - 1, SEED - 2
"""Seeds of the generator; no other RNG gets them."""

ITEM_EPOCHS = (
    ((0, ONE), (RESEEDED, ONE)),
    ((0, ONE), (RESEEDED, ONE)),
    ((0, ONE), (RESEEDED, OTHER)),
    ((0, OTHER), (RESEEDED, ONE), (len(ORDER) - 1, ONE)),
)
"""The epochs: two equal ones, one with another seed, and one with another first seed, seeded again at its end."""

START_FETCHES = 8
"""Fetches of each epoch, where only the start of a stream is read."""
START_EPOCHS = (((0, ONE),), ((0, ONE),), ((0, OTHER), (START_FETCHES - 1, ONE)))
"""The epochs: two equal ones, and one with another first seed, seeded again at its end."""
FROZEN_FETCHES = 256
"""Fetches of a stream that are each frozen with a different seed."""

States = Mapping[tuple[int, int, int], bytes]
"""The states of one generator by worker, epoch and number of fetches."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """`leaves` depend on the generator, `uncontrolled` ones on something that cannot be frozen.

    `keeps_state`: the first fetch does not seed the generator: it draws from the earlier state, or does not use it.
    `is_used`: later fetches draw from the generator.
    """

    leaves: tuple[str, ...]
    uncontrolled: tuple[str, ...]
    keeps_state: bool
    is_used: bool


@dataclass(frozen=True, slots=True)
class StreamDependence:
    """`changed`: the leaves that change with the generator, each with its share of new values.

    `reordered`: the order of a leaf that identifies samples changes, or there is no such leaf.
    """

    changed: dict[str, float]
    uncontrolled: tuple[str, ...]
    reordered: bool
    ended: bool


class RngDependence:
    """Which outputs depend on each generator of one loader; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def of_items(self, path: str) -> Dependence:
        """What depends on the generator at a path, in a map-style dataset."""
        script = Script(((ORDER,) * WORKERS,) * len(ITEM_EPOCHS), batch_size(self._subject.facts))
        instruments = RngCensus((1, len(ORDER))), FrozenRngs((SEEDS,), UnfrozenRng(path, ITEM_EPOCHS))
        readings = perform(self._subject, Experiment(script, instruments, TWO_FORKED))
        return _dependence(readings, _states(readings, path))

    def at_start(self, path: str) -> tuple[bool, bool]:
        """Whether a generator `keeps_state` and `is_used`, as in `Dependence`, where a stream begins."""
        instruments = RngCensus((1, START_FETCHES)), FrozenRngs((SEEDS,), UnfrozenRng(path, START_EPOCHS))
        changed, batches = (
            (*one_by_one(self._subject.facts), *TWO_FORKED),
            (START_FETCHES * WORKERS,) * len(START_EPOCHS),
        )
        experiment = Experiment(None, instruments, changed, batches, announced="never")
        states = _states(perform(self._subject, experiment), path)
        is_used = states.get((0, 0, START_FETCHES)) != states.get((0, 2, START_FETCHES))
        return _keeps_state(states, same=(0, 1), other=2), is_used

    def of_stream(self, path: str, *, varied: bool) -> StreamDependence:
        """What depends on the generator at a path, in a stream.

        Without `varied`, all fetches are frozen with the same seed.
        """
        subject = self._subject
        seeds = tuple(SEED + fetch for fetch in range(FROZEN_FETCHES)) if varied else (SEED,)

        def read(seed: int, repeat: int) -> Readings:
            experiment = Experiment(
                None,
                (FrozenRngs((seeds,), UnfrozenRng(path, (((0, ONE), (1, seed)),))),),
                (("num_workers", 0), *one_by_one(subject.facts)),
                (subject.settings.samples,),
                announced="never",
                seconds=0.05 * subject.settings.budget,
                repeat=repeat,
            )
            return perform(subject, experiment)

        return _stream_dependence(read(ONE, 0), read(ONE, 1), read(OTHER, 0))


def _dependence(readings: Readings, states: States) -> Dependence:
    late = {
        path: {worker_epoch: series[RESEEDED:] for worker_epoch, series in by.items()}
        for path, by in readings.leaves.items()
    }
    ends = {states.get((0, epoch, len(ORDER))) for epoch in (0, 2, 3)}
    return Dependence(
        leaves=tuple(path for path, by in late.items() if _depends(by)),
        uncontrolled=tuple(path for path, by in late.items() if by.get((0, 0)) != by.get((0, 1))),
        keeps_state=_keeps_state(states, same=(0, 1, 2), other=3),
        is_used=len(ends) == 3,
    )


def _depends(by: Mapping[tuple[int, int], Series]) -> bool:
    """Whether a leaf changes with the generator alone: it is equal in two workers."""
    first, again, reseeded, other_worker = (
        by.get(worker_epoch, ()) for worker_epoch in ((0, 0), (0, 1), (0, 2), (1, 0))
    )
    return first == again == other_worker != reseeded


def _states(readings: Readings, path: str) -> States:
    return {
        (*census.where, census.fetches): census.states[path].state
        for census in readings.noted(Census)
        if path in census.states
    }


def _keeps_state(states: States, same: Sequence[int], other: int) -> bool:
    """Whether states after the first fetch follow from those before it, which are equal in all epochs except `other`.

    They may differ, because the number of draws may vary; but if each is new, the fetch seeds the generator.
    Workers may outlive their first epoch, and seed it only then.
    """
    after = {epoch: [states.get((worker, epoch, 1)) for worker in range(WORKERS)] for epoch in (*same, other)}
    expected = [state for epoch in same for state in after[epoch]]
    follows = any(expected.count(state) > 1 for state in after[same[0]] if state is not None)
    return follows and not set(expected) & set(after[other])


def _stream_dependence(as_is: Readings, repeated: Readings, reseeded: Readings) -> StreamDependence:
    """Compare two equal runs with one in which the generator gets another seed."""
    first, again, changed = as_is.joined(), repeated.joined(), reseeded.joined()
    uncontrolled = tuple(path for path, series in first.items() if not _agree(series, again.get(path, ())))
    stable = {path: series for path, series in first.items() if path not in uncontrolled}
    kept = [path for path, series in stable.items() if _agree(series, changed.get(path, ()))]
    return StreamDependence(
        changed={path: _new(series, changed.get(path, ())) for path, series in stable.items() if path not in kept},
        uncontrolled=uncontrolled,
        reordered=not any(len(set(first[path])) > len(first[path]) / 2 for path in kept),
        ended=as_is.ended and reseeded.ended,
    )


def _new(series: Series, other: Series) -> float:
    """The share of values in the other run that this series does not have."""
    values = set(series)
    return sum(value not in values for value in other) / max(len(other), 1)


def _agree(series: Series, other: Series) -> bool:
    """Whether a leaf is equal in two runs, up to the end of the shorter one."""
    length = min(len(series), len(other))
    return length > 0 and series[:length] == other[:length]
