"""DG411: batches that lie in one buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG411", "overwritten-batch", Severity.ERROR, since="2026.3")
def dg411_overwritten_batch(lab: Lab) -> Judgement:
    """A later batch writes into the memory of an earlier one.

    Symptom: a batch changes while the model trains on it; batches or outputs that are kept are all equal to the last.
    Cause: collate_fn, or a dataset that returns whole batches, fills one buffer again and again. Workers share its
        memory with the main process, and fill it while the batch before is in use.
    Fix: allocate a new tensor for each batch (`torch.empty` or `torch.stack` in collate_fn), or return a copy. If each
        batch is used before the next one is fetched, set `reused_batches = true` in the contract.
    Links: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
    """
    facts = lab.facts
    if lab.settings.contract.get("reused_batches"):
        raise NotApplicable("the contract says that batches reuse memory")
    if facts.batched and facts.default_collate and not facts.holder:
        raise NotApplicable("default_collate allocates each batch")
    observed = lab.batches.overwritten
    used_at_once = not facts.num_workers and facts.role in EVALUATION
    if observed.leaves and not used_at_once:
        source = facts.collate if facts.batched else facts.dataset
        source = facts.holder if facts.holder and facts.default_collate else source
        while_used = "while it is in use" if facts.num_workers else "as soon as it is fetched"
        yield Finding(
            message=f"batch {observed.later} overwrites batch{observed.leaves[0]} of batch 0, {while_used}: {source} "
            "reuses its memory",
            evidence={
                "fix here": "allocate this memory for each batch, or return a copy of it (.clone())",
                "leaves": [f"batch{path}" for path in observed.leaves],
                "batches taken": observed.batches,
            },
            at=lab.batches.overwriting_line(observed.leaves) or (None if facts.batched else lab.dataset.location),
            repro=lab.repro.scan("DG411", ""),
            ambiguous=not facts.num_workers,
        )
    return Coverage({"batches": observed.batches or len(lab.epoch.batches)}, _USED_AT_ONCE if observed.leaves else None)


_USED_AT_ONCE = "batches share one buffer: each is to be used before the next one is fetched"
