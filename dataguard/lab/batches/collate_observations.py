"""Observations of collate_fn in one process; see `Lab.collate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from dataguard.lab.batches.collate_inputs import MOST, Handful, Refused, choose, collate_seconds
from dataguard.lab.batches.collate_trials import COLLATED, READS, Collation, gather, try_alone, try_forms
from dataguard.lab.batches.drawn_generators import find_blended
from dataguard.lab.batches.getitems import Together, ask_together, gives_batches
from dataguard.lab.batches.mixed_batches import Mixtures, kinds_of, run_mixtures
from dataguard.lab.batches.padding import Padding, find_padding
from dataguard.lab.batches.pin_memory import Pinning, can_pin, try_pinning
from dataguard.lab.batches.settings_trials import READS as READS_ARRANGED
from dataguard.lab.batches.settings_trials import SAMPLES, Arrangements, form_of, run_arrangements
from dataguard.lab.batches.shrinking import Drawing
from dataguard.lab.core.index import Index
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.records import SampleRecord
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable, Undecided
from dataguard.target.variants import Loader

if TYPE_CHECKING:
    from dataguard.lab.reading.epoch_trace import EpochTrace

INSISTS = "collate_fn accepts a whole batch, but no part of it"


@dataclass(frozen=True, slots=True)
class Bench:
    """All that was seen of one handful of samples; `reads` samples were read for it."""

    collation: Collation
    padding: Padding
    pinning: Pinning | None
    together: Together | None
    reads: int


class Batches:
    """What collate_fn does with samples that were really seen; each observation is made once, as with `Lab`."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def bench(self) -> Bench:
        """A handful of samples put together in several forms.

        Raises NotApplicable where nothing is collated, or samples cannot be asked for.
        """
        subject = self._subject
        if not subject.facts.batched:
            raise NotApplicable("automatic batching is off (batch_size=None): nothing is collated")
        epoch = subject.epoch
        if epoch.batches and all(batch.incident for batch in epoch.batches):
            raise NotApplicable("collate_fn fails on every batch: see DG001")
        chosen = choose(epoch)
        batches = COLLATED + min(MOST, len(chosen))
        subject.afford(READS * epoch.seconds_per_sample + batches * collate_seconds(epoch.batches))
        ascending = _is_ascending(epoch)
        return subject.vary("bench", lambda folder: run_bench(subject.build, folder, chosen, ascending=ascending))

    @property
    def pinning(self) -> Pinning:
        """What torch's pinning makes of a batch. Raises NotApplicable for a loader that does not pin."""
        pinning = self.bench.pinning if self._subject.facts.pin_memory else None
        if pinning is None:
            raise NotApplicable("pin_memory is off")
        return pinning

    @property
    def padding(self) -> Padding:
        """Which leaves of a batch are padded."""
        return self.bench.padding

    @property
    def blended(self) -> tuple[str, ...]:
        """The leaves of a batch that hang on random numbers which collate_fn draws, while its samples stay the same."""
        subject = self._subject
        if not subject.facts.batched or subject.facts.default_collate:
            return ()
        chosen = choose(subject.epoch)[:MOST]
        subject.afford(2 * MOST * subject.epoch.seconds_per_sample + 3 * collate_seconds(subject.epoch.batches))
        return subject.vary("blended", lambda folder: find_blended(subject.build(), folder, chosen))

    def mixtures(self, samples: Sequence[SampleRecord], *, single: bool) -> Mixtures:
        """Batches made up of the kinds of sample there are among these, the smallest that clash first.

        `single` tells that a batch may hold one sample.
        """
        subject = self._subject
        kinds, size = kinds_of(samples), max((batch.size for batch in subject.epoch.batches), default=1)
        if not kinds:
            raise NotApplicable(
                "the sampler's indices are not numbers, strings or tuples: samples cannot be read again"
            )
        if len(kinds) == 1:  # an ordinary epoch has put them together already
            return Mixtures(None, 0, 1, 0)
        subject.afford(len(kinds) * subject.epoch.seconds_per_sample)
        return subject.vary(
            ("mixtures", kinds, single),
            lambda folder: run_mixtures(subject.build, folder, kinds, size, self._drawing, single=single),
        )

    @property
    def arrangements(self) -> Arrangements:
        """A few samples under other settings of the loader.

        None are tried where nothing hangs on them: without workers, under the default collate; nor where they cannot
        be, as for a stream. Workers are drawn where the loader has some and forks them.
        """
        subject, facts, epoch = self._subject, self._subject.facts, self._subject.epoch
        seen = epoch.indices
        if facts.kind != "map" or not seen or (facts.default_collate and not facts.num_workers):
            return Arrangements(0, None)
        workers = (0, 1, 2) if facts.num_workers and not facts.spawns else (0,)
        forms = {form_of(batch) for batch in epoch.batches if not batch.incident}
        form = forms.pop() if len(forms) == 1 else None
        chosen = evenly(seen, SAMPLES)
        try:
            subject.afford(READS_ARRANGED * epoch.seconds_per_sample)
            found: Arrangements = subject.vary(
                "arrangements",
                lambda folder: run_arrangements(subject.build, folder, chosen, form, workers, self._drawing),
            )
        except Undecided:  # no risk that was seen
            return Arrangements(0, None)
        return found

    @property
    def _drawing(self) -> Drawing:
        subject = self._subject
        return Drawing(**subject.settings.hypothesis, name=f"{subject.target.spelling} {subject.facts.name}")


def _is_ascending(epoch: EpochTrace) -> bool:
    """Whether no batch asks for its samples in another order than the dataset's."""
    orders = ([index for index in batch.indices if isinstance(index, int)] for batch in epoch.batches)
    return all(one <= two for order in orders for one, two in pairwise(order))


def run_bench(build: Callable[..., Loader], folder: Path, chosen: tuple[Index, ...], *, ascending: bool) -> Bench:
    """Put the chosen samples together in every form, and look at the batch."""
    handful = Handful(build(), folder, chosen)
    try:
        gather(handful)
        if not handful.is_stream and gives_batches(handful):
            raise NotApplicable("__getitems__ returns whole batches, not samples for collate_fn")
        alone = try_alone(handful)
        batch = handful.collate(range(len(handful.samples)))
        padding = find_padding(handful, batch, alone)
        pinning = try_pinning(batch, really=can_pin()) if handful.loader.pin_memory else None
        collation = try_forms(handful, alone)
        together = None if handful.is_stream else ask_together(handful, _order(handful, ascending=ascending))
    except Refused as refused:
        raise Undecided(f"{INSISTS}: {type(refused.__cause__).__name__}: {refused.__cause__}") from refused
    return Bench(collation, padding, pinning, together, handful.reads)


def _order(handful: Handful, *, ascending: bool) -> list[int]:
    """The places of the samples, in the dataset's own order, or backwards where the loader mixes them up anyway."""
    places = list(range(min(len(handful.samples), MOST)))
    numbers = [index if isinstance(index, int) else place for place, index in enumerate(handful.indices)]
    return sorted(places, key=lambda place: numbers[place], reverse=not ascending)
