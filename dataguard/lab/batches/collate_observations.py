"""The observations of a lab about collate_fn, pinning and loader settings; see `Batches`.

Also whether `__getitems__` returns the requested samples, one per index, in order, and which tensors of a batch torch
pins.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import default_collate

from dataguard.core.model import Location, NotApplicable, NotTested, Undecided
from dataguard.lab.batches.batch_lines import BatchLines
from dataguard.lab.batches.collate_trials import (
    COLLATED_BATCHES,
    FEW_REREAD,
    MOST_COLLATED,
    REREAD,
    REREAD_TIMES,
    CollateInputs,
    Collation,
    Refused,
    choose,
    collate_forms,
    collate_seconds,
    collate_singly,
    read_samples,
)
from dataguard.lab.batches.mixtures import (
    BATCH_ROWS,
    MIXED_BATCHES,
    Mixture,
    RandomLeaves,
    contrasted,
    find_mixture,
    find_random_leaves,
)
from dataguard.lab.batches.neighbours import COLLATED_BESIDE, NeighbourEffect, find_neighbour_effects
from dataguard.lab.batches.padding import Padding, find_padding
from dataguard.lab.batches.settings_trials import (
    SETTINGS_READS,
    TRIED_SAMPLES,
    ExampleSearch,
    MixedBatches,
    SettingsTrials,
    form_of,
    kinds_of,
    run_mixed_batches,
    run_settings_trials,
)
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import iter_leaves, leaves_of
from dataguard.lab.core.records import Index, SampleRecord
from dataguard.lab.process.accelerators import accelerator, pins
from dataguard.lab.reading.epoch_trace import (
    EpochTrace,
    Overwritten,
    batches_taken,
    find_overwriting_line,
    find_overwritten,
)
from dataguard.lab.subject import Subject
from dataguard.targets.discovery import through_wrapper
from dataguard.targets.variants import Loader


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
        read = min(MOST_COLLATED, len(chosen))
        reread = REREAD if subject.reads_take_little(read + REREAD_TIMES * REREAD) else FEW_REREAD
        reread = 0 if subject.facts.default_collate else reread  # which modifies nothing
        batches = COLLATED_BATCHES + COLLATED_BESIDE + read
        seconds = (read + REREAD_TIMES * reread) * epoch.seconds_per_sample + batches * collate_seconds(epoch.batches)
        subject.afford("observed", seconds)
        ascending = _is_ascending(epoch)
        return subject.observe(
            "observed", lambda folder: observe_collate(subject.build, folder, chosen, reread, ascending=ascending)
        )

    @property
    def lines(self) -> BatchLines:
        """The lines of the user's code after which a batch is wrong."""
        return BatchLines(self._subject)

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

        Nothing is read of a loader whose collate_fn returns new memory for each batch, unless a wrapper holds it.
        """
        subject = self._subject
        held = subject.facts.holder is not None
        if subject.facts.batched and not held and (subject.facts.default_collate or not self.observed.overwritten):
            return Overwritten(())
        workers = min(subject.facts.num_workers, 1)
        size = max((batch.size for batch in subject.epoch.batches), default=1)
        subject.afford_reads("overwritten", size * batches_taken(workers))
        return subject.observe(
            "overwritten", lambda folder: find_overwritten(through_wrapper(subject.build(num_workers=workers)), folder)
        )

    def overwriting_line(self, leaves: tuple[str, ...]) -> Location | None:
        """The line that writes into these leaves of an earlier batch; None if no line of the user's code is seen to."""
        subject = self._subject
        place = subject.line_of(
            ("overwrites", leaves),
            lambda folder: find_overwriting_line(through_wrapper(subject.build(num_workers=0)), folder, leaves),
        )
        return Location(*place) if place else None

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
        chosen = pair if None not in pair else (None,) * BATCH_ROWS
        subject.afford(
            "mixture",
            BATCH_ROWS * subject.epoch.seconds_per_sample + MIXED_BATCHES * collate_seconds(subject.epoch.batches),
        )
        return subject.observe("mixture", lambda folder: find_mixture(subject.build(), folder, chosen))

    @property
    def random_leaves(self) -> RandomLeaves:
        """The leaves of a batch that depend on the RNG inside collate_fn, for unchanged samples."""
        subject = self._subject
        if not subject.facts.batched or subject.facts.default_collate:
            return RandomLeaves()
        chosen = choose(subject.epoch)[:MOST_COLLATED]
        seconds = 2 * MOST_COLLATED * subject.epoch.seconds_per_sample + 3 * collate_seconds(subject.epoch.batches)
        subject.afford("random_leaves", seconds)
        return subject.observe("random_leaves", lambda folder: find_random_leaves(subject.build(), folder, chosen))

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
        return subject.observe(
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
        chosen = evenly(seen, TRIED_SAMPLES)
        if not subject.reads_take_little(SETTINGS_READS):
            return SettingsTrials(0, None)  # a risk under settings that the loader does not have is not worth it
        try:
            trials: SettingsTrials = subject.observe(
                "settings_trials",
                lambda folder: run_settings_trials(subject.build, folder, chosen, form, workers, self._search),
            )
        except Undecided:  # then no risk is known
            return SettingsTrials(0, None)
        return trials

    @property
    def _search(self) -> ExampleSearch:
        subject = self._subject
        return ExampleSearch(**subject.settings.hypothesis, name=f"{subject.target.spelling} {subject.facts.name}")


def _is_ascending(epoch: EpochTrace) -> bool:
    """Whether every batch requests its samples in the order of the dataset."""
    orders = ([index for index in batch.indices if isinstance(index, int)] for batch in epoch.batches)
    return all(first <= second for order in orders for first, second in pairwise(order))


def observe_collate(
    build: Callable[..., Loader], folder: Path, chosen: tuple[Index, ...], reread: int, *, ascending: bool
) -> CollateObservations:
    """Collate the chosen samples in every form, and observe the batch."""
    inputs = CollateInputs(build(), folder, chosen)
    try:
        read_samples(inputs)
        if not inputs.is_stream and returns_batches(inputs):
            raise NotApplicable("__getitems__ returns whole batches, not samples for collate_fn")
        single_columns = collate_singly(inputs)
        batch = inputs.collate(range(len(inputs.samples)))
        padding = find_padding(inputs, batch, single_columns)
        pinning = try_pinning(batch, real=can_pin()) if inputs.loader.pin_memory else None
        is_default = inputs.loader.collate_fn is default_collate
        overwritten = () if is_default else _overwritten(inputs)
        collation = collate_forms(inputs, single_columns, reread)
        neighbours = () if is_default else find_neighbour_effects(inputs)
        getitems = None if inputs.is_stream else compare_getitems(inputs, _order(inputs, ascending=ascending))
    except Refused as refused:
        cause = f"{type(refused.__cause__).__name__}: {refused.__cause__}"
        raise Undecided(f"collate_fn accepts a whole batch, but no part of it: {cause}") from refused
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
    positions = list(range(min(len(inputs.samples), MOST_COLLATED)))
    numbers = [index if isinstance(index, int) else position for position, index in enumerate(inputs.indices)]
    return sorted(positions, key=lambda position: numbers[position], reverse=not ascending)


@dataclass(frozen=True, slots=True)
class GetitemsReads:
    """Samples read by `__getitems__`, compared with the same samples read one by one.

    `given` lists, for each returned sample, the requested indices that it matches. It is empty for a mixture, and
    `parts` then lists which leaf of the first mixture comes from which sample; it is also empty for a sample that
    nobody requested, if there are too many or too few samples.
    """

    asked: tuple[Index, ...]
    given: tuple[tuple[Index, ...], ...]
    parts: tuple[tuple[str, Index], ...] = ()


def returns_batches(inputs: CollateInputs) -> bool:
    """Whether `__getitems__` returns something other than samples: a collated batch."""
    if not callable(getattr(inputs.loader.dataset, "__getitems__", None)):
        return False
    answer = inputs.read_getitems(inputs.indices[:2])
    paths = {leaf.path for leaf in leaves_of(inputs.samples[0])}
    inside = answer if isinstance(answer, list | tuple) else ()
    return all({leaf.path for leaf in leaves_of(sample)} != paths for sample in inside)


def compare_getitems(inputs: CollateInputs, order: Sequence[int]) -> GetitemsReads | None:
    """Read the samples at these positions by `__getitems__`, and compare them with single reads.

    None if nothing can be compared: the result is a batch, or samples never repeat.
    """
    dataset: Any = inputs.loader.dataset
    if not callable(getattr(dataset, "__getitems__", None)):
        return None
    asked = [inputs.indices[position] for position in order]
    try:
        answer = inputs.read_getitems(asked)
        singly = [
            _stable(inputs, index, inputs.samples[position]) for index, position in zip(asked, order, strict=True)
        ]
    except (Refused, NotApplicable):
        return None
    if not isinstance(answer, list | tuple):
        return None
    paths = set.intersection(*(set(leaves) for leaves in singly))
    got = [{leaf.path: leaf.digest for leaf in leaves_of(sample)} for sample in answer]
    identifying = [path for path in sorted(paths) if len({leaves[path] for leaves in singly}) > 1]
    miscounted = _is_miscounted(answer, inputs.samples, len(asked))
    if not miscounted and not any(path in leaves for path in identifying for leaves in got):
        return None
    owners = [
        {
            path: frozenset(n for n, leaves in enumerate(singly) if leaves[path] == sample.get(path))
            for path in identifying
        }
        for sample in got
    ]
    matched = any if miscounted else all
    matching = [path for path in identifying if matched(owner[path] for owner in owners)]
    if not matching and not miscounted:  # nothing matches single reads: the augmentation differs
        return None
    if len(got) > len(asked) and not miscounted and matching != identifying:  # crops or views of the samples
        return None
    given = [
        frozenset.intersection(*(owner[path] for path in matching)) if matching else frozenset() for owner in owners
    ]
    mixtures = (owner for owner, both in zip(owners, given, strict=True) if not both and not miscounted)
    pairs = next(mixtures, None)
    return GetitemsReads(
        tuple(asked),
        tuple(tuple(asked[n] for n in sorted(both)) for both in given),
        tuple((path, asked[min(pairs[path])]) for path in matching) if pairs else (),
    )


def _is_miscounted(answer: Sequence[Any], samples: Sequence[Any], asked: int) -> bool:
    """Whether there are too many or too few samples; several for each index may be views of it."""
    forms = {_form_of(sample) for sample in samples}
    return len(answer) % asked > 0 and all(_form_of(sample) in forms for sample in answer)


def _form_of(sample: Any) -> frozenset[tuple[str, str, int]]:
    """What distinguishes a sample from a part of a batch, which has one more dimension."""
    return frozenset((leaf.path, leaf.type_name, len(leaf.shape or ())) for leaf in leaves_of(sample))


def _stable(inputs: CollateInputs, index: Index, first: Any) -> dict[str, bytes]:
    """The leaves of a sample that are equal when it is read again."""
    again = {leaf.path: leaf.digest for leaf in leaves_of(inputs.read(index))}
    return {leaf.path: leaf.digest for leaf in leaves_of(first) if again.get(leaf.path) == leaf.digest}


@dataclass(frozen=True, slots=True)
class Pinning:
    """The result of pinning a batch: how many `tensors` it has then, and the paths of those `unpinned`.

    `before` is the number of tensors in the batch, `kind` its type, `result` the type afterwards, and `refused` what
    pinning raised. `real`: memory was pinned, not only requested.
    """

    before: int
    tensors: int
    unpinned: tuple[str, ...]
    kind: str
    result: str
    refused: str | None = None
    real: bool = False


def try_pinning(batch: Any, *, real: bool = False) -> Pinning:
    """Let torch pin a batch as its pinning thread does, and find the tensors that are not pinned.

    Without an accelerator no memory can be pinned: calls of `Tensor.pin_memory` are recorded instead.
    """
    before, kind = sum(1 for _ in tensors_of(batch)), type(batch).__name__
    noted: dict[int, Tensor] = {}

    def note(self: Tensor, *_: Any, **__: Any) -> Tensor:
        pinned = self.detach()
        noted[id(pinned)] = pinned  # kept alive, so that no other object gets the same id
        return pinned

    is_pinned: Callable[[Tensor], bool] = _is_really_pinned if real else lambda tensor: id(tensor) in noted
    original = Tensor.pin_memory
    if not real:
        Tensor.pin_memory = note  # type: ignore[method-assign, assignment]
    try:
        pinned = pin_memory(batch)
    except Exception as error:  # noqa: BLE001 - user-defined classes may raise anything
        return Pinning(before, 0, (), kind, "nothing", f"{type(error).__name__}: {error}", real)
    finally:
        Tensor.pin_memory = original  # type: ignore[method-assign]
    tensors = list(tensors_of(pinned))
    unpinned = tuple(path for path, tensor in tensors if not is_pinned(tensor))
    return Pinning(before, len(tensors), unpinned, kind, type(pinned).__name__, None, real)


def tensors_of(batch: Any) -> Iterator[tuple[str, Tensor]]:
    """Every CPU tensor in a batch, with its path.

    The batch sizes of a PackedSequence are left out: torch never moves them.
    """
    for path, leaf in iter_leaves(batch, atomic=(PackedSequence,)):
        if isinstance(leaf, PackedSequence):
            yield f"{path}.data", leaf.data
        elif isinstance(leaf, Set):
            inside = (tensors_of(item) for item in leaf)
            yield from (
                (f"{path}[{number}]{below}", tensor)
                for number, tensors in enumerate(inside)
                for below, tensor in tensors
            )
        elif isinstance(leaf, Tensor) and leaf.device.type == "cpu":
            yield path, leaf


def _is_really_pinned(tensor: Tensor) -> bool:
    parts = (tensor._indices(), tensor._values()) if tensor.layout is torch.sparse_coo else (tensor,)
    return all(part.is_pinned() for part in parts if part.numel())


@functools.cache
def can_pin() -> bool:
    """Whether this process can pin memory for an accelerator."""
    return pins(accelerator())
