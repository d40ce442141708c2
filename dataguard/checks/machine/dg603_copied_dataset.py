"""DG603: a dataset of Python objects that is copied into every worker."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.machine.growth import memory_of
from dataguard.core.model import Coverage, Finding, Judgement, Location, NotApplicable, NotTested, Severity
from dataguard.machine.units import counted, size

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.machine.growing_containers import CopiedContainer

MEMORY_SHARE, MUCH_MEMORY = 0.1, 1 << 29
"""Copies of this share of memory or this many bytes, whichever is less, are worth a warning. Chosen, not derived."""
LEAST_COPIED = 1 << 16
"""Bytes that a worker must copy once it has settled; less is what the interpreter itself touches."""


@check("DG603", "copied-dataset", Severity.WARNING)
def dg603_copied_dataset(lab: Lab) -> Judgement:
    """A large list or dict of Python objects is copied into every worker, page by page.

    Symptom: memory rises during the first epoch as if the dataset leaked, by its size times num_workers, and stays.
    Cause: forked workers share memory until one of them writes to it, and accessing a Python object writes its
        reference count. The page around it is copied; after an epoch, all pages are.
    Fix: keep large data in one array or tensor: numpy arrays of numbers or fixed-width strings, one array of bytes with
        offsets, an Arrow table, a memory map. Or leave it in a file that each worker opens.
    Links: https://github.com/pytorch/pytorch/issues/13246
    """
    facts = lab.facts
    if not facts.num_workers:
        raise NotApplicable("num_workers=0: there are no workers to copy to")
    if facts.start_method != "fork":
        raise NotApplicable(f"start method {facts.start_method}: workers share no memory that could be copied later")
    if not lab.machine.platform.startswith("Linux"):
        raise NotTested("only Linux reports which memory is shared")
    containers, memory = lab.resources.copied_containers, memory_of(lab)
    if not containers or memory is None:
        return Coverage({"large containers": len(containers)})
    held = sum(
        container.bytes
        for container in containers
        if not _is_inside(container.path, [other.path for other in containers])
    )
    most = min(MEMORY_SHARE * memory, MUCH_MEMORY)
    if held * facts.num_workers < most:
        return Coverage({"large containers": len(containers)}, _little(containers[0], f"at most {size(held)}"))
    usage = lab.resources.page_usage
    copied = usage.copied()
    if not copied or min(total for _, total in copied) < LEAST_COPIED:
        return Coverage(usage.exercised)
    rate = statistics.fmean(rate for rate, _ in copied)
    read = float("inf") if facts.persistent or not facts.length else facts.length / facts.num_workers
    copies = min(held, rate * read)
    if copies * facts.num_workers < most:
        return Coverage(usage.exercised, _little(containers[0], size(copies)))
    largest = containers[0]
    file, line = largest.at or (None, None)
    workers, total = counted(facts.num_workers, "workers"), size(copies * facts.num_workers)
    yield Finding(
        message=f"{largest.path} is copied into {workers}, {size(copies)} each, {total} in total",
        evidence={
            "container": f"{largest.kind} of {largest.entries:,} entries, about {size(largest.bytes)}",
            "copied": f"{size(rate)} per sample",
            "memory": size(memory),
        },
        at=Location(file, line, largest.path),
    )
    return Coverage(usage.exercised)


def _little(container: CopiedContainer, copies: str) -> str:
    return f"workers copy {container.path}, {copies} each: too little to matter here"


def _is_inside(path: str, others: list[str]) -> bool:
    """Whether the path leads through one of the others, whose entries count it already."""
    return any(path != other and path.startswith(other) for other in others)
