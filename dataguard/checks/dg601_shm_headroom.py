"""DG601: shared memory that will not hold the batches in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.incident import LoaderFailed
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, check

if TYPE_CHECKING:
    from dataguard.lab import Lab
    from dataguard.lab.passes import EpochTrace

_HELD = 2
"""Batches beside those that workers prepare: the one in use, and the next one, for which a worker starts another before
the loop lets go of the first (measured on torch 2.15: the peak is num_workers x prefetch_factor + 2)."""


@check("DG601", "shm-headroom", Severity.ERROR)
def dg601_shm_headroom(lab: Lab) -> Judgement:
    """The batches in flight need more shared memory than /dev/shm has free.

    Symptom: "unable to allocate shared memory", a bus error, or a loader that hangs, when the queues are full for the
        first time; typical in containers, whose /dev/shm is 64 MB by default.
    Cause: every tensor of a batch travels through /dev/shm, and up to num_workers x prefetch_factor batches, and two
        around the one being used, are there at once.
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
    queues = _queues(facts.num_workers)
    try:
        epoch = lab.epoch
    except LoaderFailed as failure:
        if not failure.incident.out_of_shared_memory:
            raise
        yield _no_room(free, failure.incident.message)
        return Looked({})
    largest = max((batch.shared_bytes for batch in epoch.batches), default=0)
    full = [batch.incident for batch in epoch.batches if batch.incident and batch.incident.out_of_shared_memory]
    flying = min(flying, _batches(epoch) or flying)
    needed = flying * largest + queues
    if full and needed <= free:
        yield _no_room(free, full[0].message)
    elif needed > free:
        yield Finding(
            message=f"{flying} batches in flight need {_size(needed)} of /dev/shm, which has {_size(free)} free",
            evidence={
                "largest batch": _size(largest),
                "workers x prefetch": f"{facts.num_workers} x {facts.prefetch}, and {_HELD} in use",
                "fits with": f"num_workers x prefetch_factor <= {max((free - queues) // max(largest, 1) - _HELD, 0)}",
                "sharing strategy": facts.sharing,
            },
        )
    return Looked({"batches": len(epoch.batches), "bytes": largest})


def _no_room(free: int, exception: str) -> Finding:
    return Finding(
        message=f"not even one batch for each worker fits into the {_size(free)} that /dev/shm has free",
        evidence={"exception": exception},
    )


def _queues(workers: int) -> int:
    """Bytes that the semaphores of the loader's queues take: a page for each of 3 a queue, and of 5 in an event."""
    return 4096 * (3 * (workers + 1) + 5)


def _batches(epoch: EpochTrace) -> int | None:
    """How many batches an epoch has, None when nobody knows."""
    if epoch.sizes is not None:
        return len(epoch.sizes)
    return len(epoch.batches) if epoch.whole else None


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.4g} {unit}"
        count /= 1000
    return f"{count:.4g} GB"
