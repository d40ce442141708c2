"""DG601: shared memory that will not hold the batches in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.machine.batches_in_flight import Flight, flight_of
from dataguard.incident import LoaderFailed
from dataguard.machine.units import size
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.machine.machine import Machine


@check("DG601", "shm-headroom", Severity.ERROR)
def dg601_shm_headroom(lab: Lab) -> Judgement:
    """The batches in flight need more shared memory than /dev/shm has free.

    Symptom: "unable to allocate shared memory", a bus error, or a loader that hangs, when the queues are full for the
        first time; typical in containers, whose /dev/shm is 64 MB by default.
    Cause: every tensor of a batch travels through /dev/shm, and up to num_workers x prefetch_factor batches, and two
        around the one being used, are there at once.
    Fix: give the container more (docker run --shm-size=8g, or an emptyDir of medium Memory), or lower num_workers,
        prefetch_factor or the batch size; sending uint8 instead of float32 needs a quarter. In a
        container, what is in /dev/shm counts to the limit of memory as well.
    Links: https://docs.docker.com/reference/cli/docker/container/run/
    """
    facts = lab.facts
    if not facts.num_workers:
        raise NotApplicable("num_workers=0: batches do not travel between processes")
    if lab.machine.shm_free is None:
        raise NotApplicable("this platform has no /dev/shm")
    room, where = _room(lab.machine, lab.machine.shm_free)
    try:
        epoch = lab.epoch
    except LoaderFailed as failure:
        if not failure.incident.out_of_shared_memory:
            raise
        yield _no_room(room, failure.incident.message)
        return Looked({})
    flight = flight_of(lab)
    full = [batch.incident for batch in epoch.batches if batch.incident and batch.incident.out_of_shared_memory]
    if full and flight.needed <= room:
        yield _no_room(room, full[0].message)
    elif flight.needed > room:
        yield _finding(lab, flight, room, where)
    return Looked({"batches": len(epoch.batches), "bytes": max(flight.sizes, default=0)})


def _room(machine: Machine, shared: int) -> tuple[int, str]:
    """How many bytes can be in flight, and what it is that has them free."""
    memory = machine.memory_free
    return (shared, "/dev/shm") if memory is None or shared <= memory else (memory, "the limit of memory")


def _finding(lab: Lab, flight: Flight, room: int, where: str) -> Finding:
    facts, most = lab.facts, flight.fitting(room)
    return Finding(
        message=f"{len(flight.sizes)} batches in flight need {size(flight.needed)} of {where}, "
        f"which has {size(room)} free",
        evidence=known(
            {
                "largest batch": size(flight.sizes[0]),
                "made of the largest samples": [str(index) for index in flight.worst[:8]],
                "workers x prefetch": f"{facts.num_workers} x {facts.prefetch}",
                "fits": f"{most} batches of this size, those in use among them",
                "sharing strategy": facts.sharing,
            }
        ),
        repro=lab.repro.batch(flight.worst) if flight.worst else None,
    )


def _no_room(room: int, exception: str) -> Finding:
    return Finding(
        message=f"not even one batch for each worker fits into the {size(room)} that /dev/shm has free",
        evidence={"exception": exception},
    )
