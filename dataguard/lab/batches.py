"""Trials of collate_fn: the most different samples that were really seen, put into one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path

from dataguard.lab.drive import drive
from dataguard.lab.facts import LoaderFacts
from dataguard.lab.passes import EpochTrace
from dataguard.lab.plan import Plan
from dataguard.lab.records import BatchRecord, Index, read_spools
from dataguard.lab.schedules import Trials
from dataguard.lab.trials import Vary
from dataguard.model import NotApplicable
from dataguard.variants import Loader

MOST_KINDS = 10
"""How many kinds of sample are paired at most: 90 ordered pairs, for default_collate minds which dtype comes first."""


@dataclass(frozen=True, slots=True)
class CollateTrials:
    """The outcome of every pair of samples that differ in structure, and how many structures there are."""

    pairs: tuple[BatchRecord, ...]
    kinds: int


def observe(facts: LoaderFacts, build: Callable[..., Loader], vary: Vary, epoch: EpochTrace) -> CollateTrials:
    """Try collate_fn. However workers start, they collate alike, and a forked one is there at once."""
    trials = choose_trials(epoch)
    forked = partial(build, multiprocessing_context="fork") if facts.spawns else build
    found: CollateTrials = vary(
        "collating",
        lambda folder: run_trials(forked, folder, trials, min(facts.num_workers, 1)),
        lambda folder, _: read_trials(folder, trials),
    )
    return found


def run_trials(
    build: Callable[..., Loader], folder: Path, trials: Sequence[tuple[Index, Index]], num_workers: int
) -> None:
    """Collate every trial, in a worker when the loader has workers: dtypes mix in one process and clash in another."""
    loader = build(num_workers=num_workers, schedule=lambda inner, batched: Trials(inner, trials))
    drive(loader, Plan(folder, keep_going=True))


def choose_trials(epoch: EpochTrace) -> list[tuple[Index, Index]]:
    """Pairs of samples of each two structures seen, in both orders."""
    forms: dict[object, Index] = {}
    kinds: dict[object, Index] = {}
    for sample in epoch.samples:
        if sample.index is not None:
            forms.setdefault(sample.form, sample.index)
            kinds.setdefault(sample.structure, sample.index)
    if not kinds:
        raise NotApplicable("the sampler's indices are not numbers, strings or tuples that could be asked for again")
    different = dict.fromkeys([*forms.values(), *kinds.values()])  # in more than their shapes, first of all
    return list(permutations(list(different)[:MOST_KINDS], 2))


def read_trials(folder: Path, trials: Sequence[tuple[Index, Index]]) -> CollateTrials:
    """Collect the outcomes; trials that the budget cut off are missing."""
    outcomes = tuple(record for record in read_spools(folder) if isinstance(record, BatchRecord))
    return CollateTrials(outcomes, len({index for pair in trials for index in pair}) or 1)
