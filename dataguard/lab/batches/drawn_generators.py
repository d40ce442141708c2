"""Random numbers that reading samples, or collating them, draws: from which generators, and into which leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dataguard.lab.batches.collate_inputs import Handful, Refused
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import GeneratorState
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.rng_discovery import generator_states
from dataguard.model import Undecided
from dataguard.target.variants import Loader

READS = 8
"""Samples that are read to see which generators move; an augmentation may not act on each."""


def find_drawing(loader: Loader, folder: Path, indices: Sequence[Index]) -> tuple[GeneratorState, ...]:
    """The generators that are in another state after some samples were read, as they were before."""
    reader = Reader(loader, folder)
    reader.read(indices[0])  # what is made late is there afterwards
    roots = {"dataset": loader.dataset}
    before = {state.path: state for _, state in generator_states(roots)}
    for index in indices:
        reader.read_as_is(index)
    after = [state for _, state in generator_states(roots)]
    return tuple(state for state in after if state.path in before and before[state.path].state != state.state)


def find_blended(loader: Loader, folder: Path, indices: Sequence[Index]) -> tuple[str, ...]:
    """The leaves of a batch that hang on random numbers which collate_fn draws: the samples stay the same."""
    handful = Handful(loader, folder, indices)
    handful.fill(len(handful.indices))
    order = range(len(handful.samples))
    try:
        one, again, other = (leaves_of(handful.collate(order, seed)) for seed in (0, 0, 1))
    except Refused as refused:
        raise Undecided(f"collate_fn accepts a whole batch, but no part of it: {refused.__cause__}") from refused
    steady = {leaf.path: leaf.digest for leaf in one if leaf in again}
    return tuple(leaf.path for leaf in other if steady.get(leaf.path, leaf.digest) != leaf.digest)
