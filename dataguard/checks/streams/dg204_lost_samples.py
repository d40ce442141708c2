"""DG204: no worker or no rank yields some samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.rewrites import rewritten, uncut, yielding_copy
from dataguard.checks.streams.lost_samples import (
    CUT,
    NO_BATCH,
    NO_RANK,
    Loss,
    dealt_losses,
    excused,
    lost_at,
    streamed_losses,
)
from dataguard.core.incident import Incident, observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, Location, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.streams.orders import Apart


@check("DG204", "lost-samples", Severity.ERROR)
def dg204_lost_samples(lab: Lab) -> Judgement:
    """Some samples are yielded by no worker or no rank, or an epoch ends early.

    Symptom: part of the data is never trained on, or never evaluated, without any error.
    Cause: samples are sharded twice; a share is rounded down; each rank shuffles with another seed, the samples or the
        list of its dataset, before it takes its share; each worker of a stream drops its own last batch; a sampler cuts
        off a rest and then shuffles; a batch sampler drops the rest of each group that fills no batch, or yields one
        list and fills it again; `WeightedRandomSampler` gets one weight per class instead of one per sample; or
        `__getitem__` raises StopIteration, as a bare `next()` does, which torch takes for the end of the epoch.
    Fix: shard in one place, with `islice(source, rank * workers + worker, None, ranks * workers)`; shuffle with one
        seed for all ranks; give the sampler `class_weights[labels]`; raise an error other than StopIteration.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset
    """
    if lab.stops:
        yield _cut_short(lab, lab.stops[0])
        return Coverage({})
    exercised: dict[str, int] = {}
    if lab.facts.kind != "stream" and lab.facts.num_workers and _refills(lab):
        yield _refilled(lab)
        return Coverage({"workers": lab.facts.num_workers})
    losses = streamed_losses(lab, exercised) if lab.facts.kind == "stream" else dealt_losses(lab, exercised)
    for loss, where in losses:
        if loss.samples and not excused(loss, lab.facts, exercised.get("ranks", 1)):
            yield _finding(lab, loss, where)
            break
    return Coverage(exercised, _left_out(lab))


def _left_out(lab: Lab) -> str | None:
    """How many samples the sampler draws in no epoch, which may be a filter: of a split, say, or of long rows."""
    length = lab.facts.length
    orders = observed_or_none(lambda: lab.streams.orders) if length and lab.facts.kind != "stream" else None
    if not length or orders is None or not orders.whole or not all(orders.epochs):
        return None
    drawn = [frozenset(epoch) for epoch in orders.epochs]
    if len(drawn[0]) >= length or len(set(drawn)) > 1 or not all(isinstance(index, int) for index in drawn[0]):
        return None
    left = sorted(set(range(length)).difference(drawn[0]))
    apart = observed_or_none(lambda: lab.streams.apart(left)) if left else None
    kept = f"the sampler leaves them out{_described(apart) if apart else ''}"
    return f"{len(left):,} of {length:,} samples are in none of {len(drawn)} epochs: {kept}"


def _described(apart: Apart) -> str:
    """What sets apart the samples that are left out."""
    (low, high), (first, last) = apart.left, apart.drawn
    what = f"sample{apart.path}" if apart.axis is None else f"the size of axis {apart.axis} of sample{apart.path}"
    is_value = apart.axis is None and low == high
    left = str(low) if low == high else f"{low:,} to {high:,}"
    if is_value and first < low < last:
        return f", and {what} is {left} in all of them that were read, and in no other"
    return f", and {what} is {left} in all of them that were read, and {first:,} to {last:,} in others"


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
    if outcome == NO_BATCH:
        return "a smaller last batch of each group: range(0, len(group), batch_size)"
    if lab.facts.drop_last and (whole := rewritten(lab, at, uncut)):
        return whole
    return "share samples once, among the workers of all ranks" if lab.facts.kind == "stream" else None


def _refills(lab: Lab) -> bool:
    """Whether the sampler yields one list for all batches. Where its order cannot be drawn, other checks say so."""
    orders = observed_or_none(lambda: lab.streams.orders)
    return orders is not None and orders.refills


def _refilled(lab: Lab) -> Finding:
    """A thread of the queue pickles a list some time after it was sent, when it may hold a later batch."""
    at = lab.places.yielded_batch or lab.places.sampler
    return Finding(
        message="the batch sampler refills the list that it yielded before workers receive it: some batches are lost, "
        "others are read several times",
        evidence=without_empty(
            {
                "fix here": rewritten(lab, at, yielding_copy) or "yield a new list for each batch",
                "workers": lab.facts.num_workers,
                "batches at risk": f"the first {lab.facts.num_workers * (lab.facts.prefetch or 1)} of each epoch",
            }
        ),
        at=at,
    )


def _cut_short(lab: Lab, stop: Incident) -> Finding:
    index = f"dataset[{stop.index}]" if stop.index else "the dataset"
    return Finding(
        message=f"{index} raises StopIteration, which silently ends the epoch",
        evidence=without_empty({"index": stop.index, "worker": stop.worker, "batch": list(stop.batch) or None}),
        at=stop.location,
        repro=lab.repro.incident(stop),
    )
