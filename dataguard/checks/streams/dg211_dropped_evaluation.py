"""DG211: evaluation never sees the samples of its last batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.machine.units import counted
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG211", "dropped-evaluation", Severity.WARNING, since="2026.2")
def dg211_dropped_evaluation(lab: Lab) -> Judgement:
    """An evaluation loader drops its last, incomplete batch, so the same samples are never evaluated.

    Symptom: no error; a metric leaves out a few samples, and changes with the batch size. Where samples are sorted by
        class, the last class suffers.
    Cause: `drop_last=True`, which suits training, is set for all loaders.
    Fix: `drop_last=False` for validation and test loaders.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """
    facts = lab.facts
    facts.need_role(*EVALUATION, otherwise="training may drop a few samples of each epoch")
    lab.need_map("a stream has no indices that could be missing")
    if not facts.drop_last or not facts.length or not facts.batch_size:
        raise NotApplicable("drop_last is off: incomplete batches are kept")
    if facts.sampler != "SequentialSampler":
        raise NotApplicable(f"{facts.sampler} chooses the samples: others are left out on purpose, or in turn")
    orders, size = lab.streams.orders, facts.batch_size
    drawn = {index for epoch in orders.epochs for index in epoch}
    missing = [index for index in range(facts.length) if index not in drawn]
    if orders.whole and missing and len(missing) == facts.length % size:
        left_out = counted(len(missing), "samples")
        yield Finding(
            message=f"drop_last=True leaves {left_out} of {facts.length:,} out of every evaluation",
            evidence={"indices": missing[:8], "batch_size": size, "epochs compared": len(orders.epochs)},
        )
    return Looked({"indices": sum(map(len, orders.epochs)), "epochs": len(orders.epochs)})
