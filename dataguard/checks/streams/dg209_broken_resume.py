"""DG209: a restored loader does not go on where it was interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.streams.resume import faults
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, Undecided, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

OTHER_WORKERS = 2
"""Workers to try where the loader has none."""


@check("DG209", "broken-resume", Severity.ERROR)
def dg209_broken_resume(lab: Lab) -> Judgement:
    """A loader that is restored from its `state_dict` goes on with other batches than it would have.

    Symptom: after each restart some samples are seen again and others never, or a whole epoch starts over.
    Cause: the state lacks what decides about the rest: the place in the epoch, the order of a shuffling sampler, the
        epoch itself, what the workers have fetched ahead; or it does not survive being saved.
    Fix: save the number of batches that were handed out, and the state from which the order of this epoch was drawn;
        torchdata's StatefulDataLoader does both for samplers and datasets that have a `state_dict`.
    Links: https://docs.pytorch.org/data/main/stateful_dataloader_tutorial.html
    """
    facts = lab.facts
    if facts.holder:
        raise NotApplicable(f"a {facts.holder} is iterated in its place, and keeps a state of its own")
    resumes = lab.streams.resumes(facts.num_workers)
    found = faults(resumes)
    if found:
        point, words = next(iter(found.items()))
        outcomes = {str(where): found.get(str(where), "goes on as before") for where in resumes.restored}
        yield Finding(
            message=f"restored {point}, {words}",
            evidence=known(
                {
                    "restored": outcomes,
                    "batches of an epoch": len(resumes.reference.epochs[0]),
                    "workers": facts.num_workers,
                }
            ),
        )
    looked = {"restarts": len(resumes.restored), "batches": sum(map(len, resumes.reference.epochs))}
    return Looked(looked, None if found else _latent(lab))


def _latent(lab: Lab) -> str | None:
    """What would break with workers, or without them."""
    other = 0 if lab.facts.num_workers else OTHER_WORKERS
    try:
        found = faults(lab.streams.resumes(other))
    except (NotApplicable, Undecided):
        return None
    return next((f"with num_workers={other}, restored {point}, {words}" for point, words in found.items()), None)
