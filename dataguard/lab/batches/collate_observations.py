"""Observations of collate_fn in one process; see `Lab.batches`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from torch.utils.data.dataloader import default_collate

from dataguard.lab.batches.collate_inputs import MOST, CollateInputs, Refused, choose, collate_seconds
from dataguard.lab.batches.collate_trials import (
    COLLATED,
    FEW_REREAD,
    REREAD,
    TIMES,
    Collation,
    collate_forms,
    collate_singly,
    read_samples,
)
from dataguard.lab.batches.drawn_generators import RandomLeaves, find_random_leaves
from dataguard.lab.batches.getitems import GetitemsReads, compare_getitems, returns_batches
from dataguard.lab.batches.mixed_batches import MixedBatches, kinds_of, run_mixed_batches
from dataguard.lab.batches.mixtures import DRAWS as MIXED
from dataguard.lab.batches.mixtures import ROWS, Mixture, contrasted, find_mixture
from dataguard.lab.batches.neighbours import COLLATED as COLLATED_BESIDE
from dataguard.lab.batches.neighbours import NeighbourEffect, find_neighbour_effects
from dataguard.lab.batches.padding import Padding, find_padding
from dataguard.lab.batches.pin_memory import Pinning, can_pin, try_pinning
from dataguard.lab.batches.settings_trials import READS as SETTINGS_READS
from dataguard.lab.batches.settings_trials import SAMPLES, SettingsTrials, form_of, run_settings_trials
from dataguard.lab.batches.shrinking import ExampleSearch
from dataguard.lab.core.index import Index
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import SampleRecord
from dataguard.lab.reading.overwritten import Overwritten, batches_taken, find_overwritten
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable, NotTested, Undecided
from dataguard.targets.variants import Loader

if TYPE_CHECKING:
    from dataguard.lab.reading.epoch_trace import EpochTrace

INSISTS = "collate_fn accepts a whole batch, but no part of it"


@dataclass(frozen=True, slots=True)
class CollateObservations:
    """What was observed of collate_fn on a few samples; `reads` counts the samples that were read.

    `overwritten`: the leaves of the first batch that later ones changed.
    """

    collation: Collation
    padding: Padding
    pinning: Pinning | None
    getitems: GetitemsReads | None
    neighbours: tuple[NeighbourEffect, ...]
    reads: int
    overwritten: tuple[str, ...] = ()


class Batches:
    """What collate_fn does with samples of the ordinary epoch; each observation is made once, as in `Lab`."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def observed(self) -> CollateObservations:
        """A few samples, collated in several forms.

        Raises NotApplicable if nothing is collated or samples cannot be requested.
        """
        subject = self._subject
        if not subject.facts.batched:
            raise NotApplicable("automatic batching is off (batch_size=None): nothing is collated")
        epoch = subject.epoch
        epoch.need_batches()
        chosen = choose(epoch, mixes=subject.facts.mixes_samples)
        read = min(MOST, len(chosen))
        reread = REREAD if subject.reads_take_little(read + TIMES * REREAD) else FEW_REREAD
        reread = 0 if subject.facts.default_collate else reread  # which modifies nothing
        batches = COLLATED + COLLATED_BESIDE + read
        seconds = (read + TIMES * reread) * epoch.seconds_per_sample + batches * collate_seconds(epoch.batches)
        subject.afford("observed", seconds)
        ascending = _is_ascending(epoch)
        return subject.vary(
            "observed", lambda folder: observe_collate(subject.build, folder, chosen, reread, ascending=ascending)
        )

    @property
    def pinning(self) -> Pinning:
        """How torch pins a batch. Raises NotApplicable for a loader that does not pin."""
        pinning = self.observed.pinning if self._subject.facts.pin_memory else None
        if pinning is None:
            raise NotApplicable("pin_memory is off")
        return pinning

    @property
    def padding(self) -> Padding:
        """Which leaves of a batch are padded."""
        return self.observed.padding

    @property
    def overwritten(self) -> Overwritten:
        """What later batches of an ordinary epoch change in its first one.

        Nothing is read of a loader whose collate_fn returns new memory for each batch.
        """
        subject = self._subject
        if subject.facts.batched and (subject.facts.default_collate or not self.observed.overwritten):
            return Overwritten(())
        workers = min(subject.facts.num_workers, 1)
        size = max((batch.size for batch in subject.epoch.batches), default=1)
        subject.afford_reads("overwritten", size * batches_taken(workers))
        return subject.vary("overwritten", lambda folder: find_overwritten(subject.build(num_workers=workers), folder))

    @property
    def mixture(self) -> Mixture | None:
        """How much of a sample is mixed into rows of a batch, and how much of it the targets say; None without both."""
        subject = self._subject
        if not subject.facts.batched or subject.facts.default_collate:
            return None
        subject.epoch.need_batches()
        pair = contrasted(subject.epoch)
        if pair is None:
            return None
        chosen = pair if None not in pair else (None,) * ROWS
        subject.afford(
            "mixture", ROWS * subject.epoch.seconds_per_sample + MIXED * collate_seconds(subject.epoch.batches)
        )
        return subject.vary("mixture", lambda folder: find_mixture(subject.build(), folder, chosen))

    @property
    def random_leaves(self) -> RandomLeaves:
        """The leaves of a batch that depend on the RNG inside collate_fn, for unchanged samples."""
        subject = self._subject
        if not subject.facts.batched or subject.facts.default_collate:
            return RandomLeaves()
        chosen = choose(subject.epoch)[:MOST]
        seconds = 2 * MOST * subject.epoch.seconds_per_sample + 3 * collate_seconds(subject.epoch.batches)
        subject.afford("random_leaves", seconds)
        return subject.vary("random_leaves", lambda folder: find_random_leaves(subject.build(), folder, chosen))

    def mixed(self, samples: Sequence[SampleRecord], *, single: bool) -> MixedBatches:
        """Batches that combine the kinds of sample among these; the smallest batch that fails comes first.

        `single`: a batch may hold one sample.
        """
        subject = self._subject
        kinds, size = kinds_of(samples), max((batch.size for batch in subject.epoch.batches), default=1)
        if not kinds:
            raise NotTested("the sampler's indices are not numbers, strings or tuples: samples cannot be read again")
        if len(kinds) == 1:  # an ordinary epoch has collated them already
            return MixedBatches(None, 0, 1, 0)
        subject.afford_reads(("mixed_batches", kinds, single), len(kinds))
        return subject.vary(
            ("mixed_batches", kinds, single),
            lambda folder: run_mixed_batches(subject.build, folder, kinds, size, self._search, single=single),
        )

    @property
    def settings_trials(self) -> SettingsTrials:
        """A few samples under other settings of the loader.

        None are tried if the settings cannot matter (no workers, default collate) or cannot be varied, as for a stream.
        Numbers of workers are varied only if the loader forks workers.
        """
        subject, facts, epoch = self._subject, self._subject.facts, self._subject.epoch
        seen = epoch.indices
        if facts.kind != "map" or not seen or (facts.default_collate and not facts.num_workers):
            return SettingsTrials(0, None)
        workers = (0, 1, 2) if facts.num_workers and not facts.spawns else (0,)
        forms = {form_of(batch) for batch in epoch.batches if not batch.incident}
        form = forms.pop() if len(forms) == 1 else None
        chosen = evenly(seen, SAMPLES)
        if not subject.reads_take_little(SETTINGS_READS):
            return SettingsTrials(0, None)  # a risk under settings that the loader does not have is not worth it
        try:
            found: SettingsTrials = subject.vary(
                "settings_trials",
                lambda folder: run_settings_trials(subject.build, folder, chosen, form, workers, self._search),
            )
        except Undecided:  # then no risk is known
            return SettingsTrials(0, None)
        return found

    @property
    def _search(self) -> ExampleSearch:
        subject = self._subject
        return ExampleSearch(**subject.settings.hypothesis, name=f"{subject.target.spelling} {subject.facts.name}")


