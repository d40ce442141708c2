"""DG102: every epoch replays the same random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.randomness.repeat_evidence import advised, message_of, place_of
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


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
    if lab.facts.role in EVALUATION:
        raise NotApplicable("evaluation may be the same in every epoch")
    if lab.facts.num_workers == 0:
        raise NotApplicable("num_workers=0: the RNG state of the main process carries over between epochs")
    shared = lab.randomness.shared_draws("epochs")
    repeat = shared.repeat
    if repeat:
        yield Finding(
            message=message_of(f"worker {repeat.one.worker} draws", repeat, " in epochs 0 and 1"),
            evidence=without_empty({**advised(repeat, lab.facts), "items": list(shared.shown)}),
            at=place_of(repeat),
        )
    return Coverage(shared.exercised)
