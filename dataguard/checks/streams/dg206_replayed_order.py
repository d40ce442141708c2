"""DG206: every epoch has the same order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.rewrites import reseeded, rewritten
from dataguard.core.incident import is_library, observed_or_none
from dataguard.core.model import (
    Coverage,
    Finding,
    Judgement,
    Location,
    NotApplicable,
    NotTested,
    Severity,
    Undecided,
    without_empty,
)
from dataguard.settings.parsers import EVALUATION
from dataguard.stats.coincidence import ORDERED

if TYPE_CHECKING:
    from dataguard.lab.core.records import Seeding
    from dataguard.lab.lab import Lab

BARELY_MIXED = 0.9
"""The correlation of the places of samples in two epochs above which a shuffle buffer is too small for the stream.
Chosen, not derived: it is only noted."""


@check("DG206", "replayed-order", Severity.ERROR)
def dg206_replayed_order(lab: Lab) -> Judgement:
    """The sampler or the stream shuffles, but draws the same order in every epoch.

    Symptom: no error; the same samples share a batch forever, and the last ones are always last.
    Cause: the generator of the order is re-seeded in every epoch, or `set_epoch` is missing or has no effect, or is
        called for another object, such as `loader.sampler` beside a batch sampler; or
        `itertools.cycle(loader)` keeps the batches of the first epoch, and repeats them.
    Fix: seed the generator once, where the loader is created, and let it advance; or seed it from the epoch, as
        `torch.Generator().manual_seed(self.seed + self.epoch)`, and let `set_epoch` set `self.epoch`.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    """
    facts = lab.facts
    if facts.role in EVALUATION:
        raise NotApplicable(f"the role is {facts.role}: a fixed order does no harm")
    if facts.kind == "stream":
        order = lab.streams.stream_order
        if order.correlation is not None and order.correlation > BARELY_MIXED and not order.replayed:
            note = f"the stream barely mixes: the places of samples in two epochs correlate by {order.correlation:.2f}"
            return Coverage({"samples": order.samples}, f"{note}; use a larger shuffle buffer, or shuffle its shards")
        if not order.replayed:
            raise NotApplicable("the order of the stream differs between epochs, or its samples cannot be recognised")
        if order.seed:
            seed = order.seed
            where = Location(seed.file, seed.line, seed.function)
            yield Finding(
                message=f"the stream shuffles, but {seed.kind}({seed.seed}) gives every epoch the same order",
                evidence={
                    "fix here": rewritten(lab, where, reseeded) or _FIX,
                    "epochs compared": 3,
                    "samples": order.samples,
                },
                at=where,
            )
        return Coverage({"samples": order.samples})
    orders = lab.streams.orders
    first = orders.epochs[0]
    if not all(orders.epochs):
        raise NotTested("the indices of later epochs cannot be observed")
    if not orders.whole:
        raise NotApplicable(f"{facts.sampler} is infinite: there is only one epoch")
    # An order that is not the dataset's is meant to change if its own sampler takes the epoch.
    takes_epoch = not orders.ascending and any("sampler" in (hook.what or "") for hook in facts.epoch_hooks)
    draws = bool(orders.reset) or orders.advanced != first
    shuffles = facts.shuffled or takes_epoch or not orders.replayed or draws
    if not shuffles or (orders.ascending and orders.replayed):
        fixed = "" if orders.ascending else ": it gives one order, which may have been drawn when it was made"
        raise NotApplicable(f"{facts.sampler} does not shuffle{fixed}")
    if orders.replayed and None in first:
        raise Undecided("the sampler yields custom index objects in one order, which may be the order of the data")
    if orders.replayed and len(set(first)) < ORDERED:
        raise Undecided(f"two orders of {len(set(first))} indices may be the same by chance")
    own = observed_or_none(lambda: lab.provenance.own_order) if orders.replayed else None
    if own is not None and own.varies:
        raise NotApplicable("the dataset gives an index another sample in every epoch: it shuffles itself")
    if orders.replayed:
        seeding = orders.seeds[0] if orders.seeds and orders.advanced != first else None
        at = _place(lab, seeding, orders.reset)
        yield Finding(
            message=f"{facts.sampler} draws the same order of {len(first):,} indices in {len(orders.epochs)} epochs",
            evidence=without_empty(
                {
                    "fix here": rewritten(lab, at, reseeded) or _FIX,
                    "begins with": list(first[:8]),
                    "seeded by": f"{seeding.kind}({seeding.seed})" if seeding else None,
                    "seeded in each epoch": list(orders.reset),
                    "set_epoch": [hook.what for hook in facts.epoch_hooks] or "none",
                }
            ),
            at=at,
        )
    else:
        yield from _not_reached(lab)
    held = lab.streams.wrapped if facts.holder and not orders.replayed else None
    if held is not None and held.again:
        later, earlier = held.again
        yield Finding(
            message=f"batch {later} of {held.name} holds the tensors of batch {earlier} again: the loader is read "
            "once, and its batches are kept and repeated",
            evidence={
                "fix here": "iterate the loader again when it ends: while True: yield from loader",
                "batches of the loader": facts.batches,
            },
            at=Location(*held.at) if held.at else facts.made_at,
        )
    return Coverage({"indices": sum(map(len, orders.epochs)), "epochs": len(orders.epochs)})


def _not_reached(lab: Lab) -> Iterator[Finding]:
    """The finding where what training iterates looks for the sampler's `set_epoch`, and in the wrong place."""
    facts = lab.facts
    takes_epoch = any("sampler" in (hook.what or "") for hook in facts.epoch_hooks)
    may_miss = facts.holder or facts.own_iter or takes_epoch or "DistributedSampler" in facts.sampler
    missed = observed_or_none(lambda: lab.streams.missed_epoch) if may_miss else None
    if missed is not None:
        asked = f"another {missed.asked}" if missed.has else f"{missed.asked}, which has none"
        yield Finding(
            message=f"{missed.front} looks for set_epoch of {asked}: the {facts.sampler} that is read draws the same "
            "order in every epoch",
            evidence={
                "fix here": f"call set_epoch of the {facts.sampler} that draws the order",
                "epochs compared": 3,
                "confirmed by": f"with set_epoch of that {facts.sampler}, epochs differ",
            },
            at=Location(*missed.at),
        )


_FIX = "seed the order of each epoch from the epoch, or from torch's global generator"


def _place(lab: Lab, seeding: Seeding | None, reset: tuple[str, ...]) -> Location | None:
    """Where the user's code seeds the generator again, or else where it draws the order."""
    if seeding and not is_library(seeding.file):
        return Location(seeding.file, seeding.line, seeding.function)
    again = lab.streams.reset_at(reset[0]) if reset else None
    return again or lab.places.order or lab.places.sampler
