"""DG001: the loader raises."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.incident import Incident, LoaderRaised
from dataguard.model import Finding, Judgement, Looked, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

_KNOWN = (
    (
        r"[Ii]mg should be Tensor|does not support PIL|tensor image",
        "Normalize stands before ToTensor: put ToTensor first",
    ),
    (r"mutually exclusive with shuffle", "shuffle and a sampler exclude each other: the sampler decides the order"),
    (
        r"[Cc]an't pickle|cannot pickle|[Pp]ickling|local object",
        "the start method sends this object by pickle (see DG104)",
    ),
    (r"batch must contain tensors", "default_collate knows tensors, arrays, numbers, strings and containers of them"),
    (r"cannot identify image|truncated|broken data stream", "a file is damaged or is no image"),
    (r"No such file|FileNotFoundError", "a file that the dataset lists is not there"),
    (r"mode I;16|mode F|unrecognized data stream contents", "an image mode that this transform cannot read"),
    (r"worker\(s\) exited unexpectedly", "a worker ended early; an unguarded main module does this under spawn"),
)


@check("DG001", "crashing-loader", Severity.ERROR)
def dg001_crashing_loader(lab: Lab) -> Judgement:
    """The factory, the dataset, collate_fn or the iteration raises.

    Symptom: training stops with an exception, at once or at the one sample that triggers it hours later.
    Cause: an exception in the user's own code or in a library it calls; the evidence names the frame, the index and
        the worker.
    Fix: mend the line that the location names, or leave the sample out; run the repro line to see the exception alone.
    Links: https://docs.pytorch.org/docs/stable/data.html
    """
    for failure in lab.failures():
        if not isinstance(failure, LoaderRaised):
            raise failure
        if not failure.incident.out_of_shared_memory:
            yield _finding(lab, failure.incident)
        return Looked({})
    epoch = lab.epoch
    refused = [batch.incident for batch in epoch.batches if batch.incident and batch.incident.stage == "collate"]
    if refused and not refused[0].out_of_shared_memory and all(batch.refuses_each for batch in epoch.batches):
        yield _finding(lab, refused[0])
    return Looked(epoch.exercised)


def _finding(lab: Lab, incident: Incident) -> Finding:
    hint = next((hint for pattern, hint in _KNOWN if re.search(pattern, incident.message)), None)
    evidence = {
        "exception": incident.message,
        "index": incident.index,
        "worker": incident.worker,
        "batch": list(incident.batch) or None,
        "hint": hint,
    }
    return Finding(
        message=f"{incident.where} raised {incident.headline}",
        evidence=known(evidence),
        at=incident.location,
        repro=lab.repro.incident(incident),
    )
