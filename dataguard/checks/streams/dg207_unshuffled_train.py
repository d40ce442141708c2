"""DG207: a training loader does not shuffle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import ignores_index
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, NotTested, Severity, Undecided
from dataguard.stats.coincidence import ORDERED

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG207", "unshuffled-train", Severity.WARNING)
def dg207_unshuffled_train(lab: Lab) -> Judgement:
    """A training loader reads the dataset in order, without shuffling.

    Symptom: if the data are sorted by class, the loss rises and falls within each epoch; the same samples share a batch
        forever.
    Cause: `shuffle=True` is missing, or a sampler that does not shuffle replaces it.
    Fix: pass `shuffle=True` to the loader or the `DistributedSampler`; if the order is intended, as for a recurrent
        state carried over between batches, add this finding to `expect` in the settings with the reason.
    Links: https://docs.pytorch.org/docs/stable/data.html#data-loading-order-and-sampler
    """
    facts = lab.facts
    if facts.kind == "stream":
        raise NotApplicable("a stream has no sampler")
    if facts.bare:
        raise NotTested("the target is a dataset, not a loader: its order is unknown")
    facts.need_role("train", otherwise="its order does not matter")
    orders = lab.streams.orders
    looked = Coverage({"indices": sum(map(len, orders.epochs)), "epochs": len(orders.epochs)})
    if not (orders.ascending and orders.replayed):
        return looked
    if not orders.epochs[0]:
        raise NotTested("the indices of the loader cannot be observed")
    if orders.batches[0] < 2:
        raise NotApplicable("one batch holds all samples: their order does not matter")
    if facts.shuffled and len(orders.epochs[0]) < ORDERED:
        raise Undecided(f"{facts.sampler} may draw {len(orders.epochs[0])} indices in order by chance")
    try:
        contents = lab.streams.contents
    except Undecided as why:
        raise Undecided(f"the sampler does not shuffle; whether the dataset does is unknown: {why}") from why
    if contents.same or ignores_index(lab):
        raise NotApplicable("the dataset ignores the index: it draws its samples itself")
    if contents.varies:
        raise NotApplicable("the dataset returns a different sample for an index in every epoch: it shuffles itself")
    order = orders.epochs[0]
    yield Finding(
        message=f"{facts.sampler} reads {len(order):,} samples in the order of the dataset in every epoch",
        evidence={"begins with": list(order[:8]), "sampler": facts.sampler, "role": facts.role},
    )
    return looked
