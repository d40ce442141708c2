"""DG101: workers share one RNG state."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.randomness.culprit_generator import find_culprit
from dataguard.checks.randomness.masked_repeats import find_masked
from dataguard.checks.randomness.repeated_draws import Pairs, suspects
from dataguard.checks.randomness.stream_repeats import find_stream_repeat
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.same_items import SameItems


@check("DG101", "cloned-worker-rng", Severity.ERROR)
def dg101_cloned_worker_rng(lab: Lab) -> Judgement:
    """Workers draw the same random numbers, which divides augmentation diversity by the number of workers.

    Symptom: no error; the model generalises slightly worse than it should.
    Cause: every worker starts with a copy of the same generator. torch seeds the global generators of python, numpy and
        torch in each worker, but not a generator held by a dataset, transform or `collate_fn`, nor cv2's, nor one
        inside a library; and a `worker_init_fn` that seeds with a constant undoes what torch did.
    Fix: create the generator lazily inside the worker, as `numpy.random.default_rng(torch.initial_seed())`, or use a
        global generator; in `worker_init_fn`, seed from `torch.initial_seed()`, and seed cv2 with `cv2.setRNGSeed`.
    Links: https://docs.pytorch.org/docs/stable/data.html#randomness-in-multi-process-data-loading
    """
    if lab.facts.num_workers < 2:
        raise NotApplicable(f"num_workers={lab.facts.num_workers}: fewer than two workers{_latent(lab)}")
    if lab.facts.kind == "stream":
        stream = find_stream_repeat(lab, (0, 0), (1, 0))
        if stream:
            yield Finding(
                message=f"workers 0 and 1 draw the same random numbers from {stream.suspect.path}",
                evidence=stream.evidence,
                at=stream.at,
            )
        return Looked({"samples": lab.streams.stream(lab.facts.num_workers, pin=False).total, "workers": 2})
    draws, repeat = find_culprit(lab, _workers)
    if repeat:
        shown = ", ".join(draws.shown[:4]) + (", ..." if draws.items > 4 else "")
        yield Finding(
            message=(
                f"workers {repeat.one[0]} and {repeat.two[0]} draw the same {repeat.count} random values "
                f"of {repeat.leaves[0]} for items {shown}"
            ),
            evidence={**repeat.evidence, "start method": lab.facts.start_method},
            at=repeat.at,
        )
    elif masked := find_masked(lab, draws, _workers):
        yield Finding(
            message=(
                f"workers {masked.one[0]} and {masked.two[0]} draw the same random numbers from {masked.suspect.path}, "
                f"masked by other randomness in {masked.leaves[0]}"
            ),
            evidence=masked.evidence,
            at=masked.at,
        )
    return Looked({"draws": draws.draws, "items": draws.items, "workers": draws.workers})


def _workers(draws: SameItems) -> Pairs:
    """Every two workers, in the first epoch."""
    return [((one, 0), (two, 0)) for one, two in combinations(range(draws.workers), 2)]


def _latent(lab: Lab) -> str:
    """What two workers would do, where the user has fewer: mentioned, but no finding."""
    if lab.facts.kind == "stream":
        return ""
    draws = lab.randomness.same_items(num_workers=2, method="fork" if lab.facts.spawns else None)
    certain = suspects(draws.censuses, (0, 0), (1, 0))
    return f"; two workers would draw the same random numbers from {certain[0].path}" if certain else ""
