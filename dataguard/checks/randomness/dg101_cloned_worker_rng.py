"""DG101: workers share one RNG state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.randomness.repeat_evidence import advised, items_of, message_of, place_of
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG101", "cloned-worker-rng", Severity.ERROR)
def dg101_cloned_worker_rng(lab: Lab) -> Judgement:
    """Workers draw the same random numbers, which divides augmentation diversity by the number of workers.

    Symptom: no error; the model generalises slightly worse than it should.
    Cause: every worker starts with a copy of the same generator. torch seeds the global generators of python, numpy and
        torch in each worker, but not a generator held by a dataset, transform or `collate_fn`, nor cv2's, nor one
        inside a library; and a `worker_init_fn` that seeds with a constant, or with the clock in whole seconds, undoes
        what torch did.
    Fix: create the generator lazily inside the worker, as `numpy.random.default_rng(torch.initial_seed())`, or use a
        global generator; in `worker_init_fn`, seed from `torch.initial_seed()`, and seed cv2 with `cv2.setRNGSeed`.
    Links: https://docs.pytorch.org/docs/stable/data.html#randomness-in-multi-process-data-loading
    """
    if lab.facts.num_workers < 2:
        raise NotApplicable(f"num_workers={lab.facts.num_workers}: fewer than two workers{_latent(lab)}")
    shared = lab.randomness.shared_draws("workers")
    repeat = shared.repeat
    if repeat:
        yield Finding(
            message=message_of(f"workers {repeat.one.worker} and {repeat.two.worker} draw", repeat, items_of(shared)),
            evidence=without_empty({**advised(repeat, lab.facts), "start method": lab.facts.start_method}),
            at=place_of(repeat),
        )
    return Coverage(shared.exercised)


def _latent(lab: Lab) -> str:
    """What two workers would do, where the user has fewer: mentioned, but no finding."""
    clone = lab.randomness.latent_clone
    return f"; two workers would draw the same random numbers from {clone.path}" if clone else ""
