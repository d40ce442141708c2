"""Batches of the most different samples of an epoch, down to the smallest that collate_fn refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from dataguard.incident import Incident
from dataguard.lab.batches.collate_inputs import LARGEST, CollateInputs, Refused
from dataguard.lab.batches.shrinking import ExampleSearch
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import LeafRecord, SampleRecord
from dataguard.lab.process.exceptions import incident_of
from dataguard.targets.variants import Loader

MOST_KINDS = 10
"""How many kinds of sample are combined: 90 ordered pairs, because default_collate depends on their order."""
EXAMPLES = 60
"""How many larger batches are tried if all pairs succeed."""


@dataclass(frozen=True, slots=True)
class Clash:
    """Samples that collate_fn refuses together, although it accepts some of them alone."""

    indices: tuple[Index, ...]
    samples: tuple[tuple[LeafRecord, ...], ...]
    incident: Incident


@dataclass(frozen=True, slots=True)
class MixedPair:
    """Two samples that collate_fn accepted in this order, and the leaves of their batch."""

    indices: tuple[Index, ...]
    leaves: tuple[LeafRecord, ...]


@dataclass(frozen=True, slots=True)
class MixedBatches:
    """The first clash, how many `batches` of how many `kinds` of sample were tried, and the reads.

    `pairs` are the batches of two samples of different kinds.
    """

    clash: Clash | None
    batches: int
    kinds: int
    reads: int
    pairs: tuple[MixedPair, ...] = ()


def kinds_of(samples: Sequence[SampleRecord]) -> tuple[Index, ...]:
    """The index of one sample of each structure; those that differ in more than shape come first."""
    forms: dict[object, Index] = {}
    kinds: dict[object, Index] = {}
    for sample in samples:
        if sample.index is not None:
            forms.setdefault(sample.form, sample.index)
            kinds.setdefault(sample.structure, sample.index)
    return tuple(dict.fromkeys([*forms.values(), *kinds.values()]))[:MOST_KINDS]


def run_mixed_batches(
    build: Callable[..., Loader],
    folder: Path,
    kinds: Sequence[Index],
    size: int,
    search: ExampleSearch,
    *,
    single: bool,
) -> MixedBatches:
    """Collate the kinds in batches of two, and of up to `size`; of one if a batch may be `single`."""
    inputs = CollateInputs(build(), folder, kinds, frozen=False)
    inputs.fill(len(kinds))
    trials = _Trials(inputs, size, search)
    found = trials.smallest(single=single)
    clash = None if found is None else trials.clash(found)
    pairs = (MixedPair(tuple(kinds[place] for place in two), leaves) for two, leaves in trials.pairs.items())
    return MixedBatches(clash, len(trials.outcomes), len(kinds), inputs.reads, tuple(pairs))


class _Trials:
    """Calls of collate_fn on samples by position, each made once."""

    def __init__(self, inputs: CollateInputs, size: int, search: ExampleSearch) -> None:
        self.inputs = inputs
        self.search = search
        self.outcomes: dict[tuple[int, ...], BaseException | None] = {}
        self.pairs: dict[tuple[int, ...], tuple[LeafRecord, ...]] = {}
        self.places = range(len(inputs.samples))
        self.size = size
        self.filled = not any(self.takes((place, place)) for place in self.places) and 2 < size <= LARGEST
        """Whether only full batches are accepted: the first sample of a trial then fills them up."""
        self.good = {place for place in self.places if self.takes((place,)) or self.takes((place, place))}

    def takes(self, positions: Sequence[int]) -> bool:
        """Whether collate_fn accepts these samples."""
        return self.outcome(tuple(positions)) is None

    def outcome(self, positions: tuple[int, ...]) -> BaseException | None:
        """What collate_fn raises for these samples, if anything."""
        if positions not in self.outcomes:
            try:
                batch = self.inputs.collate(positions)
                self.outcomes[positions] = None
                if len(set(positions)) == len(positions) == 2:
                    self.pairs[positions] = leaves_of(batch)
            except Refused as refused:
                self.outcomes[positions] = refused.__cause__
        return self.outcomes[positions]

    def smallest(self, *, single: bool) -> tuple[int, ...] | None:
        """The smallest refused batch in which some samples are accepted alone."""
        alone_only = (
            place for place in self.places if single and self.takes((place, place)) and not self.takes((place,))
        )
        alone = next(alone_only, None)
        if alone is not None:
            return (alone,)
        pairs = (pair for pair in permutations(self.places, 2) if self.refuses(pair))
        return next(pairs, None) or (self._larger() if self.size > 2 else None)

    def refuses(self, positions: Sequence[int]) -> bool:
        """Whether these samples clash; no evidence if none is accepted alone, as when all are filtered out."""
        if self.filled:
            whole = (*[positions[0]] * (self.size - len(positions)), *positions)
            return self.takes([positions[0]] * self.size) and not self.takes(whole)
        return not self.good.isdisjoint(positions) and not self.takes(positions)

    def _larger(self) -> tuple[int, ...] | None:
        """Search for larger batches with hypothesis, which shrinks them."""
        from hypothesis import strategies as st  # slow to import, and rarely needed

        batches = st.lists(st.sampled_from(self.places), min_size=3, max_size=min(self.size, LARGEST))
        found = self.search.smallest(batches, self.refuses, examples=EXAMPLES, subject="batches")
        return None if found is None else tuple(found)

    def clash(self, positions: tuple[int, ...]) -> Clash:
        """A refused batch with its samples."""
        whole = (*[positions[0]] * (self.size - len(positions)), *positions) if self.filled else positions
        error = self.outcome(whole)
        assert error is not None
        indices = [self.inputs.indices[place] for place in whole]
        samples = tuple(leaves_of(self.inputs.samples[place]) for place in whole)
        return Clash(tuple(indices), samples, incident_of(error, "collate", None, indices))
