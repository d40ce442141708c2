"""Trials of collate_fn: the most different samples that were really seen, put into one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from dataguard.lab.drive import drive
from dataguard.lab.passes import EpochTrace
from dataguard.lab.records import BatchRecord, Index, read_spools
from dataguard.lab.schedules import Trials
from dataguard.lab.spy import Plan
from dataguard.model import NotApplicable
from dataguard.variants import Loader

MOST_KINDS = 12
"""How many kinds of sample are paired with each other at most: 66 pairs."""


@dataclass(frozen=True, slots=True)
class CollateTrials:
    """The outcome of every trial. `alone` are samples paired with themselves, `pairs` those of different structure."""

    alone: tuple[BatchRecord, ...]
    pairs: tuple[BatchRecord, ...]
    kinds: int


def choose_trials(epoch: EpochTrace) -> tuple[tuple[Index, Index], ...]:
    """One sample of each structure seen, with itself first and then with every other one."""
    kinds: dict[object, Index] = {}
    for sample in epoch.samples:
        if sample.index is not None:
            kinds.setdefault(sample.structure, sample.index)
    chosen = list(kinds.values())[:MOST_KINDS]
    if not chosen:
        raise NotApplicable("the sampler's indices are not numbers, strings or tuples that could be asked for again")
    return (*((index, index) for index in chosen), *combinations(chosen, 2))


def run_trials(
    build: Callable[..., Loader], folder: Path, trials: Sequence[tuple[Index, Index]], num_workers: int
) -> None:
    """Collate every trial, in a worker when the loader has workers: dtypes mix in one process and clash in another."""
    loader = build(num_workers=num_workers, schedule=lambda inner, batched: Trials(inner, trials))
    drive(loader, Plan(folder, keep_going=True))


def read_trials(folder: Path, trials: Sequence[tuple[Index, Index]]) -> CollateTrials:
    """Sort the outcomes; trials that the budget cut off are missing."""
    outcomes = [record for record in read_spools(folder) if isinstance(record, BatchRecord)]
    alone = tuple(record for record in outcomes if len(set(record.indices)) == 1)
    pairs = tuple(record for record in outcomes if len(set(record.indices)) > 1)
    return CollateTrials(alone, pairs, sum(first == second for first, second in trials))
