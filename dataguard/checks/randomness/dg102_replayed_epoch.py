"""DG102: every epoch replays the same random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.randomness.culprit_generator import find_culprit
from dataguard.checks.randomness.masked_repeats import find_masked
from dataguard.checks.randomness.repeated_draws import Pairs
from dataguard.checks.randomness.stream_repeats import find_stream_repeat
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.randomness.same_items import SameItems


@check("DG102", "replayed-epoch", Severity.ERROR)
def dg102_replayed_epoch(lab: Lab) -> Judgement:
    """Every epoch draws the same random numbers, so the model sees one fixed set of augmented samples.

    Symptom: no error; the model overfits as if there were hardly any augmentation.
    Cause: workers are restarted for each epoch from a main process whose generator never advances, or `worker_init_fn`
        seeds from the worker id alone.
    Fix: inside the worker, seed from `torch.initial_seed()`, which differs in every epoch; or keep the workers alive
        with `persistent_workers=True`, if the generators also differ between workers.
    Links: https://docs.pytorch.org/docs/stable/data.html#randomness-in-multi-process-data-loading
    """
    if lab.facts.num_workers == 0:
        raise NotApplicable("num_workers=0: the RNG state of the main process carries over between epochs")
    if lab.facts.kind == "stream":
        stream = find_stream_repeat(lab, (0, 0), (0, 1))
        if stream:
            yield Finding(
                message=f"worker 0 draws the same random numbers from {stream.suspect.path} in epochs 0 and 1",
                evidence=stream.evidence,
                at=stream.at,
            )
        return Looked({"samples": lab.streams.stream(lab.facts.num_workers, pin=False).total, "epochs": 2})
    draws, repeat = find_culprit(lab, _epochs)
    if repeat:
        yield Finding(
            message=(
                f"worker {repeat.one[0]} draws the same {repeat.count} random values of {repeat.leaves[0]} "
                "in epochs 0 and 1"
            ),
            evidence={**repeat.evidence, "items": list(draws.shown)},
            at=repeat.at,
        )
    elif masked := find_masked(lab, draws, _epochs):
        yield Finding(
            message=(
                f"worker {masked.one[0]} draws the same random numbers from {masked.suspect.path} in epochs 0 and 1, "
                f"masked by other randomness in {masked.leaves[0]}"
            ),
            evidence=masked.evidence,
            at=masked.at,
        )
    return Looked({"draws": 2 * draws.draws, "items": draws.items, "workers": draws.workers, "epochs": 2})


def _epochs(draws: SameItems) -> Pairs:
    """Each worker with itself, in two epochs."""
    return [((worker, 0), (worker, 1)) for worker in range(draws.workers)]
