"""DG203: ranks run out of batches at different steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.rewrites import even_parts, rewritten
from dataguard.checks.streams.sources import not_ended
from dataguard.core.model import Coverage, Finding, Judgement, Location, Severity
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG203", "uneven-ranks", Severity.ERROR)
def dg203_uneven_ranks(lab: Lab) -> Judgement:
    """Ranks yield different numbers of batches, so those with more batches wait forever for the others.

    Symptom: training on several GPUs hangs at the end of the first epoch, until a collective times out.
    Cause: the number of samples is not divisible by the number of ranks, or by ranks times workers, and nothing pads
        or drops samples.
    Fix: let `DistributedSampler` pad, or drop with `drop_last=True`; end a stream at the last step that all ranks
        reach, with `islice` or `with_epoch`; or train inside `torch.distributed.algorithms.join.Join`.
    Links: https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
    """
    shards = lab.ranks.shards()
    batches = [share.batches for share in shards.ranks]
    if not all(share.finished for share in shards.ranks):
        raise not_ended(lab, f"the ranks yield more than {max(batches)} batches: use --all to read them to the end")
    least, most = min(batches), max(batches)
    if least < most:
        first, last = batches.index(least), batches.index(most)
        at = _place(lab)
        yield Finding(
            message=(
                f"rank {first} runs out after {counted(least, 'batches')}, rank {last} yields {most:,}: "
                f"DDP would hang at step {least + 1:,}"
            ),
            evidence={
                "fix here": rewritten(lab, at, even_parts)
                or f"give each rank as many: {counted(least, 'batches')}, or repeat samples",
                "batches": {f"rank {number}": count for number, count in enumerate(batches)},
                "samples per worker": shards.table,
            },
            at=at,
        )
    return Coverage({"batches": sum(batches), "ranks": len(batches)})


def _place(lab: Lab) -> Location | None:
    """Where the user's stream or sampler first selects, a rank gets its dataset, or torch's sampler is made."""
    selection = lab.places.selection(first=True, ranks=lab.ranks.world)
    return selection or (lab.dataset.location if lab.facts.kind == "stream" else lab.places.share)
