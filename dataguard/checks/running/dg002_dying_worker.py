"""DG002: a process of the loader dies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.incident import Incident, LoaderDied
from dataguard.model import Finding, Judgement, Looked, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

_LIKELY = {
    "SIGSEGV": "native code read memory that is not its own: a C extension, or a library that does not survive a fork",
    "SIGBUS": "shared memory is full, or a memory-mapped file was cut short",
    "SIGKILL": "the kernel's out-of-memory killer, or a container's memory limit",
    "SIGABRT": "native code gave up: an assertion, or memory that was freed twice",
    "SIGFPE": "native code divided by zero",
}


@check("DG002", "dying-worker", Severity.ERROR)
def dg002_dying_worker(lab: Lab) -> Judgement:
    """A process of the loader ends by a signal or by an exit call.

    Symptom: "DataLoader worker (pid ...) is killed by signal" or "exited unexpectedly", often hours into training.
    Cause: native code that crashes on one sample, memory or shared memory that runs out, or a call of `os._exit` or
        `sys.exit`.
    Fix: run the repro line, which reads the last index alone; for SIGKILL and SIGBUS lower the number of workers, the
        prefetch factor or the batch size.
    Links: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
    """
    for failure in lab.failures():
        if not isinstance(failure, LoaderDied):
            raise failure
        if not failure.incident.out_of_shared_memory:
            yield _finding(lab, failure.incident)
        return Looked({})
    return Looked(lab.epoch.exercised)


def _finding(lab: Lab, incident: Incident) -> Finding:
    evidence = {
        "signal": incident.signal,
        "exit code": incident.exit_code,
        "likely": _LIKELY.get(incident.signal or "", "os._exit or sys.exit was called" if incident.exit_code else None),
        "last index": incident.index,
        "worker": incident.worker,
        "stacks": incident.stacks or None,
        "output": incident.output or None,
    }
    return Finding(
        message=f"{incident.message} while {incident.where}",
        evidence=known(evidence),
        at=incident.location,
        repro=lab.repro.incident(incident),
    )
