"""DG901: a model cannot learn a single batch by heart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dataguard.checks.common.check import check
from dataguard.checks.model.loss_mismatch import mismatches
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided, without_empty
from dataguard.machine.units import counted
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataguard.lab.lab import Lab
    from dataguard.lab.model.learning import Learning
    from dataguard.lab.model.trial import Extent, Trial


@check("DG901", "unlearnable-batch", Severity.ERROR, since="2026.2")
def dg901_unlearnable_batch(lab: Lab) -> Judgement:
    """Your model cannot overfit one fixed batch of the loader.

    Symptom: the loss stays where it started, at about -log(1/C) for C classes, or is nan; more epochs, another learning
        rate and a larger model change nothing.
    Cause: the inputs of all samples are identical (tokens that are all unknown, large numbers rounded to float32, an
        empty decode), are so large or so small that the model saturates, or hold nan; all targets are ignored; or the
        loss is detached from the parameters.
    Fix: print the batch that reaches the model, and compare two of its rows; scale inputs to about -1 to 1; check how
        many targets the loss ignores.
    Links: https://karpathy.github.io/2019/04/25/recipe/
    """
    if lab.facts.role in EVALUATION:
        raise NotApplicable(f"no model learns from a {lab.facts.role} loader")
    trial = lab.model.stepped
    seen = lab.model.learning
    coverage = Coverage(
        {"samples": seen.samples or trial.samples or 1, "steps": sum(attempt.steps for attempt in seen.attempts)},
        note(seen),
    )
    fault = _fault(seen, trial)
    if fault is not None:
        yield Finding(
            message=fault,
            evidence=evidence(seen),
            repro=lab.model.repro("DG901"),
            ambiguous=seen.scaled is not None and not seen.identical,
        )
    elif not seen.learned:
        if any(fault for call in trial.calls for fault in mismatches(call)):
            raise NotApplicable("see DG902: the loss misunderstands what it gets")
        raise Undecided(reason(seen, lab.settings.budget))
    return coverage


def reason(seen: Learning, budget: float) -> str:
    """Why nothing was decided."""
    if seen.broken_parameter:
        return f"{seen.broken_parameter} of the new model is not finite"
    if not seen.parameters:
        return "the model has no trainable parameter"
    if not seen.reached:
        return f"the loss is {shown(seen.start)} before the first step: nothing is left to learn in this batch"
    if seen.cut:
        return f"steps take too long: {seen.reached.steps} in {seen.seconds:.0f} s; use --budget {2 * budget:g}"
    tried = counted(len(seen.attempts), "optimizers")
    return f"the loss fell from {shown(seen.start)} to {shown(seen.reached.loss)} with the best of {tried}: unclear why"


def evidence(seen: Learning) -> dict[str, Any]:
    """What a finding shows: the loss before, after and of guesses, gradients, and the ranges of inputs."""
    guess = None if seen.classes is None else f"{math.log(seen.classes):.3g} = -log(1/{seen.classes})"
    return without_empty(
        {
            "first loss": shown(seen.start),
            "uniform guess": guess,
            "best constant output": None if seen.constant is None else shown(seen.constant),
            "lowest loss": {
                attempt.optimizer: f"{shown(attempt.loss)} in {attempt.steps} steps" for attempt in seen.attempts
            },
            "without gradient": f"{len(seen.unreached)} of {seen.parameters} parameters",
            "inputs": _ranges(seen.inputs),
            "targets": _ranges(seen.targets),
        }
    )


def _ranges(leaves: Sequence[Extent]) -> dict[str, str]:
    """What leaves hold."""
    return {
        f"batch{leaf.path}": f"{leaf.low:.4g} to {leaf.high:.4g}, {leaf.dtype}"
        for leaf in leaves[:8]
        if leaf.low is not None and leaf.high is not None
    }


def note(seen: Learning) -> str | None:
    """What a pass should carry."""
    if seen.unreached and len(seen.unreached) < seen.parameters:
        first = ", ".join(seen.unreached[:3]) + ", ..." * (len(seen.unreached) > 3)
        return f"no gradient reaches {len(seen.unreached)} of {seen.parameters} parameters: {first}"
    return "all targets of the batch are equal" if seen.equal_targets else None


def shown(value: float) -> str:
    """A loss."""
    return f"{value:.3g}"


def _fault(seen: Learning, trial: Trial) -> str | None:
    """Why the batch cannot be learned; None if it can be, or if the reason is not known."""
    start, end = shown(seen.start), shown(seen.reached.loss) if seen.reached else ""
    if seen.broken_parameter or not seen.parameters:
        return None
    if not math.isfinite(seen.start):
        broken = [leaf for leaf in (*seen.inputs, *seen.targets) if leaf.broken]
        why = f": {counted(broken[0].broken, 'values')} of batch{broken[0].path} are not finite" if broken else ""
        why = ": all targets are ignored" if seen.ignored else why
        return f"the loss of a batch is {start} before the first step{why}"
    if not seen.graph:
        return f"the loss of a batch, {start}, does not depend on any parameter of the model: it has no gradient"
    if seen.identical:
        return f"all {seen.samples} samples of a batch have the same input, and different targets"
    if seen.scaled is not None:
        reached = f"falls from {start} to {end} only" if end else "has no gradient"
        return f"the loss of one batch {reached}; with standardized inputs, it falls to {shown(seen.scaled.loss)}"
    if len(seen.unreached) == seen.parameters and (seen.start or seen.ignored):
        return f"no gradient reaches any parameter: the loss stays at {start}"
    inputs = [leaf for leaf in trial.leaves if leaf.handed and not leaf.target and leaf.changes is not None]
    if inputs and not any(leaf.changes for leaf in inputs):
        return f"no input of the batch changes the output of the model: the loss falls from {start} to {end or start}"
    return None
