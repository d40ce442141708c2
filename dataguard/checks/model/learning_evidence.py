"""How a model learned one batch, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dataguard.machine.units import counted
from dataguard.model import without_empty

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataguard.lab.model.batch_parts import Extent
    from dataguard.lab.model.learning import Learning


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
            "lowest loss": {one.optimizer: f"{shown(one.loss)} in {one.steps} steps" for one in seen.attempts},
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
