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
        yield Finding(
            message=f"sample{first.leaf} of index {first.earlier} changes when index {first.later} is read: both "
            "share memory",
            evidence={
                "leaves": [f"sample{leaf}" for leaf in dict.fromkeys(one.leaf for one in overwritten)],
                "samples that change": f"{len({one.earlier for one in overwritten})} of {len(readings.items)}",
            },
            at=lab.dataset.location,
            repro=lab.repro.samples(first.earlier, first.later),
        )
    return Coverage(readings.exercised)
