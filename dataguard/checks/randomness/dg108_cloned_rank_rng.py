"""DG108: ranks share one RNG state."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.randomness.repeated_draws import Pairs, Seat, find_repeat
from dataguard.model import Finding, Judgement, Looked, Severity, Undecided, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.same_items import SameItems


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
    world = lab.ranks.world
    draws, repeat = find_repeat(lab.ranks.same_items, partial(_pairs, world))
    each = draws.workers // world
    if repeat:
        shown = ", ".join(draws.shown[:4]) + (", ..." if draws.items > 4 else "")
        one, two = (_words(seat, each, lab) for seat in (repeat.one, repeat.two))
        yield Finding(
            message=(
                f"{one} and {two} draw the same {repeat.count} random values of {repeat.leaves[0]} for items {shown}"
            ),
            evidence=known({**repeat.evidence, "fix here": None}),
            at=repeat.at,
        )
    elif draws.varied and lab.ranks.declared and not lab.ranks.shards().alike:
        raise Undecided("each rank has its own dataset: no item can be drawn on several ranks and compared")
    return Looked({"draws": draws.draws, "items": draws.items, "workers": draws.workers, "ranks": world})


def _pairs(world: int, draws: SameItems) -> Pairs:
    """Every worker of each rank with every worker of the later ones, in the first epoch, those of one number first."""
    each = draws.workers // world
    seats = combinations(range(draws.workers), 2)
    pairs = [((one, 0), (two, 0)) for one, two in seats if one // each != two // each]
    return sorted(pairs, key=lambda pair: (pair[1][0] - pair[0][0]) % each != 0)


def _words(seat: Seat, each: int, lab: Lab) -> str:
    rank, worker = divmod(seat[0], each)
    return f"worker {worker} of rank {rank}" if lab.facts.num_workers else f"rank {rank}"
