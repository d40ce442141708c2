"""Batches made up of the most different samples that were really seen, down to the smallest that collate_fn refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from dataguard.incident import Incident
from dataguard.lab.batches.collate_inputs import LARGEST, Handful, Refused
from dataguard.lab.batches.shrinking import Drawing
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import LeafRecord, SampleRecord
from dataguard.lab.process.exceptions import incident_of
from dataguard.target.variants import Loader

MOST_KINDS = 10
"""How many kinds of sample are put together: 90 ordered pairs, for default_collate minds which dtype comes first."""
EXAMPLES = 60
"""How many larger batches are tried where all pairs go well."""


@dataclass(frozen=True, slots=True)
class Clash:
    """Samples that collate_fn refuses together, although it takes some of them by themselves."""

    indices: tuple[Index, ...]
    samples: tuple[tuple[LeafRecord, ...], ...]
    incident: Incident


@dataclass(frozen=True, slots=True)
class Pair:
    """Two samples that collate_fn took in this order, and the leaves of the batch that it made of them."""

    indices: tuple[Index, ...]
    leaves: tuple[LeafRecord, ...]


@dataclass(frozen=True, slots=True)
class Mixtures:
    """What came of it: the first clash, how many `batches` of how many `kinds` of sample were tried, and the reads.

    `pairs` are the batches of two samples of different kinds.
    """

    clash: Clash | None
    batches: int
    kinds: int
    reads: int
    pairs: tuple[Pair, ...] = ()


def kinds_of(samples: Sequence[SampleRecord]) -> tuple[Index, ...]:
    """The index of a sample of each structure; those that differ in more than their shapes come first."""
    forms: dict[object, Index] = {}
    kinds: dict[object, Index] = {}
    for sample in samples:
        if sample.index is not None:
            forms.setdefault(sample.form, sample.index)
            kinds.setdefault(sample.structure, sample.index)
    return tuple(dict.fromkeys([*forms.values(), *kinds.values()]))[:MOST_KINDS]


def run_mixtures(
    build: Callable[..., Loader], folder: Path, kinds: Sequence[Index], size: int, drawing: Drawing, *, single: bool
) -> Mixtures:
    """Put the kinds together in batches of two, and of up to `size`; of one where a batch may be `single`."""
    handful = Handful(build(), folder, kinds, frozen=False)
    handful.fill(len(kinds))
    trials = _Trials(handful, size, drawing)
    found = trials.smallest(single=single)
    clash = None if found is None else trials.clash(found)
    pairs = (Pair(tuple(kinds[place] for place in two), leaves) for two, leaves in trials.pairs.items())
    return Mixtures(clash, len(trials.outcomes), len(kinds), handful.reads, tuple(pairs))


class _Trials:
    """Trials of collate_fn on positions of a handful, each made once."""

    def __init__(self, handful: Handful, size: int, drawing: Drawing) -> None:
        self.handful = handful
        self.drawing = drawing
        self.outcomes: dict[tuple[int, ...], BaseException | None] = {}
        self.pairs: dict[tuple[int, ...], tuple[LeafRecord, ...]] = {}
        self.places = range(len(handful.samples))
        self.size = size
        self.filled = not any(self.takes((place, place)) for place in self.places) and 2 < size <= LARGEST
        """Whether only whole batches are taken: then those are filled up with the first sample of a trial."""
        self.good = {place for place in self.places if self.takes((place,)) or self.takes((place, place))}

    def takes(self, positions: Sequence[int]) -> bool:
        """Whether collate_fn takes these samples."""
        return self.outcome(tuple(positions)) is None

    def outcome(self, positions: tuple[int, ...]) -> BaseException | None:
        """What collate_fn raises for these samples, if anything."""
        if positions not in self.outcomes:
            try:
                batch = self.handful.collate(positions)
                self.outcomes[positions] = None
                if len(set(positions)) == len(positions) == 2:
                    self.pairs[positions] = leaves_of(batch)
            except Refused as refused:
                self.outcomes[positions] = refused.__cause__
        return self.outcomes[positions]

    def smallest(self, *, single: bool) -> tuple[int, ...] | None:
        """The smallest batch that is refused, of samples some of which are good by themselves."""
        lonely = (place for place in self.places if single and self.takes((place, place)) and not self.takes((place,)))
        alone = next(lonely, None)
        if alone is not None:
            return (alone,)
        pairs = (pair for pair in permutations(self.places, 2) if self.refuses(pair))
        return next(pairs, None) or (self._search() if self.size > 2 else None)

    def refuses(self, positions: Sequence[int]) -> bool:
        """Whether these samples clash: it is no evidence when none of them is good, as when all are filtered away."""
        if self.filled:
            whole = (*[positions[0]] * (self.size - len(positions)), *positions)
            return self.takes([positions[0]] * self.size) and not self.takes(whole)
        return not self.good.isdisjoint(positions) and not self.takes(positions)

    def _search(self) -> tuple[int, ...] | None:
        """Let hypothesis look for larger batches, and make them small."""
        from hypothesis import strategies as st  # it takes a while to import, and is rarely needed

        batches = st.lists(st.sampled_from(self.places), min_size=3, max_size=min(self.size, LARGEST))
        found = self.drawing.smallest(batches, self.refuses, examples=EXAMPLES, subject="batches")
        return None if found is None else tuple(found)

    def clash(self, positions: tuple[int, ...]) -> Clash:
        """A refused batch with what it was made of."""
        whole = (*[positions[0]] * (self.size - len(positions)), *positions) if self.filled else positions
        error = self.outcome(whole)
        assert error is not None
        indices = [self.handful.indices[place] for place in whole]
        samples = tuple(leaves_of(self.handful.samples[place]) for place in whole)
        return Clash(tuple(indices), samples, incident_of(error, "collate", None, indices))
