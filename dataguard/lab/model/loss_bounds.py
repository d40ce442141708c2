"""What a loss function can reach on given targets: exactly, and with one prediction for all samples."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dataguard.lab.model.tracing import LiveCall

_OPTIONS = ("weight", "pos_weight")
"""Options that weight classes: then nothing is known."""


def bounds(call: LiveCall, groups: Tensor | None = None) -> tuple[float, float] | None:
    """The loss of the best predictions, and that of the best constant one; None if it is not known.

    The predictions for samples of one group are the same.
    """
    if any(call.options.get(name) is not None for name in _OPTIONS):
        return None
    find = _KNOWN.get(call.function)
    found = find(call, groups) if find else None
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
"""The mean loss of the best and of constant predictions, and how many losses there are."""


def _of_classes(call: LiveCall, groups: Tensor | None) -> Found | None:
    output, target = call.output.detach(), call.target.detach()
    if output.ndim < 2:
        return None
    classes = output.shape[1]
    if target.is_floating_point():
        if target.shape != output.shape:
            return None
        rows = target.double().movedim(1, -1).reshape(-1, classes)
    else:
        if target.ndim != output.ndim - 1:
            return None
        kept = target != _ignored(call)
        labels = target[kept]
        if not labels.numel() or bool(((labels < 0) | (labels >= classes)).any()):
            return None
        rows = one_hot(labels.long(), classes).double()
        groups = groups[kept] if groups is not None and groups.shape == kept.shape else None
    smoothing = call.options.get("label_smoothing", 0.0)
    rows = (1 - smoothing) * rows + smoothing / classes
    return _entropy(_grouped(rows, groups)), _entropy(rows.mean(0, keepdim=True)), rows.shape[0]


def _of_chances(call: LiveCall, groups: Tensor | None) -> Found | None:
    known = call.target.detach().double()
    if call.output.shape != known.shape or bool(((known < 0) | (known > 1)).any()):
        return None
    best, constant = (torch.stack([one, 1 - one], -1) for one in (_grouped(known, groups), _mean(known)))
    return _entropy(best), _entropy(constant), known.numel()


def _of_squares(call: LiveCall, groups: Tensor | None) -> Found | None:
    known = call.target.detach().double()
    if call.output.shape != known.shape:
        return None
    best, constant = (float((known - one).square().mean()) for one in (_grouped(known, groups), _mean(known)))
    return best, constant, known.numel()


def _mean(known: Tensor) -> Tensor:
    """The mean of each column of a table, else of all values."""
    return known.mean(0 if known.ndim == 2 else tuple(range(known.ndim)), keepdim=True)


def _grouped(rows: Tensor, groups: Tensor | None) -> Tensor:
    """The mean of the rows of each group, in place of the rows."""
    if groups is None or not rows.ndim or len(groups) != len(rows):
        return rows
    member = one_hot(groups).double()
    means = (member.T @ rows.reshape(len(rows), -1)) / member.sum(0).clamp(min=1)[:, None]
    return means[groups].reshape(rows.shape)


def _entropy(rows: Tensor) -> float:
    """The mean entropy of distributions along the last axis."""
    return float(-torch.xlogy(rows, rows).sum(-1).mean())


def _ignored(call: LiveCall) -> int:
    ignore = call.options.get("ignore_index")
    return -100 if ignore is None else int(ignore)


_KNOWN: dict[str, Callable[[LiveCall, Tensor | None], Found | None]] = {
    "cross_entropy": _of_classes,
    "nll_loss": _of_classes,
    "binary_cross_entropy": _of_chances,
    "binary_cross_entropy_with_logits": _of_chances,
    "mse_loss": _of_squares,
}
