"""How memory and open files of a process grow as it reads, how far, and the figures of it. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataguard.core.figures import Line, Plot
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Undecided
from dataguard.machine.units import size
from dataguard.stats.trend import HINT, Trend, common, trend

if TYPE_CHECKING:
    from dataguard.core.model import Finding
    from dataguard.lab.core.records import Reading
    from dataguard.lab.lab import Lab
    from dataguard.lab.machine.growing_containers import GrowingContainer, GrowingContainers
    from dataguard.lab.machine.resource_observations import Usage


_LEAST_FILES = 2
"""Files that a process must open in each third of its reads; fewer may be temporary."""
FULL_SHARE = 0.9
"""The share of memory above which data that is kept does not fit: the model and other processes need some."""
_LEAST_LIVE = 512
"""Bytes of live objects per sample whose growth is examined for longer: smaller finds smaller leaks, and reads
longer."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth by `rate` with every sample that is new to a process; where it `leaks`, with repeated samples as well.

    `usage` is what was measured, and `containers` are those that grow, None where they could not be observed.
    """

    rate: float
    leaks: bool
    usage: Usage
    containers: GrowingContainers | None

    @property
    def container(self) -> GrowingContainer | None:
        """The container that grows along with it, if one was found."""
        return self.containers.found[0] if self.containers and self.containers.found else None

    @property
    def bounded(self) -> bool:
        """Whether it grows up to a known bound."""
        return self.container is not None and self.container.bound is not None

    def is_too_much(self, lab: Lab, needed: float | None, most: float | None) -> bool:
        """Whether the need at the end, None without an end, is more than there is, or growth leaks.

        Raises Undecided for a stream whose growth may be a buffer that is still filling.
        """
        fits = most is None or (needed is not None and needed <= most)
        kept_on_purpose = self.container is not None and not self.container.in_generator
        if lab.facts.kind == "stream" and not (fits or self.bounded or kept_on_purpose):
            raise Undecided(
                "usage grew with every sample read, but a shuffle buffer of the stream may still be filling"
            )
        return not fits or (self.leaks and not self.bounded)

    def samples(self, lab: Lab) -> float | None:
        """How many samples one process keeps something of by the end of an epoch, or of all where workers persist.

        None where the number is unknown or has no end.
        """
        facts = lab.facts
        if self.leaks and facts.persistent:
            return None
        length = float("inf") if facts.length is None else float(facts.length)
        kept = length if facts.persistent and facts.shuffled else length / max(facts.num_workers, 1)
        if self.container is not None and self.container.bound is not None:
            return min(kept, self.container.bound / max(self.container.rate, 1e-9))
        return None if kept == float("inf") else kept


def growth_of(lab: Lab, measure: Callable[[Reading], float], least: float, *, live: bool = False) -> Growth | None:
    """The growth of a measure in every process; None where it levels off or does not grow.

    It must grow by `least` in each third of the samples. Shorter measurements come first: each needs half of that, or
    growth of what is `live`.
    """

    def hints(usage: Usage) -> bool:
        """Whether a short measurement may show growth."""
        in_use = live and _steady(usage, _in_use, _LEAST_LIVE * usage.longest / 3)
        return in_use or _steady(usage, measure, HINT * least)

    if not (hints(lab.resources.usage) and hints(lab.resources.settled_usage)):
        return None
    usage = lab.resources.longer_usage
    new, again = _trends(usage, measure, least)
    steady = [growth for growth in (new, again) if growth is not None and growth.steady]
    if not steady:
        return None
    leaks = again is not None and again.steady and (new is None or again.rate >= new.rate / 2)
    return Growth(steady[0].rate, leaks, usage, _growing(lab)) if steady[0] is new or leaks else None


def open_files(lab: Lab) -> Growth | None:
    """The growth of the number of open files of a process."""
    return growth_of(lab, lambda reading: reading.descriptors, _LEAST_FILES)


def _steady(usage: Usage, measure: Callable[[Reading], float], least: float) -> bool:
    """Whether a short measurement grows steadily, as far as it can tell."""
    return any(growth is not None and growth.steady for growth in _trends(usage, measure, least, HINT))


def _in_use(reading: Reading) -> float:
    return reading.in_use or 0


def _trends(
    usage: Usage, measure: Callable[[Reading], float], least: float, clear: float = 1.0
) -> tuple[Trend | None, Trend | None]:
    """The trends while samples were new, and while they repeated."""
    new, again = (
        common(trend(points, least, clear) for points in usage.points(measure, again=repeated))
        for repeated in (False, True)
    )
    return new, again


def _growing(lab: Lab) -> GrowingContainers | None:
    return observed_or_none(lambda: lab.resources.growing_containers)


def memory_of(lab: Lab) -> int | None:
    """The bytes of memory that the loader can use: what the contract says, or what this machine allows."""
    return lab.settings.memory or lab.machine.memory


def unseen_growth(lab: Lab) -> str | None:
    """A note where growth too small to see in so few samples could still fill the memory."""
    trends = [
        trend(points, 0) for points in lab.resources.usage.points(lambda reading: reading.in_use or reading.allocated)
    ]
    rates = [growth.rate for growth in trends if growth is not None and not growth.steady]
    memory, length = memory_of(lab), lab.facts.length
    if not rates or not memory or not length or max(rates) * length < FULL_SHARE * memory:
        return None
    return f"growth below {size(max(rates))} per sample would not have been seen"


_MEGABYTE = 1e6
"""Bytes in a megabyte, the unit of the axis."""


def allocated(lab: Lab, findings: Sequence[Finding]) -> Iterator[Plot]:
    """The memory of each worker."""
    del findings
    usage = lab.resources.longer_usage
    growth = max(readings[-1].allocated - readings[0].allocated for readings in usage.readings.values())
    summary = f"A worker grows by up to {size(growth)} while it reads {_samples(usage)} samples{_again(usage)}."
    yield _plot("Memory of each worker", summary, "memory (MB)", usage, lambda reading: reading.allocated / _MEGABYTE)


def copied(lab: Lab, findings: Sequence[Finding]) -> Iterator[Plot]:
    """The memory that each worker no longer shares with the main process."""
    del findings
    usage = lab.resources.page_usage
    total = max(total for _, total in usage.copied())
    summary = (
        f"A worker copies up to {size(total)} of the main process's memory while it reads {_samples(usage)} samples."
    )
    yield _plot("Memory that workers do not share", summary, "private memory (MB)", usage, _private)


def open_files_figure(lab: Lab, findings: Sequence[Finding]) -> Iterator[Plot]:
    """The open files of each worker."""
    del findings
    usage = lab.resources.longer_usage
    growth = max(readings[-1].descriptors - readings[0].descriptors for readings in usage.readings.values())
    summary = f"A worker opens up to {growth} more files while it reads {_samples(usage)} samples{_again(usage)}."
    yield _plot("Open files of each worker", summary, "open files", usage, lambda reading: reading.descriptors)


def _private(reading: Reading) -> float | None:
    return None if reading.pages is None else reading.pages.private / _MEGABYTE


def _plot(title: str, summary: str, unit: str, usage: Usage, measure: Callable[[Reading], float | None]) -> Plot:
    lines = tuple(
        Line("main process" if worker is None else f"worker {worker}", tuple(_points(readings, measure)))
        for worker, readings in usage.readings.items()
    )
    return Plot(title, summary, "samples read", unit, lines)


def _points(readings: Sequence[Reading], measure: Callable[[Reading], float | None]) -> Iterator[tuple[float, float]]:
    for reading in readings:
        value = measure(reading)
        if value is not None:
            yield float(reading.samples), float(value)


def _samples(usage: Usage) -> int:
    return max(readings[-1].samples for readings in usage.readings.values())


def _again(usage: Usage) -> str:
    return f", the first {usage.fresh} of them new" if usage.fresh < _samples(usage) else ""
