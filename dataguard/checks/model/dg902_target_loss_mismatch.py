"""DG902: the loss function misunderstands the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.labels import classes_of
from dataguard.checks.model.loss_mismatch import hint_for, mismatches, refusal
from dataguard.core.model import Coverage, Finding, Judgement, Severity, without_empty

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataguard.lab.lab import Lab
    from dataguard.lab.model.calling import LossCall, Values
    from dataguard.lab.model.trial import Trial


@check("DG902", "target-loss-mismatch", Severity.ERROR, since="2026.2")
def dg902_target_loss_mismatch(lab: Lab) -> Judgement:
    """The loss function refuses the targets of the loader, or means something else by them or by the output.

    Symptom: an exception in the first step; or nothing but a model that is worse than it could be.
    Cause: (N, 1) and (N,) are broadcast to (N, N); a softmax or sigmoid precedes a loss that has its own; logits are
        given to a loss of probabilities; labels count from 1, or mark what has no class with a number that the loss
        does not ignore; one-hot targets are integers; masks hold 0 and 255.
    Fix: the evidence names the call, both shapes, dtypes and ranges, and what to change.
    Links: https://docs.pytorch.org/docs/stable/nn.html#loss-functions
    """
    trial = lab.model.trial
    lab.model.need_call(trial)
    repro = lab.model.repro("DG902")
    if trial.incident is not None:
        yield _refused(trial, repro)
        return Coverage({"samples": trial.samples or 1})
    for call in dict.fromkeys(trial.calls):
        for fault in mismatches(call):
            yield Finding(
                message=fault.message,
                evidence=_evidence(call, fault.fix),
                repro=repro,
                ambiguous=fault.ambiguous,
            )
    yield from _too_few(lab, trial, repro)
    note = None if trial.calls else "no loss function of torch was called: what it does with the target is not known"
    return Coverage({"samples": trial.samples or 1, "loss calls": len(trial.calls)}, note)


def _refused(trial: Trial, repro: str) -> Finding:
    """The exception of the loss or of its gradient."""
    incident = trial.incident
    assert incident is not None
    call = next((call for call in trial.calls if call.error), None)
    if call is not None:
        fault = refusal(call)
        evidence = {"exception": incident.headline, **_evidence(call, fault.fix)}
        return Finding(message=fault.message, evidence=evidence, at=incident.location, repro=repro)
    what = "computing gradients of the loss" if trial.failed == "backward" else "the loss function"
    return Finding(
        message=f"{what} raised {incident.headline}",
        evidence=without_empty({"fix here": hint_for(incident.message)}),
        at=incident.location,
        repro=repro,
    )


def _evidence(call: LossCall, fix: str) -> dict[str, object]:
    leaves = ", ".join(f"batch{leaf}" for leaf in call.target.leaves)
    return without_empty(
        {"fix here": fix, "output": _shown(call.output), "target": _shown(call.target), "from": leaves}
    )


def _shown(values: Values) -> str:
    spread = "" if values.low is None else f", {values.low:.4g} to {values.high:.4g}"
    return f"{values}{spread}"


def _too_few(lab: Lab, trial: Trial, repro: str) -> Iterator[Finding]:
    """A cross-entropy with fewer outputs than there are classes."""
    classes = classes_of(lab)
    calls = [call for call in trial.calls if call.function == "cross_entropy" and call.ignore_index is not None]
    if classes is None or len(calls) != 1 or len(calls[0].output.shape) < 2 or len(calls[0].target.leaves) != 1:
        return
    count = calls[0].output.shape[1]
    if count < classes.count:
        message = f"the output has {count} classes, but {classes.source} {classes.count}: later labels have no output"
        yield Finding(message, _evidence(calls[0], ""), repro=repro, ambiguous=not classes.declared)
