"""DG703: the seed that a factory takes does not decide the order, or the augmentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.randomness.repeat_evidence import evidence_of, items_of, message_of, place_of
from dataguard.core.model import Coverage, Finding, Judgement, Location, NotApplicable, Severity
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.worker_draws import Repeat


@check("DG703", "ignored-seed", Severity.WARNING, since="2026.4")
def dg703_ignored_seed(lab: Lab) -> Judgement:
    """Runs with different seeds read the same random order, or draw the same augmentation.

    Symptom: the spread of results over several seeds looks smaller than it is, because all runs train on the same
        batches.
    Cause: the factory takes a seed, and something else seeds the generator: `torch.Generator().manual_seed(0)`,
        `DistributedSampler`, whose own `seed` is 0, or `worker_init_fn` from the worker id alone.
    Fix: pass the seed on: `generator=torch.Generator().manual_seed(seed)`, `DistributedSampler(dataset, seed=seed)`;
        in workers, seed from `torch.initial_seed()`, which follows from the seed of the run.
    Links: https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader
    """
    if lab.facts.role in EVALUATION:
        raise NotApplicable(f"the role is {lab.facts.role}: every run should evaluate the same")
    if not lab.target.takes("seed"):
        raise NotApplicable("the factory takes no argument seed")
    lab.need_map("the samples of a stream cannot be drawn again")
    order = lab.reproducibility.seeds.order
    if order.same:
        yield Finding(
            message=f"runs with seeds {order.seeds[0]} and {order.seeds[1]} read all indices in the same random order",
            evidence={
                "fix here": "seed the generator of the order from the factory's argument seed",
                "sampler": lab.facts.sampler,
                "indices": order.indices,
                "epochs": "each has another order, and the same one under both seeds",
            },
            at=_place_of_order(lab),
        )
        return Coverage({"indices": order.indices, "seeds": len(order.seeds)})
    shared = lab.reproducibility.seeds.shared_draws()
    if shared.repeat:
        who = f"worker {shared.repeat.one.worker} draws" if lab.facts.num_workers else "the loader draws"
        seeds = " and ".join(map(str, order.seeds))
        yield Finding(
            message=message_of(who, shared.repeat, f"{items_of(shared)} in runs with seeds {seeds}"),
            evidence={"fix here": _fix_of(shared.repeat), **evidence_of(shared.repeat)},
            at=place_of(shared.repeat),
        )
    return Coverage({**shared.exercised, "indices": order.indices})


def _place_of_order(lab: Lab) -> Location | None:
    """Where the generator of the order is made, or seeded; else where the sampler is made."""
    line = lab.reproducibility.seeds.maker
    return Location(*line) if line else lab.places.sampler


def _fix_of(repeat: Repeat) -> str:
    """What to write in place of the seed that is the same in all runs."""
    if repeat.seeding:
        return f"remove {repeat.seeding.kind}({repeat.seeding.seed}), or seed from torch.initial_seed()"
    return f"seed {repeat.suspects[0].path} from the factory's argument seed"
