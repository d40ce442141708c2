"""DG403: a last batch of one sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.incident import observed_or_none
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.core.loader_facts import LoaderFacts
    from dataguard.lab.lab import Lab
    from dataguard.lab.ranks.shares import Share


@check("DG403", "singleton-batch", Severity.WARNING)
def dg403_singleton_batch(lab: Lab) -> Judgement:
    """The last training batch holds a single sample.

    Symptom: "Expected more than 1 value per channel when training" at the end of an epoch; or, without batch
        normalization, one noisy step per epoch.
    Cause: the number of samples modulo the batch size is 1, and drop_last is off.
    Fix: `drop_last=True` for the training loader, or another batch size.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html
    """
    facts = lab.facts
    if not facts.batched:
        raise NotApplicable("automatic batching is off (batch_size=None)")
    if facts.batch_size == 1:
        raise NotApplicable("batch_size=1: every batch holds one sample, on purpose")
    facts.need_role("train", otherwise="a batch of one sample is harmless in evaluation")
    epoch = lab.epoch
    if epoch.limit is not None:
        raise NotApplicable("len(dataset) is too large: see DG301")
    sizes = epoch.sizes or (tuple(batch.size for batch in epoch.batches) if epoch.whole else None)
    if sizes is None:
        raise Undecided("the stream was not read to its end, so its last batches are unknown: use --all")
    singles = [number for number, size in enumerate(sizes) if size == 1]
    # A sampler with a budget, such as a number of tokens, varies the batch size, and may choose 1 on purpose.
    fixed = sizes.count(max(sizes)) >= len(sizes) / 2
    if singles and fixed and max(sizes) > 1:
        yield Finding(
            message=f"batch {singles[0]} of {len(sizes)} holds a single sample",
            evidence={
                "samples per epoch": sum(sizes),
                "batch size": max(sizes),
                "batches of one sample": len(singles),
                "drop_last": facts.drop_last,
            },
        )
        return Looked({"batches": len(sizes)})
    ranks = _ranks(lab)
    for number, share in enumerate(ranks):
        single = _single_batch(share, facts)
        if single:
            yield Finding(
                message=f"{single} of rank {number} holds a single sample",
                evidence={"samples per worker": [len(ids) for ids in share.by_worker], "batch size": facts.batch_size},
            )
            break
    return Looked({"batches": len(sizes)} | ({"ranks": len(ranks)} if ranks else {}))


def _ranks(lab: Lab) -> tuple[Share, ...]:
    """What each rank reads, if the loader is meant for several."""
    return observed_or_none(lambda: lab.ranks.shards().ranks if lab.ranks.declared else ()) or ()


def _single_batch(share: Share, facts: LoaderFacts) -> str | None:
    """Which batch of a rank holds one sample: the last one, or the last one of a worker of a stream."""
    size = facts.batch_size
    if size is None or facts.drop_last or not share.ended or share.batches < 2:
        return None
    if facts.kind == "map":
        whole = share.batches == -(-share.total // size)
        return "the last batch" if whole and share.total % size == 1 else None
    singles = (worker for worker, ids in enumerate(share.by_worker) if len(ids) % size == 1)
    return next((f"the last batch of worker {worker}" for worker in singles), None)
