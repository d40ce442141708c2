"""DG601: shared memory that will not hold the batches in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.model import Finding, Judgement, LoaderFailed, Looked, NotApplicable, Severity, check

if TYPE_CHECKING:
    from dataguard.lab import Lab

_SEMAPHORES = 57_344
"""Bytes that the loader's queues take of /dev/shm themselves (measured on torch 2.13)."""
_HELD = 1
"""Batches that the training loop holds while workers fill the queue again."""


@check("DG601", "shm-headroom", Severity.ERROR)
def dg601_shm_headroom(lab: Lab) -> Judgement:
    """The batches in flight need more shared memory than /dev/shm has free.

    Symptom: "unable to allocate shared memory", a bus error, or a loader that hangs, when the queues are full for the
        first time; typical in containers, whose /dev/shm is 64 MB by default.
    Cause: every tensor of a batch travels through /dev/shm, and up to num_workers x prefetch_factor batches, and the one
        being used, are there at once.
    Fix: give the container more (docker run --shm-size=8g, or an emptyDir of medium Memory), or lower num_workers,
        prefetch_factor or the batch size; sending uint8 instead of float32 needs a quarter.
    Links: https://docs.docker.com/reference/cli/docker/container/run/
    """
    facts = lab.facts
    if not facts.num_workers:
        raise NotApplicable("num_workers=0: batches do not travel between processes")
    free = lab.machine.shm_free
    if free is None:
        raise NotApplicable("this platform has no /dev/shm")
    flying = facts.num_workers * (facts.prefetch or 2) + _HELD
    try:
        epoch = lab.epoch
    except LoaderFailed as failure:
        if not failure.incident.out_of_shared_memory:
            raise
        yield Finding(
            message=f"not even one batch for each worker fits into the {_size(free)} that /dev/shm has free",
            evidence={"exception": failure.incident.message, "batches in flight": flying},
        )
        return Looked({})
    largest = max((batch.shared_bytes for batch in epoch.batches), default=0)
    full = [batch for batch in epoch.batches if batch.incident and batch.incident.out_of_shared_memory]
    needed = flying * largest + _SEMAPHORES
    if full or needed > free:
        yield Finding(
            message=f"{flying} batches in flight need {_size(needed)} of /dev/shm, which has {_size(free)} free",
            evidence={
                "largest batch": _size(largest),
                "workers x prefetch": f"{facts.num_workers} x {facts.prefetch}, and {_HELD} in use",
                "fits with": f"num_workers x prefetch_factor <= {max((free - _SEMAPHORES) // max(largest, 1) - _HELD, 0)}",
                "sharing strategy": facts.sharing,
            },
        )
    return Looked({"batches": len(epoch.batches), "bytes": largest})


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.4g} {unit}"
        count /= 1000
    return f"{count:.4g} GB"
