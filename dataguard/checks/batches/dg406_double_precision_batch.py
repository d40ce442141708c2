"""DG406: float64 in a batch."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.label_forms import float_indices
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.core.records import LeafRecord
    from dataguard.lab.lab import Lab

MAIN_SHARE = 0.1
"""A leaf with at least this share of the largest leaf's elements counts as data, not as a small matrix beside them."""
_TARGET = re.compile(r"(?:\b|_)(?:label|target|y)s?(?:\b|_)", re.IGNORECASE)
"""The key of a target."""
_PART = re.compile(r"(?:\b|_)(?:bbox|box|mask|keypoint|point|value|score)(?:e?s)?(?:\b|_)", re.IGNORECASE)
"""The key of what a model learns from a target with several parts; others describe it, such as its affine matrix."""
_KEY = re.compile(r"[^\W\d]\w*")


@check("DG406", "double-precision-batch", Severity.WARNING)
def dg406_double_precision_batch(lab: Lab) -> Judgement:
    """Inputs or targets reach the model as float64.

    Symptom: "expected scalar type Float but found Double"; or compute and copies use twice the memory and are many
        times slower.
    Cause: numpy turns Python floats and most arithmetic into float64, `torch.from_numpy` keeps it, and default_collate
        turns Python floats into float64.
    Fix: `.float()`, `astype(numpy.float32)`, or `torch.tensor(value, dtype=torch.float32)` for labels. Identifiers,
        timestamps and small matrices beside the data may stay float64.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html
    """
    if lab.facts.double:
        raise NotApplicable("torch's default dtype is float64")
    epoch = lab.epoch
    types: dict[str, set[str]] = {}
    for sample in epoch.samples:
        for leaf in sample.leaves:
            types.setdefault(leaf.path, set()).add(leaf.type_name)
    double: dict[str, LeafRecord] = {}
    beside: set[str] = set()
    for batch in epoch.batches:
        float64 = [leaf for leaf in batch.leaves if leaf.dtype == "float64" and leaf.shape]
        # If samples differ in type, batches do as well: that is DG305.
        float64 = [leaf for leaf in float64 if len(types.get(leaf.path, ())) < 2]
        largest = max((_elements(leaf) for leaf in batch.leaves), default=0)
        for leaf in float64:
            if _is_target(leaf.path) or (len(leaf.shape or ()) > 1 and _elements(leaf) >= MAIN_SHARE * largest):
                double.setdefault(leaf.path, leaf)
            else:
                beside.add(leaf.path)
    note = f"float64 beside the data: {', '.join(f'batch{path}' for path in sorted(beside)[:4])}" if beside else None
    indices = float_indices(lab) if double else None
    if indices in double:  # they are to be integers, and not float32
        del double[indices]
        note = f"batch{indices} holds class indices as floats: see DG503"
    if double:
        path, leaf = next(iter(double.items()))
        source = _source(lab, leaf)
        from_dataset = source is not None and source.dtype in ("float64", None)
        yield Finding(
            message=f"batch{path} of shape {leaf.shape} is float64{_origin(source)}",
            evidence=without_empty(
                {
                    "fix here": _CASTS.get(source.kind if source else leaf.kind, _CAST_OF_VALUE),
                    "float64 leaves": [f"batch{path}" for path in double][:16],
                    "float64 beside the data": [f"batch{path}" for path in sorted(beside)[:16]],
                }
            ),
            at=line_at(lab.batches.lines.of_double, path) or (lab.dataset.location if from_dataset else None),
        )
    return Coverage(epoch.exercised, None if double else note)


def _is_target(path: str) -> bool:
    """Whether a leaf is the second of a pair, or has the key of a target, or of a part of one."""
    *outer, last = _KEY.findall(path) or [""]
    return path == "[1]" or bool(_TARGET.search(last) or (_PART.search(last) and any(map(_TARGET.search, outer))))


def _elements(leaf: LeafRecord) -> int:
    """The number of elements of an array; 0 for strings and single values."""
    return math.prod(leaf.shape) if leaf.shape and leaf.dtype else 0


_CASTS = {"Tensor": ".float()", "ndarray": ".astype(numpy.float32)"}
_CAST_OF_VALUE = "torch.tensor(value, dtype=torch.float32)"


def _source(lab: Lab, leaf: LeafRecord) -> LeafRecord | None:
    """The leaf of a sample at the same path."""
    samples = lab.epoch.samples
    leaves: Iterable[LeafRecord] = samples[0].leaves if samples else ()
    return next((sample_leaf for sample_leaf in leaves if sample_leaf.path == leaf.path), None)


def _origin(source: LeafRecord | None) -> str:
    """Where the type comes from: the sample, or collate_fn."""
    if source is None:
        return ""
    if source.dtype == "float64":
        return f": the dataset returns a float64 {'scalar' if source.kind == source.dtype else source.kind}"
    return ": collate_fn converts it from " + (f"a Python {source.kind}" if source.dtype is None else source.dtype)
