"""What a loss function of torch misunderstands about the output and the target that it gets."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataguard.checks.common.labels import VOID

if TYPE_CHECKING:
    from dataguard.lab.model.calling import LossCall

SUM_TOLERANCE = 1e-3
"""How far sums of probabilities may be from 1: float16 has steps of that size around 1."""
_ELEMENTWISE = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "a subtraction")
_CHANCES = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
_HINTS = (
    (r"multi-target not supported", "remove the last axis of the target: target.squeeze(1)"),
    (r"floating point type for target", "the target is one-hot as integers: use target.argmax(1), or target.float()"),
    (r"scalar type Long|expected.* Long", "class indices are int64: target.long()"),
    (r"out of bounds", "class indices count from 0 up to the number of outputs; others need ignore_index"),
    (r"target size .* must be the same as input size|size .* different", "give both the same shape: squeeze or view"),
    (r"between 0 and 1", "the output holds logits: use binary_cross_entropy_with_logits, or a sigmoid"),
    (r"Expected target size|batch_size .* to match", "the class axis of the output is axis 1: output.transpose(1, 2)"),
    (r"same dtype|dtype|scalar type", "output and target need one dtype, float32 by default"),
)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """What is wrong with a call of a loss function, and how to fix it; `ambiguous` if it may be meant."""

    message: str
    fix: str
    ambiguous: bool = False


def mismatches(call: LossCall) -> Iterator[Mismatch]:
    """What the function accepts, and means something else by."""
    out, target, name = call.output, call.target, call.function
    if name in _ELEMENTWISE and out.shape != target.shape:
        yield from _broadcast(call)
    if name == "cross_entropy":
        yield from _of_cross_entropy(call)
    if name == "nll_loss" and call.log_sums is not None and call.log_sums > 10 * SUM_TOLERANCE:
        holds = "probabilities" if _are_probabilities(call) else "logits"
        yield Mismatch(f"nll_loss gets {holds} and not their logarithms", "use cross_entropy with logits")
    if name == "binary_cross_entropy_with_logits" and out.activation == "sigmoid":
        yield Mismatch(
            f"{name} gets the result of a sigmoid, and applies another one", "remove the sigmoid, or use BCELoss"
        )
    low, high = target.low, target.high
    if name in _CHANCES and low is not None and high is not None and not call.selects and (low < 0 or high > 1):
        shown = f"{low:g} to {high:g}"
        yield Mismatch(f"{name} gets targets from {shown}, and expects 0 to 1", "scale the target, such as mask > 0")


def _broadcast(call: LossCall) -> Iterator[Mismatch]:
    """Shapes that differ: each output is compared with the target of other samples."""
    out, target = call.output.shape, call.target.shape
    result = _broadcast_shape(out, target)
    if result is None or math.prod(target) == 1:  # one target for all is meant
        return
    values = math.prod(out)
    outer = len(out) != len(target) and math.prod(result) > max(values, math.prod(target))
    shown = f"{call.function} compares an output of shape {out} with a target of shape {target} as {result}"
    why = ": each output with every target" if outer else ""
    yield Mismatch(f"{shown}{why}", "give both the same shape, such as output.squeeze(1)", ambiguous=not outer)


def _broadcast_shape(shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...] | None:
    size = max(len(shape), len(other))
    pairs = list(zip((1,) * (size - len(shape)) + shape, (1,) * (size - len(other)) + other, strict=True))
    return tuple(map(max, pairs)) if all(a == b or 1 in (a, b) for a, b in pairs) else None


def _of_cross_entropy(call: LossCall) -> Iterator[Mismatch]:
    if _are_probabilities(call) and (call.output.activation == "softmax" or _classes(call) > 2):
        classes = _classes(call)
        lowest = math.log(1 + (classes - 1) / math.e)
        yield Mismatch(
            f"cross_entropy gets the result of a softmax, and applies another one: the loss never falls below "
            f"{lowest:.2g} for {classes} classes",
            "give cross_entropy the logits: remove the softmax",
        )
    elif call.output.activation == "sigmoid":
        yield Mismatch(
            "cross_entropy gets the result of a sigmoid, and expects logits", "remove the sigmoid", ambiguous=True
        )
    sums = call.target_sums
    if sums is not None and not all(abs(total - 1) < 10 * SUM_TOLERANCE for total in sums):
        yield Mismatch(
            f"cross_entropy gets targets that sum to {sums[0]:.3g} to {sums[1]:.3g} over the classes, not 1",
            "use binary_cross_entropy_with_logits for several classes per sample, else class indices",
            ambiguous=True,
        )


def _are_probabilities(call: LossCall) -> bool:
    """Whether the outputs of each sample are in [0, 1] and sum to 1."""
    return call.row_sums is not None and all(abs(total - 1) < SUM_TOLERANCE for total in call.row_sums)


def _classes(call: LossCall) -> int:
    shape = call.output.shape
    return shape[1] if len(shape) > 1 else shape[0]


def refusal(call: LossCall) -> Mismatch:
    """What to change if the function raises an exception."""
    got = f"{call.function} refuses an output {call.output} and a target {call.target}"
    if call.outside:
        values = ", ".join(map(str, call.outside))
        kept = f", and ignore_index is {call.ignore_index}" if call.ignore_index is not None else ""
        fix = "count classes from 0, or add outputs"
        if {-1, VOID} & {*call.outside}:
            fix = f"if {call.outside[-1]} marks what has no class: ignore_index={call.outside[-1]}"
        return Mismatch(
            f"{call.function} gets label {values}, but the output has {_classes(call)} classes, 0 to "
            f"{_classes(call) - 1}{kept}",
            fix,
        )
    return Mismatch(got, hint_for(call.error or ""))


def hint_for(error: str) -> str:
    """What to change, by the words of an exception."""
    return next((hint for pattern, hint in _HINTS if re.search(pattern, error)), "")
