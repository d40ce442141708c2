"""Memory and open files of each worker over the samples that it reads. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.figures import Line, Plot
from dataguard.machine.units import size

if TYPE_CHECKING:
    from dataguard.lab.core.process_usage import Reading
    from dataguard.lab.lab import Lab
    from dataguard.lab.machine.worker_readings import Usage
    from dataguard.model import Finding

_MB = 1e6
"""Bytes in a megabyte, the unit of the axis."""


def allocated(lab: Lab, findings: Sequence[Finding]) -> Iterator[Plot]:
    """The memory of each worker."""
    del findings
    usage = lab.resources.longer_usage
    growth = max(readings[-1].allocated - readings[0].allocated for readings in usage.readings.values())
    summary = f"A worker grows by up to {size(growth)} while it reads {_samples(usage)} samples{_again(usage)}."
    yield _plot("Memory of each worker", summary, "memory (MB)", usage, lambda one: one.allocated / _MB)


def copied(lab: Lab, findings: Sequence[Finding]) -> Iterator[Plot]:
    """The memory that each worker no longer shares with the main process."""
    del findings
    usage = lab.resources.page_usage
    total = max(total for _, total in usage.copied())
    summary = (
        f"A worker copies up to {size(total)} of the main process's memory while it reads {_samples(usage)} samples."
    )
    yield _plot("Memory that workers do not share", summary, "private memory (MB)", usage, _private)


def open_files(lab: Lab, findings: Sequence[Finding]) -> Iterator[Plot]:
    """The open files of each worker."""
    del findings
    usage = lab.resources.longer_usage
    growth = max(readings[-1].descriptors - readings[0].descriptors for readings in usage.readings.values())
    summary = f"A worker opens up to {growth} more files while it reads {_samples(usage)} samples{_again(usage)}."
    yield _plot("Open files of each worker", summary, "open files", usage, lambda one: one.descriptors)


def _private(reading: Reading) -> float | None:
    return None if reading.pages is None else reading.pages.private / _MB


def _plot(title: str, summary: str, unit: str, usage: Usage, measure: Callable[[Reading], float | None]) -> Plot:
    lines = tuple(
        Line("main process" if worker is None else f"worker {worker}", tuple(_points(readings, measure)))
        for worker, readings in usage.readings.items()
    )
    return Plot(title, summary, "samples read", unit, lines)


def _points(readings: Sequence[Reading], measure: Callable[[Reading], float | None]) -> Iterator[tuple[float, float]]:
    for one in readings:
        value = measure(one)
        if value is not None:
            yield float(one.samples), float(value)


def _samples(usage: Usage) -> int:
    return max(readings[-1].samples for readings in usage.readings.values())


def _again(usage: Usage) -> str:
    return f", the first {usage.fresh} of them new" if usage.fresh < _samples(usage) else ""
