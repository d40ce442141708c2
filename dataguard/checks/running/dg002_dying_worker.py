"""DG002: a process of the loader dies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.incident import Incident, LoaderDied
from dataguard.core.model import Coverage, Finding, Judgement, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

_LIKELY_CAUSES = {
    "SIGSEGV": "native code accessed invalid memory: a C extension, or a library that is not fork-safe",
    "SIGBUS": "shared memory is full, or a memory-mapped file was truncated",
    "SIGKILL": "the kernel's out-of-memory killer, or a container's memory limit",
    "SIGABRT": "native code aborted: a failed assertion, or memory that was freed twice",
    "SIGFPE": "an integer division by zero in native code",
}


@check("DG002", "dying-worker", Severity.ERROR)
def dg002_dying_worker(lab: Lab) -> Judgement:
    """A process of the loader is killed by a signal or calls exit.

    Symptom: "DataLoader worker (pid ...) is killed by signal" or "exited unexpectedly", often hours into training.
    Cause: native code that crashes on one sample, memory or shared memory that runs out, or a call to `os._exit` or
        `sys.exit`.
    Fix: run the repro line, which reads only the last index; for SIGKILL and SIGBUS, lower the number of workers, the
        prefetch factor or the batch size.
    Links: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
    """
    for failure in lab.failures():
        if not isinstance(failure, LoaderDied):
            raise failure
        if not failure.incident.out_of_shared_memory:
            yield _finding(lab, failure.incident)
        return Coverage({})
    return Coverage(lab.epoch.exercised)


def _finding(lab: Lab, incident: Incident) -> Finding:
    evidence = {
        "signal": incident.signal,
        "exit code": incident.exit_code,
        "likely cause": _LIKELY_CAUSES.get(
            incident.signal or "", "os._exit or sys.exit was called" if incident.exit_code else None
        ),
        "last index": incident.index,
        "worker": incident.worker,
        "stacks": incident.stacks or None,
        "output": incident.output or None,
    }
    return Finding(
        message=f"{incident.message} while {replace(incident, worker=None).where}",  # it names the worker
        evidence=without_empty(evidence),
        at=incident.location,
        repro=lab.repro.incident(incident),
    )
