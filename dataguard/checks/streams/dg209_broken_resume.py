"""DG209: a restored loader does not continue where it was interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.streams.resume import faults
from dataguard.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

OTHER_WORKERS = 2
"""The number of workers to try where the loader has none."""


@check("DG209", "broken-resume", Severity.ERROR)
def dg209_broken_resume(lab: Lab) -> Judgement:
    """A loader restored from its `state_dict` yields other batches than without an interruption.

    Symptom: after each restart some samples are seen again and others never, or the epoch restarts.
    Cause: the state lacks something that determines the remaining batches: the position in the epoch, the order of a
        shuffling sampler, the epoch number, or what the workers have prefetched; or it cannot be saved.
    Fix: save the number of batches already yielded, and the RNG state from which this epoch's order was drawn;
        torchdata's StatefulDataLoader does both for samplers and datasets that have a `state_dict`.
    Links: https://docs.pytorch.org/data/main/stateful_dataloader_tutorial.html
    """
    facts = lab.facts
    if facts.holder:
        raise NotApplicable(f"training iterates a {facts.holder} instead, which keeps its own state")
    resumes = lab.streams.resumes(facts.num_workers)
    found = faults(resumes)
    if found:
        point, fault = next(iter(found.items()))
        outcomes = {str(where): found.get(str(where), "continues correctly") for where in resumes.restored}
        yield Finding(
            message=f"restored {point}, the loader {fault}",
            evidence=without_empty(
                {
                    "after restoring": outcomes,
                    "batches per epoch": len(resumes.reference.epochs[0]),
                    "workers": facts.num_workers,
                }
            ),
            ambiguous={*found} <= {str(where) for where in resumes.restored if where.again},
        )
    looked = {"restarts": len(resumes.restored), "batches": sum(map(len, resumes.reference.epochs))}
    return Coverage(looked, None if found else _latent(lab))


def _latent(lab: Lab) -> str | None:
    """What would break with workers, or without them."""
    other = 0 if lab.facts.num_workers else OTHER_WORKERS
    try:
        found = faults(lab.streams.resumes(other))
    except (NotApplicable, Undecided):
        return None
    return next((f"with num_workers={other}, restored {point}, it {fault}" for point, fault in found.items()), None)