def _is_ascending(epoch: EpochTrace) -> bool:
    """Whether every batch requests its samples in the order of the dataset."""
    orders = ([index for index in batch.indices if isinstance(index, int)] for batch in epoch.batches)
    return all(one <= two for order in orders for one, two in pairwise(order))


def observe_collate(
    build: Callable[..., Loader], folder: Path, chosen: tuple[Index, ...], reread: int, *, ascending: bool
) -> CollateObservations:
    """Collate the chosen samples in every form, and observe the batch."""
    inputs = CollateInputs(build(), folder, chosen)
    try:
        read_samples(inputs)
        if not inputs.is_stream and returns_batches(inputs):
            raise NotApplicable("__getitems__ returns whole batches, not samples for collate_fn")
        alone = collate_singly(inputs)
        batch = inputs.collate(range(len(inputs.samples)))
        padding = find_padding(inputs, batch, alone)
        pinning = try_pinning(batch, real=can_pin()) if inputs.loader.pin_memory else None
        is_default = inputs.loader.collate_fn is default_collate
        overwritten = () if is_default else _overwritten(inputs)
        collation = collate_forms(inputs, alone, reread)
        neighbours = () if is_default else find_neighbour_effects(inputs)
        getitems = None if inputs.is_stream else compare_getitems(inputs, _order(inputs, ascending=ascending))
    except Refused as refused:
        raise Undecided(f"{INSISTS}: {type(refused.__cause__).__name__}: {refused.__cause__}") from refused
    return CollateObservations(collation, padding, pinning, getitems, neighbours, inputs.reads, overwritten)


def _overwritten(inputs: CollateInputs) -> tuple[str, ...]:
    """The leaves of a batch that another one of the same samples changes."""
    order = range(len(inputs.samples))
    batch = inputs.collate(order)
    before = leaves_of(batch)
    inputs.collate(order[::-1])
    return tuple(leaf.path for leaf, now in zip(before, leaves_of(batch), strict=False) if leaf != now)


def _order(inputs: CollateInputs, *, ascending: bool) -> list[int]:
    """The positions of the samples: in dataset order, or reversed if the loader shuffles anyway."""
    places = list(range(min(len(inputs.samples), MOST)))
    numbers = [index if isinstance(index, int) else place for place, index in enumerate(inputs.indices)]
    return sorted(places, key=lambda place: numbers[place], reverse=not ascending)
