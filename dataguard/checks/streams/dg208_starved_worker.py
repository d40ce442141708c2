"""DG208: some workers of a stream get no samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, NotTested, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

FEWEST_PER_WORKER = 4
"""Average number of samples per worker from which on an idle worker is not just due to a short stream. Chosen, not
derived."""


@check("DG208", "starved-worker", Severity.WARNING)
def dg208_starved_worker(lab: Lab) -> Judgement:
    """Some workers of a stream get no samples, because it has fewer shards than workers.

    Symptom: raising `num_workers` does not speed up loading; on many ranks, some wait for others.
    Cause: the stream distributes whole shards (files, tars, partitions), and there are fewer of them than workers times
        ranks.
    Fix: write more shards, at least as many as workers times ranks, or lower `num_workers`; or distribute samples
        instead of shards.
    Links: https://huggingface.co/docs/datasets/about_mapstyle_vs_iterable
        https://github.com/webdataset/webdataset
    """
    facts = lab.facts
    if facts.kind != "stream":
        raise NotApplicable("the dataset is map-style: its sampler distributes the indices")
    if facts.bare:
        raise NotTested("the target is a dataset, not a loader: its number of workers is unknown")
    if facts.num_workers < 2:
        raise NotApplicable(f"num_workers={facts.num_workers}: fewer than two workers")
    trace = lab.streams.stream(facts.num_workers, seeded=False)
    idle = [f"worker {number}" for number in trace.idle]
    counts, workers, exercised = {}, facts.num_workers, {"samples": trace.total, "workers": facts.num_workers}
    if lab.ranks.declared and not idle:
        shards = lab.ranks.shards()
        counts, workers = shards.table, len(shards.ranks) * lab.ranks.workers_per_rank
        exercised = {
            "samples": sum(share.total for share in shards.ranks),
            "workers": workers,
            "ranks": len(shards.ranks),
        }
        places = [(worker, rank) for rank, share in enumerate(shards.ranks) for worker in share.empty_workers]
        idle = [f"worker {worker} of rank {rank}" for worker, rank in places]
    if idle and exercised["samples"] >= FEWEST_PER_WORKER * workers:
        yield Finding(
            message=f"{', '.join(idle)} {'gets' if len(idle) == 1 else 'get'} no samples",
            evidence={
                "busy workers": f"{workers - len(idle)} of {workers}",
                "samples per worker": counts or trace.table,
            },
        )
    return Coverage(exercised)
