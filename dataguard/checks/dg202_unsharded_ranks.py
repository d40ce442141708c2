"""DG202: every rank reads everything."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataguard.doubles import find_doubles
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, check

if TYPE_CHECKING:
    from dataguard.lab import Lab


@check("DG202", "unsharded-ranks", Severity.ERROR)
def dg202_unsharded_ranks(lab: Lab) -> Judgement:
    """Each rank reads all samples, and not a share of its own.

    Symptom: an epoch on many GPUs takes as many steps as on one, and sees each sample as often as there are ranks.
    Cause: nothing deals the samples out between ranks: a sampler that is no `DistributedSampler`, a stream that shards
        by worker alone; or it is done inside workers that are spawned, where `torch.distributed` is not initialised.
    Fix: use `DistributedSampler(dataset, num_replicas=world_size, rank=rank)`; in a stream take every n-th sample, with
        n the number of ranks times that of workers, and pass the rank on to the dataset as an attribute.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
        https://huggingface.co/docs/datasets/use_with_pytorch#distributed
    """
    shards = lab.ranks.shards()
    world = len(shards.ranks)
    looked = Looked({"samples": sum(share.total for share in shards.ranks), "ranks": world})
    if lab.facts.kind == "stream":
        shared, doubled = find_doubles(lab.ranks.stream, partial(lab.stream, lab.ranks.seats))
        samples = {f"rank {number}": len(ids) for number, ids in enumerate(shared.by_worker)}
        whole = shared.ended
    elif not shards.alike:
        raise NotApplicable("ranks hold datasets of their own: an index is another sample on each")
    else:
        everything = shards.alone.counts
        doubled = shards.alone.total if all(share.counts == everything for share in shards.ranks) else 0
        samples, whole = {f"rank {number}": share.total for number, share in enumerate(shards.ranks)}, True
    if doubled and shards.alone.total > 1:
        yield Finding(
            message=f"{doubled:,} samples came out of more than one of {world} ranks",
            evidence={
                "samples by rank": samples,
                "samples of one process": shards.alone.total if whole else f"{shards.alone.total} and more",
                "by worker": shards.table,
            },
        )
    return looked
