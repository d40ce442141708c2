"""DG210: evaluation counts some samples twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG210", "padded-evaluation", Severity.WARNING)
def dg210_padded_evaluation(lab: Lab) -> Judgement:
    """Ranks are padded with repeated samples, so that metrics count some samples twice.

    Symptom: a metric on several GPUs differs a little from the same metric on one.
    Cause: `DistributedSampler` repeats samples until they divide by the number of ranks.
    Fix: give each rank `range(rank, len(dataset), world_size)`, and gather what ranks counted; or drop the doubles when
        predictions are gathered, as `Accelerator.gather_for_metrics` does.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    """
    lab.facts.need_role("val", "test", otherwise="a sample more or less changes nothing")
    if lab.facts.kind == "stream":
        raise NotApplicable("a stream has no sampler that pads")
    shards = lab.ranks.shards()
    if not shards.alike:
        raise NotApplicable("ranks hold datasets of their own: an index is another sample on each")
    everything = shards.alone.counts
    doubles = shards.together - everything
    counts = [share.total for share in shards.ranks]
    shared_out = any(share.counts != everything for share in shards.ranks)
    if doubles and shared_out and not everything - shards.together:
        shown = sorted(doubles, key=str)[:8]
        yield Finding(
            message=f"{doubles.total()} of {shards.alone.total:,} samples are read by two of {len(counts)} ranks",
            evidence={
                "indices": shown,
                "samples by rank": {f"rank {number}": count for number, count in enumerate(counts)},
            },
        )
    return Looked({"indices": sum(counts), "ranks": len(counts)})
