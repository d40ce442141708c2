"""DG604: files that workers open and do not close."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.machine.growth import Growth, open_files
from dataguard.core.model import Coverage, Finding, Judgement, Location, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


FEWEST_OPEN = 0.5
"""The share of new files that must still be open after a garbage collection: others wait for their cycle to be
collected."""


@check("DG604", "leaking-handles", Severity.ERROR)
def dg604_leaking_handles(lab: Lab) -> Judgement:
    """Workers open files and do not close them, until they reach the limit on open files.

    Symptom: "OSError: [Errno 24] Too many open files" after some thousand samples, or errors from shared memory, which
        needs descriptors as well; more workers or shorter epochs delay it.
    Cause: files, archives, readers or sockets are opened for each sample, and a list, a dict or another reference keeps
        them open; or a decoder is never released.
    Fix: `with open(...)`, or close what was opened; bound a pool of open files.
    Links: https://man7.org/linux/man-pages/man2/getrlimit.2.html
    """
    growth = open_files(lab)
    if growth is None:
        return Coverage(lab.resources.usage.exercised)
    if growth.containers is not None and growth.containers.opened < FEWEST_OPEN * growth.rate:
        return Coverage(growth.usage.exercised, "files stay open until garbage collection")
    limit, needed = lab.machine.open_files, _needed(lab, growth)
    if growth.is_too_much(lab, needed, limit):
        yield _finding(lab, growth, limit, needed)
        return Coverage(growth.usage.exercised)
    allowed = f" of {limit:,} allowed" if limit else ""
    return Coverage(growth.usage.exercised, f"files stay open: {needed or 0:,.0f}{allowed} per worker at the end")


def _needed(lab: Lab, growth: Growth) -> float | None:
    """How many files one process has open at the end; None where growth has no end."""
    samples = growth.samples(lab)
    return None if samples is None else _base(growth) + samples * growth.rate


def _finding(lab: Lab, growth: Growth, limit: int | None, needed: float | None) -> Finding:
    container = growth.container
    who = "each worker" if lab.facts.num_workers else "the main process"
    times = ", also when samples repeat" if growth.leaks else ""
    keeps = f": {container.path} keeps them" if container else ""
    file, line = container.at if container and container.at else (None, None)
    reached = (limit - _base(growth)) / growth.rate if limit else None
    return Finding(
        message=f"{who} leaves {1000 * growth.rate:,.0f} files open per 1,000 samples{times}{keeps}",
        evidence=without_empty(
            {
                "open at the start": _base(growth),
                "open at the end": "no limit" if needed is None else round(needed),
                "allowed": limit,
                "limit reached after": f"{reached:,.0f} samples per worker" if reached else None,
                "container": f"{container.path}, a {container.kind}" if container else None,
            }
        ),
        at=Location(file, line, container.path) if container else None,
    )


def _base(growth: Growth) -> int:
    return max(readings[0].descriptors for readings in growth.usage.readings.values())
