"""DG604: files that workers open and never close."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.machine.growth import Growth, open_files
from dataguard.model import Finding, Judgement, Location, Looked, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

CLOSED = 0.5
"""The share of them that is still open when all garbage is collected."""


@check("DG604", "leaking-handles", Severity.ERROR)
def dg604_leaking_handles(lab: Lab) -> Judgement:
    """Workers open files and do not close them, until they may open no more.

    Symptom: "OSError: [Errno 24] Too many open files" after some thousand samples, or errors from shared memory, which
        needs descriptors as well; more workers or shorter epochs put it off.
    Cause: files, archives, readers or sockets are opened for each sample and kept, in a list or a dict or by what
        refers to them; a decoder that is never released.
    Fix: `with open(...)`, or close what was opened; give a pool of open files a bound.
    Links: https://man7.org/linux/man-pages/man2/getrlimit.2.html
    """
    growth = open_files(lab)
    if growth is None:
        return Looked(lab.resources.strain.exercised)
    if growth.hoards is not None and growth.hoards.opened < CLOSED * growth.rate:
        return Looked(growth.strain.exercised, "files stay open until the garbage is collected")
    limit, needed = lab.machine.open_files, _needed(lab, growth)
    if growth.is_too_much(lab, needed, limit):
        yield _finding(lab, growth, limit, needed)
        return Looked(growth.strain.exercised)
    return Looked(
        growth.strain.exercised, f"files are kept open: {needed or 0:,.0f} of {limit or 0:,} in a worker at the end"
    )


def _base(growth: Growth) -> int:
    return max(readings[0].descriptors for readings in growth.strain.readings.values())


def _needed(lab: Lab, growth: Growth) -> float | None:
    """Open files of one process in the end, None where nothing ends it."""
    samples = growth.samples(lab)
    return None if samples is None else _base(growth) + samples * growth.rate


def _finding(lab: Lab, growth: Growth, limit: int | None, needed: float | None) -> Finding:
    hoard = growth.hoard
    who = "each worker" if lab.facts.num_workers else "the process that reads"
    times = ", and again for samples that it read before" if growth.leaks else ""
    keeps = f": {hoard.path} keeps them" if hoard else ""
    file, line = hoard.at if hoard and hoard.at else (None, None)
    reached = (limit - _base(growth)) / growth.rate if limit else None
    return Finding(
        message=f"{who} leaves {1000 * growth.rate:,.0f} files open per 1,000 samples{times}{keeps}",
        evidence=known(
            {
                "open at first": _base(growth),
                "open in the end": "more and more" if needed is None else round(needed),
                "allowed": limit,
                "reached after": f"{reached:,.0f} samples of a worker" if reached else None,
                "container": f"{hoard.path}, a {hoard.kind}" if hoard else None,
            }
        ),
        at=Location(file, line, hoard.path) if hoard else None,
    )
