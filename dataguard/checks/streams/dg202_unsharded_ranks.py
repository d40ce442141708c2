"""DG202: every rank reads everything."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.streams.duplicates import find_doubles, first_double
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, Undecided, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.ranks.shares import Shards


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
    samples = {f"rank {number}": share.total for number, share in enumerate(shards.ranks)}
    looked = Looked({"samples": sum(samples.values()), "ranks": len(samples)})
    if lab.facts.kind == "map" and not shards.alike:
        raise NotApplicable("ranks hold datasets of their own: an index is another sample on each")
    doubled, first = _streamed(lab, shards) if lab.facts.kind == "stream" else _dealt(shards)
    if doubled and shards.alone.total > 1:
        more = "" if shards.alone.ended else " and more"
        yield Finding(
            message=f"{doubled:,} samples came out of more than one of {len(samples)} ranks",
            evidence=known(
                {
                    "samples by rank": samples,
                    "samples of one process": f"{shards.alone.total}{more}",
                    "by worker": shards.table,
                    "first read twice": first,
                }
            ),
        )
    return looked


def _streamed(lab: Lab, shards: Shards) -> tuple[int, str | None]:
    """How many samples of a stream several ranks yield, and the first of them.

    Ranks that yield only some of them alike may have shuffled apart, which a seed in the training script prevents.
    """
    one = partial(lab.streams.shares, lab.ranks.seats)
    shared, doubled = find_doubles(lab.ranks.stream, one)
    if not doubled:
        return 0, None
    if doubled < shards.alone.total and not find_doubles(partial(lab.ranks.stream, alike=True), one)[1]:
        raise Undecided("ranks share samples out only if their global generators are seeded alike: pass a seed")
    return doubled, first_double(shared, one(pin=False)) or first_double(lab.ranks.stream(pin=True), one(pin=True))


def _dealt(shards: Shards) -> tuple[int, str | None]:
    """The same for indices, which every rank is dealt all of."""
    everything = shards.alone.counts
    if not everything or any(share.counts != everything for share in shards.ranks):
        return 0, None
    return shards.alone.total, f"index {min(everything, key=str)}"
