"""DG208: some workers of a stream have nothing to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

FEWEST = 4
"""Samples for each worker, on average, from which on a worker without any is not just one too many for so few."""


@check("DG208", "starved-worker", Severity.WARNING)
def dg208_starved_worker(lab: Lab) -> Judgement:
    """Some workers of a stream get nothing, because it has fewer shards than there are workers.

    Symptom: raising num_workers makes nothing faster; on many ranks some of them wait for others.
    Cause: the stream deals whole shards (files, tars, partitions) out, and there are fewer of them than workers times
        ranks.
    Fix: write more shards, at least as many as workers times ranks, or lower num_workers; or deal samples out.
    Links: https://huggingface.co/docs/datasets/about_mapstyle_vs_iterable
        https://github.com/webdataset/webdataset
    """
    facts = lab.facts
    if facts.kind != "stream":
        raise NotApplicable("the dataset is map-style: its sampler deals the indices out")
    if facts.bare:
        raise NotApplicable("a dataset alone was given: how many workers load it is not known")
    if facts.num_workers < 2:
        raise NotApplicable(f"num_workers={facts.num_workers}: there is nobody to share with")
    trace = lab.streams.stream(facts.num_workers, pin=False)
    idle = [f"worker {number}" for number in trace.idle]
    counts, seats, looked = {}, facts.num_workers, {"samples": trace.total, "workers": facts.num_workers}
    if lab.ranks.declared and not idle:
        shards = lab.ranks.shards()
        counts, seats = shards.table, len(shards.ranks) * lab.ranks.seats
        looked = {"samples": sum(share.total for share in shards.ranks), "workers": seats, "ranks": len(shards.ranks)}
        places = [(worker, rank) for rank, share in enumerate(shards.ranks) for worker in share.empty_workers]
        idle = [f"worker {worker} of rank {rank}" for worker, rank in places]
    if idle and looked["samples"] >= FEWEST * seats:
        yield Finding(
            message=f"{', '.join(idle)} {'gets' if len(idle) == 1 else 'get'} nothing to read",
            evidence={
                "busy workers": f"{seats - len(idle)} of {seats}",
                "samples by worker": counts or trace.table,
            },
        )
    return Looked(looked)
