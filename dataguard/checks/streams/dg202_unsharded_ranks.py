"""DG202: every rank reads everything."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.rewrites import rewritten, shared_among_ranks
from dataguard.checks.streams.duplicates import Duplicates, find_duplicates
from dataguard.core.model import (
    Coverage,
    Finding,
    Judgement,
    Location,
    NotApplicable,
    Severity,
    Undecided,
    without_empty,
)
from dataguard.machine.units import counted
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.ranks.shares import Shards


@check("DG202", "unsharded-ranks", Severity.ERROR)
def dg202_unsharded_ranks(lab: Lab) -> Judgement:
    """Each rank reads all samples instead of a share of its own, or ranks that share a model read different ones.

    Symptom: an epoch on many GPUs takes as many steps as on one, and each sample is seen once per rank.
    Cause: nothing splits the samples between ranks: the sampler is not a `DistributedSampler`, or a stream shards by
        worker only; or it shards inside spawned workers, where `torch.distributed` is not initialised. With
        `contract.same_batches`: the sampler gets the rank in place of the one among data-parallel groups.
    Fix: use `DistributedSampler(dataset, num_replicas=world_size, rank=rank)`; in a stream take every n-th sample, with
        n the number of ranks times the number of workers, and pass the rank to the dataset as an attribute.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
        https://huggingface.co/docs/datasets/use_with_pytorch#distributed
    """
    size = lab.settings.contract.get("same_batches", 1)
    if size > 1 and (pair := lab.ranks.split_group()):
        yield _split(lab, size, *pair)
        return Coverage({"ranks": lab.ranks.world})
    if lab.facts.role in EVALUATION:
        raise NotApplicable(f"the role is {lab.facts.role}: each rank may evaluate all samples")
    shards = lab.ranks.shards()
    samples = {f"rank {number}": share.total for number, share in enumerate(shards.ranks)}
    coverage = Coverage({"samples": sum(samples.values()), "ranks": len(samples)})
    if lab.facts.kind == "map" and not shards.same_dataset:
        raise NotApplicable("each rank has its own dataset: an index means a different sample on each")
    is_read = lab.facts.kind == "stream" and not shards.received
    doubled, first = _streamed(lab, shards) if is_read else _dealt(shards)
    if doubled and shards.alone.total > 1:
        at_least = "" if shards.alone.ended else "at least "
        at = _place(lab)
        yield Finding(
            message=f"more than one of {len(samples)} ranks reads {counted(doubled, 'samples')}",
            evidence=without_empty(
                {
                    "fix here": rewritten(lab, at, shared_among_ranks)
                    or (_STREAM if lab.facts.kind == "stream" else _SAMPLER),
                    "samples per rank": samples,
                    "samples in one process": f"{at_least}{shards.alone.total}",
                    "samples per worker": shards.table,
                    "first duplicate": first,
                }
            ),
            at=at,
        )
    return coverage


def _split(lab: Lab, size: int, first: int, other: int) -> Finding:
    return Finding(
        message=f"ranks {first} and {other} share a model, and read different batches",
        evidence={"fix here": f"rank // {size} of world_size // {size}, in place of rank of world_size"},
        at=_place(lab),
    )


_STREAM = "take every n-th item on each of n ranks, before workers share what is left"
_SAMPLER = "give each rank its own part: sampler=DistributedSampler(dataset)"


def _place(lab: Lab) -> Location | None:
    """Where a stream takes its samples; of a dataset, where its sampler is made."""
    if lab.facts.kind == "stream":
        return lab.places.selection(ranks=lab.ranks.world) or lab.dataset.location
    return lab.places.sampler


def _streamed(lab: Lab, shards: Shards) -> tuple[int, str | None]:
    """How many samples of a stream several ranks yield, and the first of them.

    Ranks that share only some samples may shuffle differently, which a seed in the training script prevents.
    """
    single_process = partial(lab.streams.shares, lab.ranks.workers_per_rank)
    found = find_duplicates(lab.ranks.stream, single_process)
    doubled = found.samples
    if not doubled:
        return 0, None
    if (
        doubled < shards.alone.total
        and not find_duplicates(partial(lab.ranks.stream, same_seed=True), single_process).samples
    ):
        raise Undecided(
            "ranks split the samples only if their global RNGs have the same seed: seed the shuffle explicitly"
        )
    if found.read:
        return doubled, found.first
    seeded = Duplicates(lab.ranks.stream(seeded=True), single_process(seeded=True), doubled)
    return doubled, found.first or seeded.first


def _dealt(shards: Shards) -> tuple[int, str | None]:
    """The same for indices, where every rank is given the same: all of them, or the same draws."""
    first, *others = [share.counts for share in shards.ranks]
    if not first or not others or any(counts != first for counts in others):
        return 0, None
    return first.total(), f"index {min(first, key=str)}{shards.within}"
