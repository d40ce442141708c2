"""DG204: no worker or no rank yields some samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.rewrites import rewritten, uncut
from dataguard.checks.streams.lost_samples import CUT, NO_RANK, Loss, dealt_losses, excused, lost_at, streamed_losses
from dataguard.core.incident import Incident
from dataguard.core.model import Coverage, Finding, Judgement, Location, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG204", "lost-samples", Severity.ERROR)
def dg204_lost_samples(lab: Lab) -> Judgement:
    """Some samples are yielded by no worker or no rank, or an epoch ends early.

    Symptom: part of the data is never trained on, or never evaluated, without any error.
    Cause: samples are sharded twice; a share is rounded down; each rank shuffles with another seed, the samples or the
        list of its dataset, before it takes its share; each worker of a stream drops its own last batch; a sampler cuts
        off a rest and then shuffles; `WeightedRandomSampler` gets one weight per class instead of one per sample; or
        `__getitem__` raises StopIteration, as a bare `next()` does, which torch takes for the end of the epoch.
    Fix: shard in one place, with `islice(source, rank * workers + worker, None, ranks * workers)`; shuffle with one
        seed for all ranks; give the sampler `class_weights[labels]`; raise an error other than StopIteration.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset
    """
    if lab.stops:
        yield _cut_short(lab, lab.stops[0])
        return Coverage({})
    exercised: dict[str, int] = {}
    losses = streamed_losses(lab, exercised) if lab.facts.kind == "stream" else dealt_losses(lab, exercised)
    for loss, where in losses:
        if loss.samples and not excused(loss, lab.facts, exercised.get("ranks", 1)):
            yield _finding(lab, loss, where)
            break
    return Coverage(exercised)


def _finding(lab: Lab, loss: Loss, outcome: str) -> Finding:
    shards, at = lab.ranks.shards() if outcome == NO_RANK else None, lost_at(lab, loss, outcome)
    return Finding(
        message=f"{loss.samples:,} of {loss.of:,} samples {outcome}",
        evidence=without_empty(
            {
                "fix here": _fix(lab, at, outcome),
                "first lost sample": loss.first,
                "of these, lost by the workers of one process": loss.alone or None,
                "same in every epoch": "yes" if loss.same else None,
                "samples per worker": shards and shards.table,
                "datasets": "each rank has its own" if shards and shards.own_datasets else None,
                "workers": lab.facts.num_workers,
                "drop_last": f"yes, with batch_size={lab.facts.batch_size}" if lab.facts.drop_last else None,
                "full batches": _full_batches(lab, loss),
            }
        ),
        at=at,
        ambiguous=outcome == CUT,
    )


def _full_batches(lab: Lab, loss: Loss) -> str | None:
    """How many an epoch has, where workers of a stream drop the last ones."""
    size = lab.facts.batch_size
    if not lab.facts.drop_last or not size or lab.facts.kind != "stream" or loss.counted:
        return None
    return f"{(loss.of - loss.samples) // size}, and {loss.of // size} from one process"


def _fix(lab: Lab, at: Location | None, outcome: str) -> str | None:
    """What to change, where the outcome says it."""
    if lab.facts.drop_last and (whole := rewritten(lab, at, uncut)):
        return whole
    return "share samples once, among the workers of all ranks" if lab.facts.kind == "stream" else None


def _cut_short(lab: Lab, stop: Incident) -> Finding:
    index = f"dataset[{stop.index}]" if stop.index else "the dataset"
    return Finding(
        message=f"{index} raises StopIteration, which silently ends the epoch",
        evidence=without_empty({"index": stop.index, "worker": stop.worker, "batch": list(stop.batch) or None}),
        at=stop.location,
        repro=lab.repro.incident(stop),
    )
