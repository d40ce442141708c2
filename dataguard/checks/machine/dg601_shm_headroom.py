"""DG601: too little shared memory for the batches in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.machine.batches_in_flight import Flight, flight_of
from dataguard.incident import LoaderFailed
from dataguard.machine.units import counted, size
from dataguard.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.machine.machine import Machine


@check("DG601", "shm-headroom", Severity.ERROR)
def dg601_shm_headroom(lab: Lab) -> Judgement:
    """The batches in flight need more shared memory than /dev/shm has free.

    Symptom: "unable to allocate shared memory", a bus error, or a loader that hangs, when the queues are full for the
        first time; typical in containers, where /dev/shm is 64 MB by default.
    Cause: every tensor of a batch travels through /dev/shm, which holds up to num_workers x prefetch_factor batches at
        once, and two more: the one in use and the next.
    Fix: give the container more (docker run --shm-size=8g, or an emptyDir with medium Memory), or lower num_workers,
        prefetch_factor or the batch size; uint8 needs a quarter of what float32 needs. In a container, /dev/shm also
        counts towards the memory limit.
    Links: https://docs.docker.com/reference/cli/docker/container/run/
    """
    facts = lab.facts
    if not facts.num_workers:
        raise NotApplicable("num_workers=0: batches are not sent between processes")
    if lab.machine.shm_free is None:
        raise NotApplicable("this platform has no /dev/shm")
    room, where = _room(lab.machine, lab.machine.shm_free)
    try:
        epoch = lab.epoch
    except LoaderFailed as failure:
        if not failure.incident.out_of_shared_memory:
            raise
        yield _no_room(room, failure.incident.message)
        return Coverage({})
    flight = flight_of(lab)
    full = [batch.incident for batch in epoch.batches if batch.incident and batch.incident.out_of_shared_memory]
    if full and flight.needed <= room:
        yield _no_room(room, full[0].message)
    elif flight.needed > room:
        yield _finding(lab, flight, room, where)
    return Coverage({"batches": len(epoch.batches), "bytes": max(flight.sizes, default=0)})


def _room(machine: Machine, shared: int) -> tuple[int, str]:
    """How many bytes can be in flight, and which limit says so."""
    memory = machine.memory_free
    return (shared, "/dev/shm has") if memory is None or shared <= memory else (memory, "the memory limit leaves")


def _finding(lab: Lab, flight: Flight, room: int, where: str) -> Finding:
    facts, most = lab.facts, flight.fitting(room)
    batches = counted(len(flight.sizes), "batches")
    return Finding(
        message=f"{batches} in flight, {size(flight.needed)} in total, but {where} {size(room)} free",
        evidence=without_empty(
            {
                "largest batch": size(flight.sizes[0]),
                "built from the largest samples": [str(index) for index in flight.worst[:8]],
                "workers x prefetch": f"{facts.num_workers} x {facts.prefetch}",
                "fits": f"{counted(most, 'batches')} of this size, including those in use",
                "sharing strategy": facts.sharing,
            }
        ),
        repro=lab.repro.samples(*flight.worst, batch=True) if flight.worst else None,
    )


def _no_room(room: int, exception: str) -> Finding:
    return Finding(
        message=f"/dev/shm has {size(room)} free, too little for one batch per worker",
        evidence={"exception": exception},
    )
