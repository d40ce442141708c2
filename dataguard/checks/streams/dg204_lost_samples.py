"""DG204: no worker or no rank yields some samples."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.streams.lost_samples import Loss, dealt_loss, excused, find_loss, in_every_order, require_loss
from dataguard.incident import Incident
from dataguard.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

_NO_RANK = "are read by no rank"


@check("DG204", "lost-samples", Severity.ERROR)
def dg204_lost_samples(lab: Lab) -> Judgement:
    """Some samples are yielded by no worker or no rank, or an epoch ends early.

    Symptom: part of the data is never trained on, or never evaluated, without any error.
    Cause: samples are sharded twice; a share is rounded down; each rank shuffles with another seed, the samples or the
        list of its dataset, before it takes its share; each worker of a stream drops its own last batch;
        `WeightedRandomSampler` gets one weight per class instead of one per sample; or `__getitem__` raises
        StopIteration, as a bare `next()` does, which torch takes for the end of the epoch.
    Fix: shard in one place, with `islice(source, rank * workers + worker, None, ranks * workers)`; shuffle with one
        seed for all ranks; give the sampler `class_weights[labels]`; raise an error other than StopIteration.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset
    """
    if lab.stops:
        yield _cut_short(lab, lab.stops[0])
        return Coverage({})
    looked: dict[str, int] = {}
    for loss, where in _streamed(lab, looked) if lab.facts.kind == "stream" else _dealt(lab, looked):
        if loss.samples and not excused(loss, lab.facts, looked.get("ranks", 1)):
            yield _finding(lab, loss, where)
            break
    return Coverage(looked)


def _streamed(lab: Lab, looked: dict[str, int]) -> Iterator[tuple[Loss, str]]:
    """What the workers of one process lose, and then what ranks do."""
    shares, workers, ranks = lab.streams.shares, lab.facts.num_workers, lab.ranks.declared
    if not workers and not ranks:
        raise NotApplicable("a single process reads everything")
    if workers:
        loss = find_loss(partial(shares, workers), partial(shares, 0), partial(lab.streams.has_fixed_counts, workers))
        looked |= {"samples": loss.of, "workers": workers}
        yield loss, "are yielded by no worker"
    if ranks:
        looked |= {"ranks": lab.ranks.world}
        loss = find_loss(lab.ranks.stream, partial(shares, 0))
        looked["samples"] = loss.of
        if loss.samples:
            require_loss(find_loss(partial(lab.ranks.stream, same_seed=True), partial(shares, 0)))
        yield loss, _NO_RANK


def _dealt(lab: Lab, looked: dict[str, int]) -> Iterator[tuple[Loss, str]]:
    """What torch's weighted sampler can never draw, and what the samplers of all ranks omit in both of two epochs."""
    looked |= lab.epoch.exercised
    total, spare = lab.facts.length or 0, lab.facts.unweighted
    yield Loss(spare, total, same=True, first=f"index {total - spare}"), f"have no weight in {lab.facts.sampler}"
    if lab.ranks.declared:
        loss = dealt_loss(lab.ranks.shards())
        looked |= {"indices": loss.of, "ranks": lab.ranks.world}
        if loss.samples:
            require_loss(dealt_loss(lab.ranks.shards(same_seed=True)))
            loss = in_every_order(lab, loss)
        yield loss, _NO_RANK


def _finding(lab: Lab, loss: Loss, outcome: str) -> Finding:
    shards = lab.ranks.shards() if outcome == _NO_RANK else None
    return Finding(
        message=f"{loss.samples:,} of {loss.of:,} samples {outcome}",
        evidence=without_empty(
            {
                "first lost sample": loss.first,
                "same in every epoch": "yes" if loss.same else None,
                "samples per worker": shards and shards.table,
                "datasets": "each rank has its own" if shards and shards.own_datasets else None,
                "workers": lab.facts.num_workers,
                "drop_last": f"yes, with batch_size={lab.facts.batch_size}" if lab.facts.drop_last else None,
            }
        ),
    )


def _cut_short(lab: Lab, stop: Incident) -> Finding:
    index = f"dataset[{stop.index}]" if stop.index else "the dataset"
    return Finding(
        message=f"{index} raises StopIteration, which silently ends the epoch",
        evidence=without_empty({"index": stop.index, "worker": stop.worker, "batch": list(stop.batch) or None}),
        at=stop.location,
        repro=lab.repro.incident(stop),
    )
