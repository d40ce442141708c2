"""DG403: a last batch of one sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dataguard.checks.common.check import check
from dataguard.checks.common.rewrites import cut, rewritten
from dataguard.checks.streams.sources import not_ended
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.core.loader_facts import LoaderFacts
    from dataguard.lab.lab import Lab
    from dataguard.lab.ranks.shares import Share


@check("DG403", "singleton-batch", Severity.WARNING)
def dg403_singleton_batch(lab: Lab) -> Judgement:
    """The last training batch holds a single sample.

    Symptom: "Expected more than 1 value per channel when training" at the end of an epoch, or one step per epoch with
        the batch statistics of one sample. Harmless for a model without batch normalization: `--model` tries yours.
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
        raise not_ended(lab, "the stream was not read to its end, so its last batches are unknown: use --all")
    single = _first_single(sizes)
    ranks = () if single is not None else _ranks(lab)
    coverage = Coverage({"batches": len(sizes)} | ({"ranks": len(ranks)} if ranks else {}))
    by_rank = ((number, share, _single_batch(share, facts)) for number, share in enumerate(ranks))
    of_rank = next((rank for rank in by_rank if rank[2]), None)
    if single is None and of_rank is None:
        return coverage
    if reason := _harmless(lab):
        return replace(coverage, note=f"a batch holds a single sample, but {reason}")
    at = facts.batch_sampler_at or facts.made_at
    whole = rewritten(lab, at, cut) if not facts.batch_sampler_at else None
    fix = whole or ("leave the last batch out" if facts.batch_sampler_at else "drop_last=True")
    evidence: dict[str, Any] = {"fix here": fix, "drop_last": facts.drop_last}
    if of_rank is None:
        message = f"batch {single} of {len(sizes)} holds a single sample"
        evidence |= {"samples per epoch": sum(sizes), "batch size": max(sizes), "batches of one sample": sizes.count(1)}
    else:
        number, share, which = of_rank
        message = f"{which} of rank {number} holds a single sample"
        evidence |= {
            "samples per worker": list(share.samples),
            "batch size": max(share.sizes, default=facts.batch_size),
        }
    yield Finding(message, evidence, at)
    return coverage


def _first_single(sizes: Sequence[int]) -> int | None:
    """The number of the first batch of one sample, if most batches have the same size.

    A sampler with a budget, such as a number of tokens, varies the batch size, and may choose 1 on purpose.
    """
    largest = max(sizes, default=1)
    return sizes.index(1) if largest > 1 in sizes and sizes.count(largest) >= len(sizes) / 2 else None


def _ranks(lab: Lab) -> tuple[Share, ...]:
    """What each rank reads, if the loader is meant for several."""
    return observed_or_none(lambda: lab.ranks.shards().ranks if lab.ranks.declared else ()) or ()


def _single_batch(share: Share, facts: LoaderFacts) -> str | None:
    """Which batch of a rank holds one sample: one that its sampler planned, or the last one of a worker of a stream."""
    if not share.ended or share.batches < 2:
        return None
    if facts.kind == "map":
        number = _first_single(share.sizes)
        return None if number is None else f"batch {number} of {len(share.sizes)}"
    size = facts.batch_size
    if size is None or facts.drop_last or share.batches != sum(-(-count // size) for count in share.samples):
        return None
    singles = (worker for worker, count in enumerate(share.samples) if count % size == 1)
    return next((f"the last batch of worker {worker}" for worker in singles), None)


def _harmless(lab: Lab) -> str | None:
    """Why a batch of one sample does no harm, if it is known: batch normalization needs more, and little else does."""
    inputs = [leaf for sample in lab.epoch.samples for leaf in sample.leaves if leaf.size > 1]
    if inputs and all(len(leaf.shape or ()) == 1 and "int" in leaf.type_name for leaf in inputs):
        return "samples are rows of tokens, whose models normalize each alone"
    trial = observed_or_none(lambda: lab.model.stepped) if lab.settings.model else None
    return None if trial is None or trial.batch_statistics else "the model uses no statistics of the batch"
