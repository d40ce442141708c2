"""DG702: the order of samples depends on which worker or thread is first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, Location, NotApplicable, Severity, without_empty
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

_WHAT = {"order of indices": "the order of indices", "sample": "a sample", "collate_fn": "what collate_fn returns"}


@check("DG702", "racing-order", Severity.WARNING, since="2026.2")
def dg702_racing_order(lab: Lab) -> Judgement:
    """What a batch holds depends on which worker, process or thread is faster.

    Symptom: two runs with the same seeds differ, and more so on a busy machine; results may be assigned to the wrong
        samples.
    Cause: `in_order=False`, `imap_unordered`, `as_completed`, or threads that put results into one queue.
    Fix: take results in the order in which they were requested: `in_order=True`, `imap`, `executor.map`. In evaluation,
        let each sample carry its index.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """
    if not lab.facts.in_order and lab.facts.num_workers > 1:
        if lab.facts.role in EVALUATION:
            return Coverage(
                {"workers": lab.facts.num_workers}, "in_order=False: match results by index, not by position"
            )
        yield Finding(
            message=f"in_order=False: batches of {lab.facts.num_workers} workers arrive in the order they are ready",
            evidence={"num_workers": lab.facts.num_workers},
        )
        return Coverage({"workers": lab.facts.num_workers})
    first, second = lab.reproducibility.pair
    used = {**first.used, **second.used}
    if not used:
        raise NotApplicable("nothing is taken in the order in which workers, processes or threads finish")
    where = lab.reproducibility.divergence or lab.reproducibility.overtaken
    if where:
        names, location = ", ".join(used), next(iter(used.values()))
        yield Finding(
            message=f"{_WHAT[where.stage]} changes with the order in which {names} returns results",
            evidence=without_empty(
                {
                    "first difference": where.where,
                    "index": where.index,
                    "leaves": [f"{where.stage}{leaf}" for leaf in where.leaves],
                }
            ),
            at=Location(*location),
        )
    return Coverage({"runs": 3, "samples": 3 * first.runs.samples})
