"""Which leaves of a batch are inputs and which are targets, and what the inputs hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dataguard.lab.batches.collate_inputs import duplicate
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.model.calling import is_target
from dataguard.lab.model.tracing import Tracer

FEWEST_ROWS = 4
"""The fewest rows that may be called identical."""
FLAT = 1e-9
"""A column whose standard deviation is below this share of its largest value is constant."""

EXTREME = 30.0
"""Values above this, or standard deviations below its inverse, may be too large or too small for a model."""

Paths = frozenset[str]


@dataclass(frozen=True, slots=True)
class Extent:
    """A leaf of the batch: its range, and how many values are not finite."""

    path: str
    dtype: str
    low: float | None
    high: float | None
    broken: int


def targets_of(tracer: Tracer, batch: Any) -> Paths:
    """The leaves that are targets: those that only a loss gets, and those with the name or place of targets."""
    found = (tracer.leaves_of(call.target) - tracer.leaves_of(call.output) for call in tracer.calls)
    placed = (path for path, _ in iter_leaves(batch) if is_target(path, batch))
    return frozenset(placed).union(*found)


def roles_of(tracer: Tracer, batch: Any, loss: Tensor) -> tuple[Paths, Paths]:
    """The leaves that are inputs of the model, and those that are targets of the loss."""
    targets = targets_of(tracer, batch)
    # A step may call parts of the model, and never the model itself.
    handed = frozenset(tracer.handed or (tracer.used if targets else ())) - targets
    return handed, targets or tracer.leaves_of(loss) - handed


def rows_of(batch: Any) -> int | None:
    """The number of samples: the length of a list of images, else the first dimension that most leaves have."""
    if isinstance(batch, list | tuple) and batch and isinstance(batch[0], list | tuple):
        return len(batch[0])
    tensors = [leaf for _, leaf in iter_leaves(batch) if isinstance(leaf, Tensor) and leaf.ndim]
    sizes = Counter(len(leaf) for leaf in tensors).most_common(1)
    return sizes[0][0] if sizes and (sizes[0][1] > 1 or len(tensors) == 1) else None


def groups_of(batch: Any, handed: Paths) -> Tensor | None:
    """A number for each sample, the same for samples with identical inputs; None if some input has other rows."""
    rows = rows_of(batch)
    inputs = [leaf for path, leaf in iter_leaves(batch) if path in handed and isinstance(leaf, Tensor)]
    if not rows or not inputs or any(not leaf.ndim or len(leaf) != rows for leaf in inputs):
        return None
    each = [leaf.reshape(rows, -1).unique(dim=0, return_inverse=True)[1] for leaf in inputs]
    numbers: Tensor = torch.stack(each, 1).unique(dim=0, return_inverse=True)[1]
    return numbers


def are_identical(batches: Sequence[Any], handed: Paths, targets: Paths) -> bool:
    """Whether each batch has one input for all of its samples, with several targets."""
    for batch in batches:
        leaves = {path: leaf for path, leaf in iter_leaves(batch) if isinstance(leaf, Tensor)}
        count = rows_of(batch)
        both = [[leaves[path] for path in paths if path in leaves] for paths in (handed, targets)]
        inputs, known = both
        if count is None or count < FEWEST_ROWS or any(not leaf.ndim or len(leaf) != count for leaf in inputs + known):
            return False
        if not inputs or not all(map(_is_repeated, inputs)) or all(map(_is_repeated, known)):
            return False
    return True


def _is_repeated(leaf: Tensor) -> bool:
    return bool((leaf == leaf[:1]).all())


def standardized(batch: Any, handed: Paths) -> Any:
    """The batch with inputs of mean 0 and standard deviation 1; None if that changes no scale much."""
    copy = duplicate(batch)
    found = False
    for path, leaf in iter_leaves(copy):
        if path in handed and isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.numel() > 1:
            axes = [axis for axis in range(leaf.ndim) if axis != 1 or leaf.ndim == 3]  # each column or channel
            plain = leaf.double()
            centred, spread = plain - plain.mean(axes, keepdim=True), plain.std(axes, keepdim=True, correction=0)
            flat = spread <= FLAT * plain.abs().amax(axes, keepdim=True)
            leaf.copy_(torch.where(flat, 0.0, centred / spread.where(~flat, 1.0)))
            varied = spread[~flat]
            found = found or bool(plain.abs().max() > EXTREME or (varied < 1 / EXTREME).any())
    return copy if found else None


def extent_of(path: str, leaf: Any) -> Extent:
    """What a leaf holds."""
    if not isinstance(leaf, Tensor) or leaf.is_complex() or not leaf.numel():
        return Extent(path, type(leaf).__name__, None, None, 0)
    plain = leaf.double()
    finite = plain[plain.isfinite()]
    low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (None, None)
    return Extent(path, str(leaf.dtype).removeprefix("torch."), low, high, leaf.numel() - finite.numel())
