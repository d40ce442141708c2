"""DG108: ranks share one RNG state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.rewrites import rewritten, seeded_by_rank
from dataguard.checks.randomness.repeat_evidence import evidence_of, items_of, message_of, place_of
from dataguard.core.model import Coverage, Finding, Judgement, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG108", "cloned-rank-rng", Severity.WARNING)
def dg108_cloned_rank_rng(lab: Lab) -> Judgement:
    """Ranks draw the same random numbers, which divides augmentation diversity by the number of ranks.

    Symptom: no error; training on many GPUs generalises slightly worse than on one.
    Cause: every rank uses the same seed. Worker seeds derive from torch's global generator, or from the loader's
        `generator`, in the main process: if these are equal on two ranks, so are the random numbers of their workers.
    Fix: share one seed for what ranks must agree on, such as the order of `DistributedSampler`, and another one per
        rank for the rest: `torch.manual_seed(seed + 1000 * rank)`, or `generator=torch.Generator().manual_seed(...)`.
    Links: https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader
        https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    shared = lab.ranks.shared_draws()
    repeat = shared.repeat
    if repeat:
        each = shared.exercised["workers"] // shared.exercised["ranks"]
        first, second = (_name_of(where.worker, each, lab) for where in (repeat.one, repeat.two))
        at = place_of(repeat)
        yield Finding(
            message=message_of(f"{first} and {second} draw", repeat, items_of(shared)),
            evidence={"fix here": rewritten(lab, at, seeded_by_rank) or _FIX, **evidence_of(repeat)},
            at=at,
        )
    return Coverage(shared.exercised)


_FIX = "add 1000 * rank to the seed: the workers of one rank have consecutive ones"


def _name_of(number: int, each: int, lab: Lab) -> str:
    rank, worker = divmod(number, each)
    return f"worker {worker} of rank {rank}" if lab.facts.num_workers else f"rank {rank}"
