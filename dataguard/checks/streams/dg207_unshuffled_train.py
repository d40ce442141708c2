"""DG207: training goes through the data in their own order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import is_heedless
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG207", "unshuffled-train", Severity.WARNING)
def dg207_unshuffled_train(lab: Lab) -> Judgement:
    """A loader for training goes through the dataset in its own order.

    Symptom: where the data are sorted by class, the loss goes up and down within each epoch; the same samples share
        their batches for ever.
    Cause: `shuffle=True` is missing, or a sampler without shuffling took its place.
    Fix: pass `shuffle=True`, or to a `DistributedSampler`; where the order is meant, as for a recurrent state that is
        carried on, expect this finding in the settings and say why.
    Links: https://docs.pytorch.org/docs/stable/data.html#data-loading-order-and-sampler
    """
    facts = lab.facts
    if facts.kind == "stream":
        raise NotApplicable("a stream has no sampler")
    if facts.bare:
        raise NotApplicable("a dataset alone was given: how it is loaded is not known")
    facts.need_role("train", otherwise="its order changes nothing")
    orders = lab.streams.orders
    looked = Looked({"indices": sum(map(len, orders.epochs)), "epochs": len(orders.epochs)})
    if not (orders.ascending and orders.replayed):
        return looked
    if not orders.epochs[0]:
        raise NotApplicable("the loader draws its indices where they cannot be seen")
    if orders.batches[0] < 2:
        raise NotApplicable("one batch holds everything: its order changes nothing")
    try:
        contents = lab.streams.contents
    except Undecided as why:
        raise Undecided(f"the sampler does not shuffle; whether the dataset does was not seen: {why}") from why
    if contents.alike or is_heedless(lab):
        raise NotApplicable("the dataset does not heed the index: it draws its samples itself")
    if contents.moving:
        raise NotApplicable("the dataset gives an index another sample in every epoch: it shuffles itself")
    order = orders.epochs[0]
    yield Finding(
        message=f"{facts.sampler} goes through {len(order):,} samples in the dataset's own order, every epoch",
        evidence={"begins with": list(order[:8]), "sampler": facts.sampler, "role": facts.role},
    )
    return looked
