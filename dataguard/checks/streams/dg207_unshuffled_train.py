"""DG207: a training loader does not shuffle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import ignores_index
from dataguard.checks.common.rewrites import rewritten, shuffled
from dataguard.core.incident import observed_or_none
from dataguard.core.model import (
    Coverage,
    Finding,
    Judgement,
    NotApplicable,
    NotTested,
    Severity,
    Undecided,
    without_empty,
)
from dataguard.stats.coincidence import ORDERED

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.rows.origins import OwnOrder


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
    coverage = Coverage({"indices": sum(map(len, orders.epochs)), "epochs": len(orders.epochs)})
    if not (orders.ascending and orders.replayed):
        return coverage
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
    own = observed_or_none(lambda: lab.provenance.own_order)
    if contents.varies if own is None else own.varies:
        when = f"when {contents.hook} is called" if contents.hook else "in every epoch"
        raise NotApplicable(f"the dataset gives an index another sample {when}: it shuffles itself")
    order, at = orders.epochs[0], lab.places.sampler
    yield Finding(
        message=f"{facts.sampler} reads {len(order):,} samples in the order of the dataset in every epoch"
        + (_shuffled_once(own) if own is not None and own.shuffled else ""),
        evidence=without_empty(
            {
                "fix here": rewritten(lab, at, shuffled) or "shuffle=True, or a sampler that shuffles",
                "begins with": list(order[:8]),
                "sampler": facts.sampler,
                "role": facts.role,
                "read from": list(own.begins) if own is not None else None,
            }
        ),
        at=at,
    )
    return coverage


def _shuffled_once(own: OwnOrder) -> str:
    """What is not in order although indices are. The same samples share a batch in every epoch all the same."""
    if own.of_files:
        return ", whose files are in no order of their names"
    return f", which has shuffled the rows of {own.source} once"
