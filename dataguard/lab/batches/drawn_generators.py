"""Random numbers drawn by reading or collating samples: from which generators, and into which leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dataguard.lab.batches.collate_inputs import CollateInputs, Refused
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import GeneratorState
from dataguard.lab.labels.token_masking import masked_tokens
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.rng_discovery import generator_states
from dataguard.model import Undecided
from dataguard.targets.variants import Loader

READS = 8
"""Samples that are read to see which generators advance; an augmentation may not apply to each."""


def find_drawn_generators(loader: Loader, folder: Path, indices: Sequence[Index]) -> tuple[GeneratorState, ...]:
    """The generators whose state changed after reading some samples, in their earlier state."""
    reader = Reader(loader, folder)
    reader.read(indices[0])  # creates generators that are made lazily
    roots = {"dataset": loader.dataset}
    before = {state.path: state for _, state in generator_states(roots)}
    for index in indices:
        reader.read_as_is(index)
    after = [state for _, state in generator_states(roots)]
    return tuple(state for state in after if state.path in before and before[state.path].state != state.state)


def find_masked_tokens(loader: Loader, folder: Path, indices: Sequence[Index]) -> tuple[frozenset[str], ...]:
    """For each sample, the leaves that differ between two random states only in which tokens are masked."""
    reader = Reader(loader, folder)
    return tuple(masked_tokens(reader.read(index, 0), reader.read(index, 1)) for index in indices)


@dataclass(frozen=True, slots=True)
class RandomLeaves:
    """The leaves of a batch that depend on the RNG inside collate_fn, for unchanged samples.

    Those that differ only in which tokens are `masked` are listed apart from all `others`.
    """

    others: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()


def find_random_leaves(loader: Loader, folder: Path, indices: Sequence[Index]) -> RandomLeaves:
    """Collate the same samples under equal and different random states."""
    inputs = CollateInputs(loader, folder, indices)
    inputs.fill(len(inputs.indices))
    order = range(len(inputs.samples))
    try:
        batches = [inputs.collate(order, seed) for seed in (0, 0, 1)]
    except Refused as refused:
        raise Undecided(f"collate_fn accepts a whole batch, but no part of it: {refused.__cause__}") from refused
    one, again, other = map(leaves_of, batches)
    masked = masked_tokens(batches[0], batches[2])
    steady = {leaf.path: leaf.digest for leaf in one if leaf in again}
    found = [leaf.path for leaf in other if steady.get(leaf.path, leaf.digest) != leaf.digest]
    return RandomLeaves(
        tuple(path for path in found if path not in masked), tuple(path for path in found if path in masked)
    )
