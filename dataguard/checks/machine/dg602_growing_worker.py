"""DG602: worker memory that grows with every sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.machine.growth import FULL_SHARE, Growth, growth_of, memory_of, open_files, unseen_growth
from dataguard.core.model import Coverage, Finding, Judgement, Location, Severity, without_empty
from dataguard.machine.units import size, span

if TYPE_CHECKING:
    from dataguard.lab.core.records import Reading
    from dataguard.lab.lab import Lab

LEAST_GROWTH = 1 << 19
"""Bytes that a process must grow by in each third of its reads; less is noise of its allocator."""
NOTED_SHARE = 0.1
"""The share of memory above which cached data is noted. Chosen, not derived."""

SMALL_CACHE = 1 << 28
"""Bytes cached in all workers together up to which a dataset is small, and cached on purpose. Chosen, not derived."""
FILE_BYTES = 1 << 16
"""The most bytes that an open file and its buffer take."""
WARMING_BYTES = 1 << 14
"""Bytes a sample that libraries may take in their first thousands of calls: 7 kB in 8,000 of `torchaudio.load`."""


@check("DG602", "growing-worker", Severity.ERROR)
def dg602_growing_worker(lab: Lab) -> Judgement:
    """Worker memory grows with every sample and never levels off.

    Symptom: training is killed hours later, "DataLoader worker is killed by signal: Killed", or the machine slows down
        to a crawl; sooner with more workers.
    Cause: a dict of samples, a list of results or an `lru_cache(maxsize=None)` keeps everything that was read, once
        per worker; or a list grows with each sample and is never emptied.
    Fix: bound the cache or remove it; keep data that all workers share in a file, a memory map or an array created
        before they start.
    Links: https://docs.python.org/3/library/functools.html#functools.lru_cache
    """
    growth = growth_of(lab, _allocated, LEAST_GROWTH, live=True)
    if growth is None:
        return Coverage(lab.resources.usage.exercised, unseen_growth(lab))
    files = open_files(lab)
    if files is not None and growth.rate <= FILE_BYTES * files.rate:
        return Coverage(growth.usage.exercised, "the growth comes from files left open: see DG604")
    if growth.container is None and growth.rate < WARMING_BYTES:
        rate = f"{size(1000 * growth.rate)} per 1,000 samples"
        return Coverage(growth.usage.exercised, f"memory grows by {rate}, which no object of yours keeps")
    memory, needed = memory_of(lab), _needed(lab, growth)
    if growth.is_too_much(lab, needed, None if memory is None else FULL_SHARE * memory):
        yield _finding(lab, growth, memory, needed, fits=False)
        return Coverage(growth.usage.exercised)
    if lab.facts.num_workers and not growth.bounded and (needed or 0) > SMALL_CACHE:
        yield _finding(lab, growth, memory, needed, fits=True)
        return Coverage(growth.usage.exercised)
    share = f" of {size(memory)} of memory" if memory and needed and needed > NOTED_SHARE * memory else ""
    cached = f"samples are cached{f' in {growth.container.path}' if growth.container else ''}"
    return Coverage(growth.usage.exercised, f"{cached}: {size(needed or 0)}{share} in all workers at the end")


def _allocated(reading: Reading) -> float:
    return reading.allocated


def _needed(lab: Lab, growth: Growth) -> float | None:
    """The bytes that all workers need together at the end; None where growth has no end."""
    samples = growth.samples(lab)
    return None if samples is None else samples * growth.rate * max(lab.facts.num_workers, 1)


def _finding(lab: Lab, growth: Growth, memory: int | None, needed: float | None, *, fits: bool) -> Finding:
    container, workers = growth.container, lab.facts.num_workers
    who = "each worker" if workers else "the main process"
    keeps = f": {container.path} keeps what was read" if container else ""
    times = ", also when samples repeat," if growth.leaks else ""
    seconds = memory / (growth.rate * growth.usage.rate * max(workers, 1)) if memory and not fits else None
    ending = ", in memory of its own" if fits else " and never levels off"
    file, line = container.at if container and container.at else (None, None)
    return Finding(
        message=f"{who} grows by {size(1000 * growth.rate)} per 1,000 samples{times}{ending}{keeps}",
        evidence=without_empty(
            {
                "needed in total": "no limit" if needed is None else size(needed),
                "memory": None if memory is None else size(memory),
                "memory full after": f"{span(seconds)} of loading at this speed" if seconds else None,
                "container": container and f"{container.path}, a {container.kind} (+{container.rate:.2g} per sample)",
                "bound": container.bound if container else None,
                "samples per worker": growth.usage.exercised["samples"] // max(len(growth.usage.readings), 1),
            }
        ),
        at=Location(file, line, container.path) if container else None,
        ambiguous=fits,
    )
