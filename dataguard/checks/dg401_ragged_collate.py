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
    seen = {sample.index: sample for sample in lab.epoch.samples}
    met = [batch for batch in lab.epoch.batches if batch.incident and batch.incident.stage == "collate"]
    if lab.facts.kind == "stream":
        if met and len(met) < len(lab.epoch.batches):
            yield _finding(lab, met[0], {})
        return Looked(lab.epoch.exercised)
    trials = lab.collating
    lonely = {trial.indices[0] for trial in trials.alone if trial.incident}
    if trials.alone and len(lonely) == trials.kinds:
        raise NotApplicable("collate_fn fails on every batch: see DG001")
    # Samples that fail even on their own (all of a batch filtered away) are no evidence unless others fail with them.
    failing = [trial for trial in trials.pairs if trial.incident and not lonely.issuperset(trial.indices)]
    if failing and (met or lab.facts.mixes_samples):
        yield _finding(lab, failing[0], seen)
    elif met:
        yield _finding(lab, met[0], seen)
    return Looked(lab.epoch.exercised | {"pairs": len(trials.pairs), "structures": trials.kinds})


def _finding(lab: Lab, batch: BatchRecord, seen: Mapping[Index, SampleRecord]) -> Finding:
    assert batch.incident is not None
    indices = list(dict.fromkeys(batch.indices))
    samples = [seen[index] for index in indices if index in seen]
    difference = _difference(samples[0], samples[-1]) if len(samples) > 1 else ""
    what = f"samples {indices}" if len(indices) > 1 else f"sample {indices[0]}"
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
