"""DG903: the model ignores an input."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.labels import is_named
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataguard.lab.lab import Lab
    from dataguard.lab.model.trial import BatchLeaf, Trial

_LENGTH = re.compile(r"mask|len(gth)?s?\b|num_(tokens|frames|nodes|points)", re.IGNORECASE)
"""Names of leaves that say which part of another one is real."""
_DESCRIBING = re.compile(
    r"(?:\b|_)(?:ids?|idx|ind(?:ex|ices)|path|file|name|key|time(?:stamp)?|size|shape|area|iscrowd|difficult|weight|meta"
    r"|info|orig\w*|ptr|slices?)\d*\b",
    re.IGNORECASE,
)
"""Names of leaves that describe a sample and are no input."""


@check("DG903", "ignored-input", Severity.WARNING, since="2026.2")
def dg903_ignored_input(lab: Lab) -> Judgement:
    """An input of the batch has no effect: other values in it change no output, no loss and no gradient.

    Symptom: a model with two inputs is as good as one with a single input; padding counts as data.
    Cause: a mask or the lengths never reach the model, or only a layer that does not use them; a layer gets the wrong
        one of two inputs; the input is multiplied by zero, saturates, or has weights that are a softmax over one value.
    Fix: follow the input from the step to the layer that should use it; leave it out of the batch if it is not needed.
    """
    trial = lab.model.stepped
    if trial.loss is None or not math.isfinite(trial.loss):
        raise NotApplicable(f"see DG901: the loss is {trial.loss}")
    judged = [leaf for leaf in trial.leaves if _is_input(leaf, trial)]
    if not judged:
        raise NotApplicable("no input of the batch was found that has more than one value")
    tried = [leaf for leaf in judged if leaf.changes is not None]
    if not tried:
        raise Undecided("the model returns other outputs for the same batch and the same seed, or not finite ones")
    if not any(leaf.changes for leaf in tried) and lab.facts.role not in EVALUATION:
        raise NotApplicable("see DG901: no input has an effect")
    for leaf in tried:
        if not leaf.changes:
            what = "never reaches the model" if not leaf.handed and not leaf.used else "changes no output and no loss"
            yield Finding(
                message=f"batch{leaf.path} {what}: it is ignored",
                evidence={
                    "leaf": f"{leaf.shape} {leaf.dtype}",
                    "compared": "outputs, loss and gradients, with its rows swapped and its values redrawn",
                    "inputs that are used": [f"batch{used.path}" for used in tried if used.changes],
                },
                repro=lab.model.repro("DG903"),
            )
    return Coverage({"samples": trial.samples or 1, "leaves": len(tried)})


def _is_input(leaf: BatchLeaf, trial: Trial) -> bool:
    """Whether a leaf should matter: it gets to the model, or is of the kind that should."""
    name = leaf.path.rpartition(".")[2]
    length = bool(_LENGTH.search(name))
    if leaf.target or leaf.constant or (is_named(leaf.path) and not length):
        return False
    if not length and (len(leaf.shape) < 2 or (_DESCRIBING.search(name) and not _is_tokens(leaf))):
        return False
    if leaf.handed or leaf.used:
        return True
    return trial.whole and _is_missed(leaf, trial.leaves)


def _is_tokens(leaf: BatchLeaf) -> bool:
    """Whether a leaf that is called ids holds sequences: `input_ids`."""
    return leaf.handed and "int" in leaf.dtype and len(leaf.shape) > 1


def _is_missed(leaf: BatchLeaf, leaves: Sequence[BatchLeaf]) -> bool:
    """Whether a leaf that is used nowhere should be: another view, or the only mask or length of what is used."""
    others = [other for other in leaves if other.path != leaf.path and other.changes]
    if "float" in leaf.dtype and len(leaf.shape) > 1:
        return any((other.shape, other.dtype) == (leaf.shape, leaf.dtype) for other in others)
    lengths_used = any(_LENGTH.search(other.path) for other in others)
    axes = len(leaf.shape)
    alike = axes <= 2 and any(other.shape[:axes] == leaf.shape and len(other.shape) > 1 for other in others)
    return bool(_LENGTH.search(leaf.path)) and alike and not lengths_used and "special_tokens" not in leaf.path
