"""DG301: the dataset is shorter than it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, check

if TYPE_CHECKING:
    from dataguard.lab import Lab


@check("DG301", "overlong-len", Severity.ERROR)
def dg301_overlong_len(lab: Lab) -> Judgement:
    """An index inside range(len(dataset)) does not exist.

    Symptom: an IndexError at the end of the first epoch, or somewhere in it once the order is shuffled.
    Cause: `__len__` counts something else than `__getitem__` serves: windows, frames, lines with the header, another
        split.
    Fix: make `__len__` return the first failing index that the evidence names.
    Links: https://docs.pytorch.org/docs/stable/data.html#map-style-datasets
    """
    ends = lab.ends
    if ends.last.incident is not None and ends.last.incident.error_type == "StopIteration":
        raise NotApplicable("the last index raises StopIteration, which ends an epoch in silence: see DG204")
    if ends.first_failing is not None and ends.last.incident is not None:
        missing, raised = ends.length - ends.first_failing, ends.last.incident.headline
        yield Finding(
            message=f"len(dataset) is {ends.length}, but index {ends.first_failing} raises {raised}",
            evidence={
                "smallest failing index": ends.first_failing,
                "len(dataset)": ends.length,
                "likely": f"__len__ is {missing} too large{' (off by one)' if missing == 1 else ''}",
            },
            at=ends.last.incident.location,
            repro=lab.repro(f".dataset[{ends.first_failing}]"),
        )
    return Looked({"reads": ends.reads})
