"""What grows in a process as it reads, and how far that goes. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataguard.incident import observed_or_none
from dataguard.model import Undecided
from dataguard.stats.trend import HINT, Trend, common, trend

if TYPE_CHECKING:
    from dataguard.lab.core.process_usage import Reading
    from dataguard.lab.lab import Lab
    from dataguard.lab.machine.growing_containers import Hoard, Hoards
    from dataguard.lab.machine.worker_readings import Strain


_FILES = 2
"""Files that a process opens in a third of what it reads, to be more than those that come and go."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Something that grows with every sample that is `new` to a process; where it `leaks`, with any other as well.

    What grows in memory may be seen: `hoards` is None where nothing could be learned of that.
    """

    rate: float
    leaks: bool
    strain: Strain
    hoards: Hoards | None

    @property
    def hoard(self) -> Hoard | None:
        """The container that grows along with it, if one was found."""
        return self.hoards.found[0] if self.hoards and self.hoards.found else None

    @property
    def bounded(self) -> bool:
        """Whether it grows up to a bound that is known."""
        return self.hoard is not None and self.hoard.bound is not None

    def is_too_much(self, lab: Lab, needed: float | None, most: float | None) -> bool:
        """Whether what is needed in the end, None without an end, is more than there is, or leaks.

        Raises Undecided for a stream of which as much was read as may go through a buffer while it fills.
        """
        fits = most is None or (needed is not None and needed <= most)
        kept_on_purpose = self.hoard is not None and not self.hoard.passing
        if lab.facts.kind == "stream" and not (fits or self.bounded or kept_on_purpose):
            raise Undecided("it grows with every sample, as far as the stream was read; a buffer may be filling up")
        return not fits or (self.leaks and not self.bounded)

    def samples(self, lab: Lab) -> float | None:
        """How many samples one process keeps something of until the end: of an epoch, or of all where workers stay.

        None where nobody knows, or nothing ends it.
        """
        facts = lab.facts
        if self.leaks and facts.persistent:
            return None
        length = float("inf") if facts.length is None else float(facts.length)
        kept = length if facts.persistent and facts.shuffled else length / max(facts.num_workers, 1)
        if self.hoard is not None and self.hoard.bound is not None:
            return min(kept, self.hoard.bound / max(self.hoard.rate, 1e-9))
        return None if kept == float("inf") else kept


def growth_of(lab: Lab, measure: Callable[[Reading], float], least: float) -> Growth | None:
    """What a measure of every process grows by; None where it levels off or does not grow.

    A third of the samples has to make `least` of a difference. A first look is short, and is content with half of that:
    a longer one has to find all of it.
    """
    strain = lab.resources.strain
    if not any(one is not None and one.steady for one in _trends(strain, measure, least, HINT)):
        return None
    strain = lab.resources.longer
    new, again = _trends(strain, measure, least)
    steady = [one for one in (new, again) if one is not None and one.steady]
    if not steady:
        return None
    leaks = again is not None and again.steady and (new is None or again.rate >= new.rate / 2)
    return Growth(steady[0].rate, leaks, strain, _hoards(lab)) if steady[0] is new or leaks else None


def open_files(lab: Lab) -> Growth | None:
    """What the number of open files of a process grows by."""
    return growth_of(lab, lambda reading: reading.descriptors, _FILES)


def _trends(
    strain: Strain, measure: Callable[[Reading], float], least: float, share: float = 1.0
) -> tuple[Trend | None, Trend | None]:
    """How it went while samples were new, and while they came again."""
    new, again = (
        common(trend(points, least, share) for points in strain.points(measure, again=coming))
        for coming in (False, True)
    )
    return new, again


def _hoards(lab: Lab) -> Hoards | None:
    return observed_or_none(lambda: lab.resources.hoards)


def memory_of(lab: Lab) -> int | None:
    """The bytes of memory that the loader can count on: what the user says, or what this machine allows."""
    return lab.settings.memory or lab.machine.memory
