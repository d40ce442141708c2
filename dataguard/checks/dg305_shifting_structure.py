"""DG305: samples whose structure depends on the index."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, check

if TYPE_CHECKING:
    from dataguard.lab import Lab
    from dataguard.lab.mixtures import Pair
    from dataguard.lab.records import BatchRecord, Leaf, SampleRecord


@check("DG305", "shifting-structure", Severity.ERROR)
def dg305_shifting_structure(lab: Lab) -> Judgement:
    """Keys, nesting, type or rank differ from sample to sample, and collating hides it.

    Symptom: a batch now and then lacks a key, or comes in another dtype or on another scale, by what it is mixed of.
    Cause: some samples take another way through the code: a fallback, a second source, a label that is an int here and
        a float there, an annotation that only some have. The default collate takes the keys of the first sample, and
        promotes numbers to the widest type.
    Fix: give all samples one structure at the end of `__getitem__` (`torch.as_tensor(label, dtype=torch.float32)`), or
        treat the different kinds in a collate_fn of your own.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_collate
    """
    epoch = lab.epoch
    forms = Counter(sample.form for sample in epoch.samples)
    looked = Looked({**epoch.exercised, "structures": len(forms)})
    if len(forms) < 2:
        return looked
    if not lab.facts.batched:
        return Looked(looked.exercised, note="samples differ in more than their shapes, and are handed out one by one")
    mixed = list(_mixed(lab))
    batches = [batch for batch, _ in mixed]
    for batch, samples in mixed if lab.facts.default_collate else [one for one in mixed if _hangs(one[0], batches)]:
        one, two = _unlike(samples)
        path, said = _difference(one, two)
        arrived = [leaf.type_name for leaf in batch.leaves if leaf.path == path]
        yield Finding(
            message=f"sample{path} is {said}: {lab.facts.collate} "
            + (f"makes {arrived[0]} of both" if arrived else "leaves it out"),
            evidence={"structures": len(forms), "samples of the rarest": min(forms.values()), "of": forms.total()},
            at=lab.dataset.place,
            repro=None if one.index is None else lab.repro_batch([one.index, two.index]),
        )
        return looked
    return Looked(looked.exercised, note="samples differ in more than their shapes, and batches are none the worse")


def _mixed(lab: Lab) -> Iterator[tuple[BatchRecord | Pair, Sequence[SampleRecord]]]:
    """Batches of samples that differ in more than their shapes: those of the epoch, and pairs that may meet."""
    epoch = lab.epoch
    members = epoch.members()
    batches: list[tuple[BatchRecord | Pair, list[SampleRecord]]]
    batches = [(batch, members[batch.worker, batch.batch]) for batch in epoch.batches]
    refused = any(batch.incident for batch in epoch.batches if _unlike(members[batch.worker, batch.batch]))
    if lab.facts.kind == "map" and lab.facts.mixes_samples and not refused:
        by_index = {sample.index: sample for sample in epoch.samples}
        tried = lab.collate.mixtures(epoch.samples, single=1 in (epoch.sizes or ()))
        batches += [(pair, [by_index[index] for index in pair.indices]) for pair in tried.pairs]
        refused = tried.clash is not None
    if refused:
        raise NotApplicable("collate_fn fails on samples that differ in structure: see DG401")
    yield from ((batch, samples) for batch, samples in batches if _unlike(samples))


def _hangs(batch: BatchRecord | Pair, others: Sequence[BatchRecord | Pair]) -> bool:
    """Whether the same samples, in another order, give a batch of another structure."""
    return any(_types(other) != _types(batch) for other in others if other.indices == batch.indices[::-1])


def _types(batch: BatchRecord | Pair) -> Counter[tuple[str, str]]:
    return Counter((re.sub(r"\[\d+\]", "[]", leaf.path), leaf.type_name) for leaf in batch.leaves)


def _unlike(samples: Sequence[SampleRecord]) -> list[SampleRecord]:
    """The first sample, and the first that is unlike it; none where there is no such one."""
    return next(([samples[0], sample] for sample in samples if sample.form != samples[0].form), [])


def _difference(one: SampleRecord, two: SampleRecord) -> tuple[str, str]:
    """The first leaf in which two samples differ, and what it is in each."""
    first, second = ({leaf.path: leaf for leaf in sample.leaves} for sample in (one, two))
    for path in dict.fromkeys((*first, *second)):
        kinds = [_kind(leaves.get(path)) for leaves in (first, second)]
        if kinds[0] != kinds[1]:
            return path, f"{kinds[0]} at index {one.index} and {kinds[1]} at index {two.index}"
    return "", "nested otherwise"


def _kind(leaf: Leaf | None) -> str:
    if leaf is None:
        return "absent"
    return f"{leaf.type_name} of rank {len(leaf.shape)}" if leaf.shape else leaf.type_name
