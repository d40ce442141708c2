"""DG602: memory of workers that grows with every sample, until there is none left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.machine.growth import Growth, growth_of, memory_of, open_files
from dataguard.machine.units import size, span
from dataguard.model import Finding, Judgement, Location, Looked, Severity, known
from dataguard.stats.trend import trend

if TYPE_CHECKING:
    from dataguard.lab.core.process_usage import Reading
    from dataguard.lab.lab import Lab

LEAST = 1 << 19
"""Bytes by which a process grows in a third of what it reads, to be more than the noise of its allocator."""
MUCH, TOO_MUCH = 0.1, 0.9
"""The share of memory up to which keeping data is nobody's concern, and from which on it does not fit."""

NOTICED = 1 << 28
"""Bytes that workers keep in the end, each for itself, up to which a dataset is small, and kept on purpose."""
FILE = 1 << 16
"""Bytes that an open file and its buffer take at most."""


@check("DG602", "growing-worker", Severity.ERROR)
def dg602_growing_worker(lab: Lab) -> Judgement:
    """Workers take more memory with every sample that they read, and it never levels off.

    Symptom: training is killed hours later, "DataLoader worker is killed by signal: Killed", or the machine slows down
        to a crawl; sooner with more workers.
    Cause: a dict of samples, a list of results or an `lru_cache(maxsize=None)` keeps whatever was read, in every worker
        anew; or something is appended to for each sample and never emptied.
    Fix: give the cache a bound, or take it out; keep what all workers share in a file, a memory map or an array that is
        made before they start.
    Links: https://docs.python.org/3/library/functools.html#functools.lru_cache
    """
    growth = growth_of(lab, _taken, LEAST)
    if growth is None:
        strain = lab.resources.strain
        return Looked(strain.exercised, _unseen(lab))
    files = open_files(lab)
    if files is not None and growth.rate <= FILE * files.rate:
        return Looked(growth.strain.exercised, "what grows are files that are left open: see DG604")
    memory, needed = memory_of(lab), _needed(lab, growth)
    if growth.is_too_much(lab, needed, None if memory is None else TOO_MUCH * memory):
        yield _finding(lab, growth, memory, needed, fits=False)
        return Looked(growth.strain.exercised)
    if lab.facts.num_workers and not growth.bounded and (needed or 0) > NOTICED:
        yield _finding(lab, growth, memory, needed, fits=True)
        return Looked(growth.strain.exercised)
    share = f", of {size(memory)}" if memory and needed and needed > MUCH * memory else ""
    kept = f"what is read is kept{f' in {growth.hoard.path}' if growth.hoard else ''}"
    return Looked(growth.strain.exercised, f"{kept}: {size(needed or 0)} in all workers at the end{share}")


def _taken(reading: Reading) -> float:
    return reading.taken


def _needed(lab: Lab, growth: Growth) -> float | None:
    """Bytes in all workers together, None where nothing ends it."""
    samples = growth.samples(lab)
    return None if samples is None else samples * growth.rate * max(lab.facts.num_workers, 1)


def _unseen(lab: Lab) -> str | None:
    """What growth would come to that is too little to be seen in so few samples."""
    trends = [trend(points, 0) for points in lab.resources.strain.points(_taken)]
    rates = [one.rate for one in trends if one is not None and not one.steady]
    memory, length = memory_of(lab), lab.facts.length
    if not rates or not memory or not length or max(rates) * length < TOO_MUCH * memory:
        return None
    return f"growth by less than {size(max(rates))} for each sample would not have been seen"


def _finding(lab: Lab, growth: Growth, memory: int | None, needed: float | None, *, fits: bool) -> Finding:
    hoard, workers = growth.hoard, lab.facts.num_workers
    who = "each worker" if workers else "the reading process"
    keeps = f": {hoard.path} keeps what was read" if hoard else ""
    times = " even for samples that it read before" if growth.leaks else ""
    seconds = memory / (growth.rate * growth.strain.rate * max(workers, 1)) if memory and not fits else None
    ending = "each for itself" if fits else "and never levels off"
    file, line = hoard.at if hoard and hoard.at else (None, None)
    return Finding(
        message=f"{who} grows by {size(1000 * growth.rate)} per 1,000 samples{times}, {ending}{keeps}",
        evidence=known(
            {
                "needed in all": "more and more" if needed is None else size(needed),
                "memory": None if memory is None else size(memory),
                "reached after": f"{span(seconds)} of loading at this speed" if seconds else None,
                "container": hoard and f"{hoard.path}, a {hoard.kind}: {hoard.rate:.2g} entries for each sample",
                "bound": hoard.bound if hoard else None,
                "samples a worker read": growth.strain.exercised["samples"] // max(len(growth.strain.readings), 1),
            }
        ),
        at=Location(file, line, hoard.path) if hoard else None,
        mild=fits,
    )
