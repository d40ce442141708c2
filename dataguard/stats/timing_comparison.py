"""Which of several settings is the faster one, as far as rounds of measurements can tell. Standard library only.

Settings take turns, so that what slows the machine down for a while hits all of them alike; they are compared round by
round, on the logarithms of their seconds. A difference counts when chance would show it once in a thousand times.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LEAST_ROUNDS = 4
"""Rounds before anything is told apart."""
MOST_ROUNDS = 16
"""Rounds after which what cannot be told apart is left so."""
MARGIN = 1.05
"""Settings whose times are closer than this are as fast as each other."""
_QUANTILES = (
    *(318.3, 22.33, 10.21, 7.173, 5.893, 5.208, 4.785, 4.501, 4.297, 4.144, 4.025, 3.930, 3.852, 3.787, 3.733, 3.686),
    *(3.646, 3.610, 3.579, 3.552),
)
"""Student's t for a one-sided chance of 0.001, from one degree of freedom on; the last one serves all beyond."""
_TRIMMED = 8
"""From so many rounds on, extremes are left out: of fewer, too little would be left to say anything."""
_RESOLUTION = 0.003
"""Logarithms are not taken to be known better than this, however alike a few measurements are."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long one setting takes as another: as measured, and at least and at most."""

    measured: float
    least: float
    most: float

    @property
    def slower(self) -> bool:
        """Whether it surely takes longer."""
        return self.least > 1

    @property
    def faster(self) -> bool:
        """Whether it surely takes less time."""
        return self.most < 1

    @property
    def alike(self) -> bool:
        """Whether it surely takes as long, but for a few percent."""
        return self.least > 1 / MARGIN and self.most < MARGIN


def paired(seconds: Sequence[float], others: Sequence[float]) -> Ratio | None:
    """The ratio of two settings that took turns, from the rounds both were in; None when those are too few."""
    logs = [math.log(one / other) for one, other in zip(seconds, others, strict=False)]
    if len(logs) < LEAST_ROUNDS:
        return None
    middle = _middle(logs)
    return _ratio(middle.mean, middle.error, middle.freedom)


def unpaired(seconds: Sequence[float], others: Sequence[float]) -> Ratio | None:
    """The ratio of two measurements that were made apart, such as today and last week; None when they are too few."""
    if min(len(seconds), len(others)) < LEAST_ROUNDS:
        return None
    one, other = (_middle([math.log(each) for each in times]) for times in (seconds, others))
    return _ratio(one.mean - other.mean, math.hypot(one.error, other.error), min(one.freedom, other.freedom))


class _Middle(NamedTuple):
    """A mean without the extremes, its standard error, and the degrees of freedom behind that."""

    mean: float
    error: float
    freedom: int


def _middle(values: Sequence[float]) -> _Middle:
    """The trimmed mean with Yuen's error: a burst of other work in one round does not hide what all others say."""
    ordered = sorted(values)
    cut = len(ordered) // 5 if len(ordered) >= _TRIMMED else 0
    kept = ordered[cut : len(ordered) - cut]
    bounded = [min(max(value, kept[0]), kept[-1]) for value in ordered]
    deviation = statistics.stdev(bounded) / (len(kept) / len(ordered))
    return _Middle(statistics.fmean(kept), max(deviation / math.sqrt(len(ordered)), _RESOLUTION), len(kept) - 1)


def _ratio(log: float, error: float, freedom: int) -> Ratio:
    reach = _QUANTILES[min(freedom, len(_QUANTILES)) - 1] * error
    # Far beyond what is ever measured, and within what a float holds.
    low, high = max(log - reach, -50.0), min(log + reach, 50.0)
    return Ratio(math.exp(log), math.exp(low), math.exp(high))


@dataclass(frozen=True, slots=True)
class Ranking:
    """The names of settings by their median times, fastest first, and those that cannot be told from the first one."""

    order: tuple[str, ...]
    tied: tuple[str, ...]

    @property
    def best(self) -> str | None:
        """The one that is surely the fastest, if any."""
        return self.order[0] if self.order and not self.tied else None


def rank(times: Mapping[str, Sequence[float]]) -> Ranking:
    """Rank settings by the seconds they took in each round; all began with the first round."""
    order = tuple(sorted(times, key=lambda name: statistics.median(times[name])))
    ratios = {name: paired(times[name], times[order[0]]) for name in order[1:]}
    return Ranking(order, tuple(name for name, ratio in ratios.items() if ratio is None or not ratio.slower))


def race(
    names: Sequence[str],
    lap: Callable[[str], float | None],
    *,
    goes_on: Callable[[], bool],
    costs: Callable[[str, Sequence[float]], Sequence[float]] = lambda _, seconds: seconds,
    seed: int = 0,
) -> dict[str, list[float]]:
    """Let settings take turns until their ranking is clear, and return the seconds that each took in its rounds.

    `lap` measures a setting once; None takes it out of the race with all its times. `costs` turns the times of a
    setting into what is compared. A setting that is surely slower than another drops out and keeps its times. Ends when
    one is left, when those left are surely alike, after `MOST_ROUNDS`, or when `goes_on` says so; a round that was cut
    short counts for nobody.
    """
    times: dict[str, list[float]] = {name: [] for name in names}
    running = list(names)
    draw = random.Random(seed)
    for number in range(MOST_ROUNDS):
        draw.shuffle(running)
        taken: dict[str, float] = {}
        for name in tuple(running):
            if number and not goes_on():
                return times
            seconds = lap(name)
            if seconds is None:
                running.remove(name)
                del times[name]
            else:
                taken[name] = seconds
        for name, seconds in taken.items():
            times[name].append(seconds)
        if not running:
            break
        if number + 1 >= LEAST_ROUNDS:
            running = _left(running, {name: costs(name, times[name]) for name in running})
            if len(running) == 1:
                break
    return times


def _left(running: Sequence[str], times: Mapping[str, Sequence[float]]) -> list[str]:
    """Those that are still in the race: the fastest, and what might be faster; it alone where all others are alike."""
    first = min(running, key=lambda name: statistics.median(times[name]))
    ratios = {name: paired(times[name], times[first]) for name in running if name != first}
    open_ones = [name for name, ratio in ratios.items() if ratio is None or not ratio.slower]
    decided = (ratio is not None and ratio.alike for ratio in map(ratios.__getitem__, open_ones))
    return [first] if all(decided) else [first, *open_ones]
