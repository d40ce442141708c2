"""DG301: len(dataset) is larger than the number of samples."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.incident import Incident, LoaderRaised
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG301", "overlong-len", Severity.ERROR)
def dg301_overlong_len(lab: Lab) -> Judgement:
    """An index inside range(len(dataset)) raises.

    Symptom: an IndexError at the end of the first epoch, or at a random step once the order is shuffled; or a KeyError
        whose key is the index.
    Cause: `__len__` counts something other than what `__getitem__` serves: windows, frames, lines including the header,
        another split. Or samples are looked up by label after filtering: `df.loc[index]` on an index with gaps.
    Fix: return the first failing index (see the evidence) from `__len__`. After filtering, renumber the rows
        (`df.reset_index(drop=True)`), or look them up by position (`df.iloc[index]`).
    Links: https://docs.pytorch.org/docs/stable/data.html#map-style-datasets
    """
    try:
        ends = lab.dataset.ends
    except LoaderRaised as failure:
        yield _gap(lab, failure)
        return Coverage({})
    if ends.last.incident is not None and ends.last.incident.error_type == "StopIteration":
        raise NotApplicable("the last index raises StopIteration, which silently ends the epoch: see DG204")
    if ends.first_failing is not None and ends.last.incident is not None:
        missing, raised = ends.length - ends.first_failing, ends.last.incident.headline
        yield Finding(
            message=f"len(dataset) is {ends.length}, but index {ends.first_failing} raises {raised}",
            evidence={
                "fix here": f"return {ends.first_failing} for these data",
                "smallest failing index": ends.first_failing,
                "len(dataset)": ends.length,
                "likely cause": f"__len__ is {missing} too large{' (off by one)' if missing == 1 else ''}",
            },
            at=lab.places.length("dataset") or ends.last.incident.location,
            repro=lab.repro.samples(ends.first_failing),
        )
    return Coverage({"reads": ends.reads})


def _gap(lab: Lab, failure: LoaderRaised) -> Finding:
    """The finding for an index inside the range that is itself the missing key. Raises any other failure."""
    incident, length = failure.incident, lab.facts.length
    if lab.facts.kind != "map" or length is None or not _is_missing(incident, length):
        raise failure
    return Finding(
        message=f"len(dataset) is {length}, but index {incident.index} raises {incident.headline}",
        evidence={
            "failing index": int(incident.index or 0),
            "len(dataset)": length,
            "likely cause": "samples are looked up by label, and the labels have gaps",
        },
        at=incident.location,
        repro=lab.repro.incident(incident),
    )


def _is_missing(incident: Incident, length: int) -> bool:
    """Whether reading a sample inside the range ended in a KeyError whose key is the sample's index."""
    key = re.fullmatch(r"KeyError: (?:[\w.]+\()?(\d+)\)?", incident.headline)
    inside = key is not None and key.group(1) == incident.index and int(key.group(1)) < length
    return incident.stage == "sample" and inside
