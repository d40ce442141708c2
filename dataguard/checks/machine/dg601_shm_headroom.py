"""DG601: too little shared memory for the batches in flight.

`flight_of` estimates how many batches are in flight and how large they are; the check compares that with what is free.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.incident import LoaderFailed, observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty
from dataguard.machine.units import counted, size

if TYPE_CHECKING:
    from dataguard.lab.core.loader_facts import LoaderFacts
    from dataguard.lab.core.records import Index, LeafRecord, SampleRecord
    from dataguard.lab.lab import Lab
    from dataguard.lab.reading.epoch_trace import EpochTrace
    from dataguard.machine.machine import Machine

PAGE_BYTES = 4096
"""The size in bytes of a page of shared memory on Linux."""
HELD_BATCHES = 2
"""Batches beyond those that workers prepare: the one in use and the next one, for which a worker starts another before
the loop releases the first (measured on torch 2.15: the peak is num_workers x prefetch_factor + 2)."""
VARIED_FACTOR = 1.1
"""The largest sample is at least this many times the median one where batches vary in size. Chosen: less changes the
estimate by less than a batch in ten."""


@dataclass(frozen=True, slots=True)
class Flight:
    """The most batches that are in shared memory at once.

    `sizes` are their bytes, the largest first; `queues` are the bytes of the semaphores of the loader's queues. `worst`
    are the samples of the largest batch, where it was built from the largest samples that were seen.
    """

    sizes: tuple[int, ...]
    queues: int
    worst: tuple[Index, ...] = ()

    @property
    def needed(self) -> int:
        """The bytes of all of it."""
        return sum(self.sizes) + self.queues

    def fitting(self, room: int) -> int:
        """How many of the largest batches fit into `room` bytes."""
        return max((room - self.queues) // max(self.sizes[0], 1), 0) if self.sizes else 0


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


def flight_of(lab: Lab) -> Flight:
    """What is in flight when the queues are full, estimated from the batches and the largest samples that were seen."""
    facts, epoch = lab.facts, lab.epoch
    count = _count(facts, epoch)
    seen = sorted((batch.shared_bytes for batch in epoch.batches), reverse=True)
    worst = _largest(facts, epoch)
    largest = _bytes_of(lab, worst)
    if largest is None or (seen and largest <= seen[0]):
        largest, worst = None, ()
    sizes = [*([largest] if largest else []), *seen][:count]
    missing = count - len(sizes)
    typical = round(statistics.median(sizes)) if sizes else 0
    return Flight((*sizes, *[typical] * missing), _queues(facts.num_workers), worst)


def _count(facts: LoaderFacts, epoch: EpochTrace) -> int:
    """How many batches are in flight at once: no more than an epoch has.

    A thread that pins batches copies them out of shared memory right away: those in use do not count.
    """
    held = 0 if facts.pin_memory and facts.pins else HELD_BATCHES
    in_flight = facts.num_workers * (facts.prefetch or 2) + held
    planned = len(epoch.sizes) if epoch.sizes is not None else len(epoch.batches) if epoch.whole else 0
    return min(in_flight, planned or in_flight)


def _largest(facts: LoaderFacts, epoch: EpochTrace) -> tuple[Index, ...]:
    """The samples of the largest possible batch, where samples vary in size and any of them may share a batch."""
    by_index = {sample.index: sample for sample in epoch.samples if sample.index is not None}
    ranked = sorted(by_index.values(), key=_bytes, reverse=True)
    if not facts.mixes_samples or not facts.batch_size or len(ranked) < facts.batch_size:
        return ()
    if _bytes(ranked[0]) < VARIED_FACTOR * _bytes(ranked[len(ranked) // 2]):
        return ()
    return tuple(sample.index for sample in ranked[: facts.batch_size])


def _bytes_of(lab: Lab, indices: Sequence[Index]) -> int | None:
    return observed_or_none(lambda: lab.resources.batch_bytes(indices)) if indices else None


def _bytes(sample: SampleRecord) -> int:
    return sum(map(_leaf_bytes, sample.leaves))


def _leaf_bytes(leaf: LeafRecord) -> int:
    bits = re.search(r"\d+", leaf.dtype or "")
    return math.prod(leaf.shape or ()) * (int(bits[0]) // 8 if bits else 1)


def _queues(workers: int) -> int:
    """The bytes of the semaphores of the loader's queues: a page for each of 3 a queue, and of 5 in an event."""
    return PAGE_BYTES * (3 * (workers + 1) + 5)


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
