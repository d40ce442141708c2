"""DG211: evaluation never sees the samples of its last batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.rewrites import rewritten, uncut
from dataguard.core.incident import observed_or_none
from dataguard.core.model import (
    Coverage,
    Finding,
    Judgement,
    Location,
    NotApplicable,
    NotTested,
    Severity,
    Undecided,
)
from dataguard.machine.units import counted
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.streams.wrapped_loaders import WrapperPass


@check("DG211", "dropped-evaluation", Severity.WARNING, since="2026.2")
def dg211_dropped_evaluation(lab: Lab) -> Judgement:
    """An evaluation loader drops its last, incomplete batch, so some samples are not evaluated.

    Symptom: no error; a metric leaves out a few samples, and changes with the batch size. Where samples are sorted by
        class, the last class suffers; where they are shuffled, the metric differs from one evaluation to the next.
    Cause: `drop_last=True`, which suits training, is set for all loaders; a loader of the project's own class counts
        whole batches only; or a wrapper that groups batches yields whole groups only.
    Fix: `drop_last=False` for validation and test loaders; yield the last group as well.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """
    facts = lab.facts
    facts.need_role(*EVALUATION, otherwise="training may drop a few samples of each epoch")
    if facts.own:
        return (yield from _own(lab))
    lab.need_map("a stream has no indices that could be missing")
    held = observed_or_none(lambda: lab.streams.wrapped) if facts.holder else None
    if held is not None and held.left:
        yield _not_grouped(lab, held)
        return Coverage({"batches": held.batches * held.group})
    if not facts.drop_last or not facts.length or not facts.batch_size:
        raise NotApplicable("drop_last is off: incomplete batches are kept")
    if facts.sampler not in ("SequentialSampler", "RandomSampler"):
        raise NotApplicable(f"{facts.sampler} chooses the samples: others are left out on purpose, or in turn")
    orders, every = lab.streams.orders, set(range(facts.length))
    missing = [sorted(every.difference(epoch)) for epoch in orders.epochs]
    if orders.whole and missing and {len(epoch) for epoch in missing} == {facts.length % facts.batch_size} != {0}:
        left_out = counted(len(missing[0]), "samples")
        in_turn = "" if all(epoch == missing[0] for epoch in missing) else ", other ones each time"
        at = lab.places.setting("drop_last")
        yield Finding(
            message=f"drop_last=True leaves {left_out} of {facts.length:,} out of every evaluation{in_turn}",
            evidence={
                "fix here": rewritten(lab, at, uncut) or "drop_last=False",
                "indices": missing[0][:8],
                "batch_size": facts.batch_size,
                "epochs compared": len(orders.epochs),
            },
            at=at,
        )
    return Coverage({"indices": sum(map(len, orders.epochs)), "epochs": len(orders.epochs)})


def _not_grouped(lab: Lab, held: WrapperPass) -> Finding:
    """The finding for a wrapper whose batches are groups of the loader's, such as those of one step."""
    count = held.batches * held.group + held.left
    return Finding(
        message=f"{held.name} yields groups of {held.group} batches, and leaves the last {held.left} of {count:,} out "
        "of every evaluation",
        evidence={"fix here": "yield the last group, which is smaller, after the loop", "groups": held.batches},
        at=lab.streams.wrapper_end(held.batches) or lab.facts.made_at,
    )


def _own(lab: Lab) -> Judgement:
    """A finding if a loader of the project's own class reads all of its dataset but the last, incomplete batch."""
    own = lab.streams.own_reads
    if own is None:
        raise NotTested("the loader reads its dataset elsewhere, or requests no sample of it by index")
    if not own.whole:
        raise Undecided("reading all of the dataset twice takes too long")
    rest, batches = own.length % max(own.size, 1), own.length // max(own.size, 1)
    is_rest = not own.repeats and {len(epoch) for epoch in own.unread} == {rest} != {0}
    if is_rest and own.batches in (None, batches):
        left_out = f"{counted(rest, 'samples')} of {own.length:,}"
        yield Finding(
            message=f"the loader reads whole batches only, which leaves {left_out} out of every evaluation",
            evidence={"indices": list(own.unread[0][:8]), "samples in a batch": own.size, "epochs": len(own.unread)},
            at=Location(*own.at) if own.at else lab.dataset.location,
        )
    return Coverage({"samples": own.length, "epochs": len(own.unread)})
