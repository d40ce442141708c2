"""What a loss function can reach on given targets: exactly, and with one prediction for all samples."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dataguard.lab.model.tracing import LiveCall

_OPTIONS = ("weight", "pos_weight")
"""Options that weight classes: then nothing is known."""


def bounds(call: LiveCall) -> tuple[float, float] | None:
    """The loss of perfect predictions, and that of the best constant one; None if it is not known."""
    if any(call.options.get(name) is not None for name in _OPTIONS):
        return None
    find = _KNOWN.get(call.function)
    found = find(call, call.output.detach().double(), call.target.detach()) if find else None
    if found is None or call.options.get("reduction", "mean") == "none":
        return None
    each, constant, count = found
    scale = count if call.options.get("reduction", "mean") == "sum" else 1
    return each * scale, constant * scale


def classes_of(call: LiveCall) -> int | None:
    """How many classes the output of a cross-entropy has."""
    if call.function not in ("cross_entropy", "nll_loss") or not call.output.ndim:
        return None
    return call.output.shape[1 if call.output.ndim > 1 else 0]


def accuracy(call: LiveCall) -> tuple[float, float] | None:
    """The share of right predictions, and that of the most frequent class; None without class indices."""
    if call.function not in ("cross_entropy", "nll_loss") or call.target.is_floating_point():
        return None
    kept = call.target != _ignored(call)
    if call.output.ndim < 2 or not kept.any():
        return None
    labels = call.target[kept]
    right = float((call.output.argmax(1)[kept] == labels).double().mean())
    return right, float(labels.unique(return_counts=True)[1].max() / labels.numel())


def all_ignored(call: LiveCall) -> bool:
    """Whether every class index is the one that the loss ignores."""
    known = call.function in ("cross_entropy", "nll_loss") and not call.target.is_floating_point()
    return known and bool((call.target == _ignored(call)).all())


Found = tuple[float, float, int]
"""The mean loss of perfect and of constant predictions, and how many losses there are."""


def _of_classes(call: LiveCall, output: Tensor, target: Tensor) -> Found | None:
    if output.ndim < 2:
        return None
    classes = output.shape[1]
    if target.is_floating_point():
        if target.shape != output.shape:
            return None
        rows = target.double().movedim(1, -1).reshape(-1, classes)
        count = rows.shape[0]
    else:
        if target.ndim != output.ndim - 1:
            return None
        kept = target[target != _ignored(call)].reshape(-1)
        if not kept.numel() or bool(((kept < 0) | (kept >= classes)).any()):
            return None
        rows, count = one_hot(kept.long(), classes).double(), kept.numel()
    smoothing = call.options.get("label_smoothing", 0.0)
    rows = (1 - smoothing) * rows + smoothing / classes
    return _entropy(rows), _entropy(rows.mean(0, keepdim=True)), count


def _of_chances(call: LiveCall, output: Tensor, target: Tensor) -> Found | None:
    known = target.double()
    if output.shape != target.shape or bool(((known < 0) | (known > 1)).any()):
        return None
    mean = known.mean(0 if known.ndim == 2 else tuple(range(known.ndim)), keepdim=True)
    both = torch.stack([known, 1 - known], -1)
    constant = torch.stack([mean, 1 - mean], -1)
    return _entropy(both), _entropy(constant), known.numel()


def _of_squares(call: LiveCall, output: Tensor, target: Tensor) -> Found | None:
    if output.shape != target.shape:
        return None
    known = target.double()
    mean = known.mean(0 if known.ndim == 2 else tuple(range(known.ndim)), keepdim=True)
    return 0.0, float(((known - mean) ** 2).mean()), known.numel()


def _entropy(rows: Tensor) -> float:
    """The mean entropy of distributions along the last axis."""
    return float(-torch.xlogy(rows, rows).sum(-1).mean())


def _ignored(call: LiveCall) -> int:
    ignore = call.options.get("ignore_index")
    return -100 if ignore is None else int(ignore)


_KNOWN: dict[str, Callable[[LiveCall, Tensor, Tensor], Found | None]] = {
    "cross_entropy": _of_classes,
    "nll_loss": _of_classes,
    "binary_cross_entropy": _of_chances,
    "binary_cross_entropy_with_logits": _of_chances,
    "mse_loss": _of_squares,
}
