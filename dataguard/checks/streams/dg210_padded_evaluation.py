"""DG210: evaluation counts some samples twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, NotTested, Severity
from dataguard.machine.units import counted
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG210", "padded-evaluation", Severity.WARNING)
def dg210_padded_evaluation(lab: Lab) -> Judgement:
    """Ranks, or the last batch, are padded with repeated samples, so metrics count some samples twice.

    Symptom: a metric on several GPUs differs a little from the same metric on one, or from one with batches of 1.
    Cause: `DistributedSampler` repeats samples until their number is divisible by the number of ranks; or a sampler
        repeats some to fill the last batch.
    Fix: give each rank `range(rank, len(dataset), world_size)`, and gather the counts; or drop the duplicates when
        gathering predictions, as `Accelerator.gather_for_metrics` does. A loader that holds how many samples of the
        last step of all ranks count is not tested.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    """
    lab.facts.need_role(*EVALUATION, otherwise="a few repeated samples do no harm")
    if lab.facts.kind == "stream" and not lab.ranks.hand_out:
        raise NotApplicable("a stream has no sampler to pad it")
    if lab.facts.kind == "map" and not lab.ranks.declared:
        yield from _filled(lab)
        return Coverage({"indices": len(lab.streams.orders.epochs[0])})
    shards = lab.ranks.shards()
    if not shards.same_dataset:
        raise NotApplicable("each rank has its own dataset: an index means a different sample on each")
    everything = shards.alone.counts
    duplicates = shards.combined - everything
    counts, total = [share.total for share in shards.ranks], shards.alone.total
    is_split = any(share.counts != everything for share in shards.ranks)
    if duplicates and is_split and not everything - shards.combined:
        if shards.counter:
            raise NotTested(
                f"{len(counts)} ranks read {counted(duplicates.total(), 'samples')} of {total:,} again, which the loop "
                f"can drop as it gathers: {shards.counter!r} of what is iterated says how many of the last step count"
            )
        shown = sorted(duplicates, key=str)[:8]
        yield Finding(
            message=f"more than one of {len(counts)} ranks reads {counted(duplicates.total(), 'samples')} of {total:,}",
            evidence={
                "fix here": "sampler=range(rank, len(dataset), world_size), and gather sums and counts",
                f"indices{shards.within}": shown,
                "samples per rank": {f"rank {number}": count for number, count in enumerate(counts)},
            },
            at=lab.places.sampler,
        )
    return Coverage({"indices": sum(counts), "ranks": len(counts)})


def _filled(lab: Lab) -> Iterator[Finding]:
    """The finding where a sampler reads all samples, and some of them again at the end, to fill the last batch."""
    facts, order = lab.facts, lab.streams.orders.epochs[0]
    total, size = facts.length or 0, facts.batch_size or 0
    again = order[total:]
    if 0 < len(again) < size and not len(order) % size and {*order[:total]} == {*range(total)}:
        yield Finding(
            message=f"{facts.sampler} fills the last batch with {counted(len(again), 'samples')} of {total:,} that it "
            "reads again",
            evidence={
                "fix here": "a smaller last batch; or pad samples, with labels that the metric ignores",
                "indices": list(again[:8]),
                "batch_size": size,
            },
            at=lab.places.selection() or lab.places.sampler,
        )
