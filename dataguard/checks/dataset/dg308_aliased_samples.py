"""DG308: samples that share one buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG308", "aliased-samples", Severity.WARNING)
def dg308_aliased_samples(lab: Lab) -> Judgement:
    """A sample changes when another one is read after it.

    Symptom: all samples of a batch equal its last one; two samples that are compared side by side are equal.
    Cause: the dataset writes every sample into the same buffer, array or dict, and returns that object every time.
    Fix: return a copy (`self.buffer.clone()`, `self.buffer.copy()`), or allocate a new object for each sample.
    Links: https://docs.pytorch.org/docs/stable/data.html#map-style-datasets
    """
    readings = lab.dataset.readings
    overwritten = readings.forward.overwritten
    if overwritten:
        first = overwritten[0]
        changed = {overwrite.earlier for overwrite in overwritten}
        yield Finding(
            message=f"sample{first.leaf} of index {first.earlier} changes when index {first.later} is read: both "
            "share memory",
            evidence={
                "fix here": "fill a new object for each sample, or return a copy of it (.clone(), .copy())",
                "leaves": [f"sample{leaf}" for leaf in dict.fromkeys(overwrite.leaf for overwrite in overwritten)],
                "samples that change": f"{len(changed)} of {len(readings.items)}",
            },
            at=lab.dataset.overwriting_line(first),
            repro=lab.repro.samples(first.earlier, first.later),
            sample=first.later,
        )
    return Coverage(readings.exercised)
