"""DG401: samples that cannot be collated into one batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dataguard.checks.batches.pairing import with_last
from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.model import (
    Coverage,
    Finding,
    Judgement,
    Location,
    NotApplicable,
    Severity,
    Undecided,
    without_empty,
)

if TYPE_CHECKING:
    from dataguard.core.incident import Incident
    from dataguard.lab.batches.settings_trials import Clash, MixedBatches
    from dataguard.lab.core.records import BatchRecord, Index, LeafRecord, SampleRecord
    from dataguard.lab.lab import Lab


@check("DG401", "ragged-collate", Severity.ERROR)
def dg401_ragged_collate(lab: Lab) -> Judgement:
    """collate_fn fails on samples that the dataset returns.

    Symptom: "stack expects each tensor to be equal size", in random batches, sometimes after hours.
    Cause: some samples differ in shape, dtype or keys, or contain None, and collate_fn cannot batch them.
    Fix: make the samples uniform in the dataset (resize, convert, fill in), or use a collate_fn that pads or keeps a
        list.
    Links: https://docs.pytorch.org/docs/stable/data.html#working-with-collate-fn
    """
    if not lab.facts.batched:
        raise NotApplicable("automatic batching is off (batch_size=None): nothing is collated")
    epoch = lab.epoch
    if epoch.batches and all(batch.refuses_each for batch in epoch.batches):
        raise NotApplicable("collate_fn fails on every batch: see DG001")
    refused = next((batch for batch in epoch.batches if batch.incident and batch.incident.stage == "collate"), None)
    together = epoch.members()[refused.worker, refused.batch] if refused else epoch.samples
    tried = _mixed_batches(lab, together, refused)
    if tried and tried.clash:
        yield _clash(lab, tried.clash)
    elif refused:
        yield _refused(lab, refused, together)
    counts = {"pairs": tried.batches, "structures": tried.kinds} if tried else {}
    if refused or (tried and tried.clash):
        return Coverage(epoch.exercised | counts)
    others = lab.batches.settings_trials
    counts["settings"] = others.tried
    exercised = epoch.exercised | {unit: count for unit, count in counts.items() if count}
    return Coverage(exercised, others.problem.note if others.problem else None)


def _mixed_batches(lab: Lab, samples: Sequence[SampleRecord], refused: BatchRecord | None) -> MixedBatches | None:
    """Batches of the most different samples if shuffling may combine any two, or of those of a batch that failed."""
    if lab.facts.kind != "map" or not (refused or lab.facts.mixes_samples):
        return None
    try:
        samples = samples if refused else with_last(lab, samples)
        return lab.batches.mixed(samples, single=1 in (lab.epoch.sizes or ()))
    except (NotApplicable, Undecided):
        if refused is None:
            raise
        return None


def _clash(lab: Lab, clash: Clash) -> Finding:
    indices = list(clash.indices)
    shown = list(dict.fromkeys(indices))
    difference = _difference(clash.samples[0], clash.samples[-1]) if len(shown) > 1 else ""
    single = " alone" if len(indices) == 1 else ""
    what = f"samples {shown}" if len(shown) > 1 else f"sample {shown[0]}{single}"
    return Finding(
        message=f"collate_fn fails on {what}: {difference or clash.incident.message.splitlines()[0]}",
        evidence=_evidence(clash.incident, difference, indices),
        at=_at(lab, clash.incident, clash.samples, indices),
        repro=lab.repro.samples(*indices, batch=True),
    )


def _refused(lab: Lab, batch: BatchRecord, members: Sequence[SampleRecord]) -> Finding:
    assert batch.incident is not None
    indices = list(dict.fromkeys(batch.indices))
    difference = next(filter(None, (_difference(members[0].leaves, member.leaves) for member in members[1:])), "")
    what = "samples of a stream" if None in indices else f"samples {indices}"
    return Finding(
        message=f"collate_fn fails on {what}: {difference or batch.incident.message.splitlines()[0]}",
        evidence=_evidence(batch.incident, difference, indices),
        at=_at(lab, batch.incident, [member.leaves for member in members], [member.index for member in members]),
        repro=lab.repro.samples(*indices, batch=True) if None not in indices else None,
    )


def _difference(first: Sequence[LeafRecord], second: Sequence[LeafRecord]) -> str:
    """The first leaf in which two samples differ: `['image'] is float32 (3, 64, 64) in one and ... in the other`."""
    types, others = (
        {leaf.path: f"{leaf.dtype or leaf.kind} {leaf.shape or ''}".strip() for leaf in leaves}
        for leaves in (first, second)
    )
    for path in dict.fromkeys((*types, *others)):
        if types.get(path) != others.get(path):
            return f"sample{path} is {types.get(path, 'absent')} in one and {others.get(path, 'absent')} in the other"
    return ""


def _evidence(incident: Incident, difference: str, indices: Sequence[Index]) -> dict[str, object]:
    fix = "give all samples one form, or pad them in collate_fn" if difference else None
    samples = [str(index) for index in indices]
    return without_empty({"fix here": fix, "exception": incident.message, "samples": samples})


def _at(
    lab: Lab, incident: Incident, samples: Sequence[Sequence[LeafRecord]], indices: Sequence[Index]
) -> Location | None:
    """The line of the user's collate_fn that fails; else, in a library's, where samples get another size."""
    if incident.own_frame or None in indices:
        return incident.location
    return _odd_size(lab, samples, indices) or incident.location


def _odd_size(lab: Lab, samples: Sequence[Sequence[LeafRecord]], indices: Sequence[Index]) -> Location | None:
    """The line after which a leaf of one sample has another size than in most of these samples."""
    shapes = [{leaf.path: leaf.shape for leaf in leaves if leaf.shape} for leaves in samples]
    for path in shapes[0] if shapes else ():
        of_path = [shape.get(path) for shape in shapes]
        usual, _ = Counter(of_path).most_common()[0]
        odd = [number for number, shape in enumerate(of_path) if shape and shape != usual]
        if odd and usual:
            one, other = indices[odd[0]], indices[of_path.index(usual)]
            return line_at(lab.batches.lines.of_size, path, one, other)
    return None
