"""DG305: samples whose structure varies with the index."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dataguard.checks.common.check import check
from dataguard.checks.dataset.structure import difference, hidden_key, unlike, without_promoted
from dataguard.model import Coverage, Finding, Judgement, Severity

if TYPE_CHECKING:
    from dataguard.lab.batches.mixed_batches import MixedPair
    from dataguard.lab.core.records import BatchRecord, SampleRecord
    from dataguard.lab.lab import Lab


@check("DG305", "shifting-structure", Severity.ERROR)
def dg305_shifting_structure(lab: Lab) -> Judgement:
    """Keys, nesting, type or rank differ between samples, and collate_fn fails on the mix or hides it.

    Symptom: some batches lack a key, or have another dtype or scale, depending on which samples they mix; or collate_fn
        raises (DG401 reports that, too).
    Cause: some samples take another code path: a fallback, a second source, a label that is an int here and a float
        there, an optional annotation. default_collate takes the keys of the first sample, and promotes numbers to the
        widest type.
    Fix: give all samples one structure at the end of `__getitem__` (`torch.as_tensor(label, dtype=torch.float32)`), or
        handle the variants in a custom collate_fn.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_collate
    """
    epoch = lab.epoch
    kept, promoted = without_promoted(epoch.samples)
    forms = Counter(sample.form for sample in kept)
    looked = Coverage({**epoch.exercised, "structures": len(forms)})
    if len(forms) < 2:
        return replace(looked, note=f"sample{promoted[0]} is int or float, and promoted") if promoted else looked
    if not lab.facts.batched:
        return Coverage(looked.exercised, note="samples differ in structure, but are not batched")
    mixed = _mixed(lab)
    if mixed is None:
        yield _finding(lab, kept, forms, "fails on a batch of both")
        return looked
    batches = [batch for batch, _ in mixed]
    for batch, samples in (
        mixed if lab.facts.default_collate else [one for one in mixed if _order_matters(one[0], batches)]
    ):
        path, _ = difference(*unlike(samples))
        arrived = [leaf.type_name for leaf in batch.leaves if leaf.path == path]
        yield _finding(lab, samples, forms, f"returns {arrived[0]} for both" if arrived else "drops it")
        return looked
    for batch, samples in mixed:
        if outcome := hidden_key(batch, samples):
            yield replace(_finding(lab, samples, forms, outcome), ambiguous=True)
            return looked
    return Coverage(looked.exercised, note="samples differ in structure, but collate_fn handles that")


def _finding(lab: Lab, samples: Sequence[SampleRecord], forms: Counter[Any], outcome: str) -> Finding:
    one, two = unlike(samples)
    path, kinds = difference(one, two)
    return Finding(
        message=f"sample{path} is {kinds}: {lab.facts.collate} {outcome}",
        evidence={"structures": len(forms), "rarest structure": f"{min(forms.values())} of {forms.total()} samples"},
        at=lab.dataset.location,
        repro=None if one.index is None else lab.repro.samples(one.index, two.index, batch=True),
    )


def _mixed(lab: Lab) -> list[tuple[BatchRecord | MixedPair, Sequence[SampleRecord]]] | None:
    """Batches of samples that differ in structure: those of the epoch, and pairs that shuffling may combine.

    None if collate_fn fails on such samples.
    """
    epoch = lab.epoch
    members = epoch.members()
    batches: list[tuple[BatchRecord | MixedPair, list[SampleRecord]]]
    batches = [(batch, members[batch.worker, batch.batch]) for batch in epoch.batches]
    refused = any(batch.incident for batch in epoch.batches if unlike(members[batch.worker, batch.batch]))
    if lab.facts.kind == "map" and lab.facts.mixes_samples and not refused:
        by_index = {sample.index: sample for sample in epoch.samples}
        tried = lab.batches.mixed(epoch.samples, single=1 in (epoch.sizes or ()))
        batches += [(pair, [by_index[index] for index in pair.indices]) for pair in tried.pairs]
        refused = tried.clash is not None
    differing = [(batch, without_promoted(samples)[0]) for batch, samples in batches]
    return None if refused else [(batch, samples) for batch, samples in differing if unlike(samples)]


def _order_matters(batch: BatchRecord | MixedPair, others: Sequence[BatchRecord | MixedPair]) -> bool:
    """Whether the same samples in reverse order give a batch of another structure."""
    return any(_types(other) != _types(batch) for other in others if other.indices == batch.indices[::-1])


def _types(batch: BatchRecord | MixedPair) -> Counter[tuple[str, str]]:
    return Counter((re.sub(r"\[\d+\]", "[]", leaf.path), leaf.type_name) for leaf in batch.leaves)
