"""DG406: float64 in a batch."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.core.records import Leaf
    from dataguard.lab.lab import Lab

MAIN = 0.1
"""The share of the largest leaf's numbers from which on another leaf counts as data, and is no small matrix beside."""
_TARGET = re.compile(r"^\[1\]$|(?:\b|_)(?:label|target|y)s?(?:\b|_)", re.IGNORECASE)
"""The second of a pair, or what is called a target."""


@check("DG406", "double-precision-batch", Severity.WARNING)
def dg406_double_precision_batch(lab: Lab) -> Judgement:
    """Inputs or targets reach the model as float64.

    Symptom: "expected scalar type Float but found Double"; or everything is computed and copied at twice the size, and
        many times slower.
    Cause: numpy makes float64 of Python floats and of most arithmetic, `torch.from_numpy` keeps it, and
        default_collate makes float64 of Python floats.
    Fix: `.float()`, `astype(numpy.float32)`, or `torch.tensor(value, dtype=torch.float32)` for labels. Names, times and
        small matrices beside the data may stay as they are.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html
    """
    if lab.facts.double:
        raise NotApplicable("float64 is torch's default type here")
    epoch = lab.epoch
    types: dict[str, set[str]] = {}
    for sample in epoch.samples:
        for leaf in sample.leaves:
            types.setdefault(leaf.path, set()).add(leaf.type_name)
    found: dict[str, Leaf] = {}
    beside: set[str] = set()
    for batch in epoch.batches:
        # Where samples differ in type, one batch is of this and another of that: see DG305.
        doubles = [leaf for leaf in batch.leaves if leaf.dtype == "float64" and leaf.shape]
        doubles = [leaf for leaf in doubles if len(types.get(leaf.path, ())) < 2]
        largest = max((_numbers(leaf) for leaf in batch.leaves), default=0)
        for leaf in doubles:
            if _TARGET.search(leaf.path) or (len(leaf.shape or ()) > 1 and _numbers(leaf) >= MAIN * largest):
                found.setdefault(leaf.path, leaf)
            else:
                beside.add(leaf.path)
    if found:
        path, leaf = next(iter(found.items()))
        origin = _origin(lab, leaf)
        yield Finding(
            message=f"batch{path} is float64, {leaf.shape}{origin}",
            evidence=known({"float64 leaves": [f"batch{one}" for one in found][:16], "others": sorted(beside)[:16]}),
        )
    note = f"float64 beside the data: {', '.join(f'batch{path}' for path in sorted(beside)[:4])}" if beside else None
    return Looked(epoch.exercised, None if found else note)


def _numbers(leaf: Leaf) -> int:
    """How many numbers a leaf holds; text and single values are none."""
    return math.prod(leaf.shape) if leaf.shape and leaf.dtype else 0


def _origin(lab: Lab, leaf: Leaf) -> str:
    """Where the type comes from, in words: the sample, or collate_fn."""
    samples = lab.epoch.samples
    leaves: Iterable[Leaf] = samples[0].leaves if samples else ()
    source = next((one for one in leaves if one.path == leaf.path), None)
    if source is None:
        return ""
    if source.dtype == "float64":
        return f": the dataset gives {source.kind} of float64"
    return ": collate_fn makes it of " + (f"a Python {source.kind}" if source.dtype is None else source.dtype)
