"""DG401: samples that do not fit into one batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, check

if TYPE_CHECKING:
    from dataguard.lab import Lab
    from dataguard.lab.records import BatchRecord, Index, SampleRecord


@check("DG401", "ragged-collate", Severity.ERROR)
def dg401_ragged_collate(lab: Lab) -> Judgement:
    """collate_fn fails on samples that the dataset really yields.

    Symptom: "stack expects each tensor to be equal size", at random batches, sometimes after hours.
    Cause: some samples differ in shape, dtype, keys or None-ness, and collate_fn cannot put them into one batch.
    Fix: make the samples alike in the dataset (resize, convert, fill in), or give the loader a collate_fn that pads or
        keeps a list.
    Links: https://docs.pytorch.org/docs/stable/data.html#working-with-collate-fn
    """
    if not lab.facts.batched:
        raise NotApplicable("automatic batching is off (batch_size=None): nothing is collated")
    epoch = lab.epoch
    if epoch.batches and all(batch.refuses_each for batch in epoch.batches):
        raise NotApplicable("collate_fn fails on every batch: see DG001")
    failing = [batch for batch in epoch.batches if batch.incident and batch.incident.stage == "collate"]
    pairs = kinds = 0
    if lab.facts.kind == "map" and lab.facts.mixes_samples:
        trials = lab.collating
        pairs, kinds = len(trials.pairs), trials.kinds
        # A pair that fails sample by sample (all of it filtered away) is no evidence about the mixture.
        clashing = [one for one in trials.pairs if one.incident and one.incident.stage == "collate"]
        failing = [trial for trial in clashing if not trial.refuses_each] or failing
    if failing:
        yield _finding(lab, failing[0], {sample.index: sample for sample in epoch.samples})
    return Looked(epoch.exercised | {unit: n for unit, n in (("pairs", pairs), ("structures", kinds)) if n})


def _finding(lab: Lab, batch: BatchRecord, seen: Mapping[Index, SampleRecord]) -> Finding:
    assert batch.incident is not None
    indices = list(dict.fromkeys(batch.indices))
    samples = [seen[index] for index in indices if index in seen]
    difference = _difference(samples[0], samples[-1]) if len(samples) > 1 else ""
    what = "samples of a stream" if None in indices else f"samples {indices}"
    return Finding(
        message=f"collate_fn fails on {what}: {difference or batch.incident.message.splitlines()[0]}",
        evidence={"exception": batch.incident.message, "samples": [str(index) for index in indices]},
        at=batch.incident.location,
        repro=lab.repro_batch(indices) if None not in indices else None,
    )


def _difference(first: SampleRecord, second: SampleRecord) -> str:
    """The first leaf in which two samples differ: `['image'] is float32 (3, 64, 64) in one and ... in the other`."""
    one = {leaf.path: f"{leaf.dtype or leaf.kind} {leaf.shape or ''}".strip() for leaf in first.leaves}
    two = {leaf.path: f"{leaf.dtype or leaf.kind} {leaf.shape or ''}".strip() for leaf in second.leaves}
    for path in dict.fromkeys((*one, *two)):
        if one.get(path) != two.get(path):
            return f"sample{path} is {one.get(path, 'absent')} in one and {two.get(path, 'absent')} in the other"
    return ""
