"""DG003: the loader hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.incident import Incident, LoaderHung
from dataguard.core.model import Coverage, Finding, Judgement, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG003", "hanging-loader", Severity.ERROR)
def dg003_hanging_loader(lab: Lab) -> Judgement:
    """The loader hangs: it makes no progress and raises no error.

    Symptom: training stops making progress; the workers are alive but idle, and nothing is printed.
    Cause: a lock that is never released, a read that never returns, or a batch whose
        unpickling never ends. If a batch or the class of an exception cannot be pickled, torch's feeder thread dies
        silently, and the main process waits forever. A forked worker has none of the threads that a library of the main
        process had started: what they locked stays locked.
    Fix: find the waiting line in the stacks. If a batch cannot be pickled, return tensors, arrays and plain containers
        from `collate_fn`, and `detach()` tensors that require grad.
        Of a library whose threads are named, use nothing before the workers start, or start them with
        `multiprocessing_context="spawn"`.
    Links: https://github.com/pytorch/pytorch/issues/142884
    """
    for failure in lab.failures():
        if not isinstance(failure, LoaderHung):
            raise failure
        yield _finding(lab, failure.incident)
        return Coverage({})
    epoch = lab.epoch
    unsent = [batch.incident for batch in epoch.batches if batch.incident and batch.incident.stage == "transfer"]
    if unsent:
        yield _unpicklable(unsent[0], len(unsent), len(epoch.batches))
    return Coverage(epoch.exercised)


def _finding(lab: Lab, incident: Incident) -> Finding:
    if incident.stage == "transfer":
        return _unpicklable(incident, 1, 1)
    if incident.stage == "raise":
        return Finding(
            message=f"an exception cannot be sent to the main process, which would wait forever: {incident.headline}",
            evidence=without_empty({"index": incident.index, "worker": incident.worker}),
            at=incident.location,
        )
    forked = incident.threads or None
    evidence = {
        "fix here": 'multiprocessing_context="spawn", or use the library in the workers alone' if forked else None,
        "threads where the worker was forked": forked,
        "last index": incident.index,
        "worker": incident.worker,
        "stacks": incident.stacks or None,
        "output": incident.output or None,
    }
    return Finding(
        message=f"{incident.message} while {incident.where}",
        evidence=without_empty(evidence),
        at=incident.location,
        repro=lab.repro.incident(incident),
    )


def _unpicklable(incident: Incident, count: int, total: int) -> Finding:
    return Finding(
        message=f"the batch cannot be sent to the main process, which would wait forever: {incident.headline}",
        evidence={
            "batches": f"{count} of {total}",
            "worker": incident.worker,
            "indices": list(incident.batch),
        },
        at=incident.location if incident.own_frame else None,
    )
