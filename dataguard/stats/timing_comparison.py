"""Find the fastest of several settings from rounds of measurements. Standard library only.

Settings take turns, so that a temporary slowdown of the machine affects all of them; they are compared round by round,
on the logarithms of their seconds. A difference counts if its probability by chance is at most 0.001.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LEAST_ROUNDS = 4
"""The minimum number of rounds for a decision. Chosen: with two degrees of freedom the quantile is 22, and hides most
differences."""
MOST_ROUNDS = 16
"""The maximum number of rounds. Chosen: a bound on the time; the quantile of 3.73 falls to 3.09 at
best, however many follow."""
MARGIN = 1.05
"""Settings whose times differ by less than this factor are equally fast. Chosen, not derived: smaller takes more rounds
to decide, larger calls more differences equal."""
_QUANTILES = (
    *(318.3, 22.33, 10.21, 7.173, 5.893, 5.208, 4.785, 4.501, 4.297, 4.144, 4.025, 3.930, 3.852, 3.787, 3.733, 3.686),
    *(3.646, 3.610, 3.579, 3.552),
)
"""Quantiles of Student's t for a one-sided probability of 0.001, from one degree of freedom on."""
_TRIMMED = 8
"""Extremes are trimmed from this many rounds on; with fewer, too few would be left."""
_RESOLUTION = 0.003
"""The minimum standard error of a mean logarithm, however similar a few measurements are. Chosen, not derived:
smaller lets a few lucky rounds decide, larger hides small differences."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of the times of two settings: as measured, and the bounds of its confidence interval."""

    measured: float
    least: float
    most: float

    @property
    def slower(self) -> bool:
        """Whether it is slower beyond doubt."""
        return self.least > 1

    @property
    def faster(self) -> bool:
        """Whether it is faster beyond doubt."""
        return self.most < 1

    @property
    def alike(self) -> bool:
        """Whether it is equally fast beyond doubt, within `MARGIN`."""
        return self.least > 1 / MARGIN and self.most < MARGIN


def paired(seconds: Sequence[float], others: Sequence[float]) -> Ratio | None:
    """The ratio of two settings that took turns, from their common rounds; None if those are too few."""
    logs = [math.log(time / other_time) for time, other_time in zip(seconds, others, strict=False)]
    if len(logs) < LEAST_ROUNDS:
        return None
    middle = _middle(logs)
    return _ratio(middle.mean, middle.error, middle.freedom)


class _Middle(NamedTuple):
    """A trimmed mean, its standard error, and its degrees of freedom."""

    mean: float
    error: float
    freedom: int


def _middle(values: Sequence[float]) -> _Middle:
    """The trimmed mean with Yuen's standard error, robust against a burst of other load in one round."""
    ordered = sorted(values)
    cut = len(ordered) // 5 if len(ordered) >= _TRIMMED else 0
    kept = ordered[cut : len(ordered) - cut]
    bounded = [min(max(value, kept[0]), kept[-1]) for value in ordered]
    deviation = statistics.stdev(bounded) / (len(kept) / len(ordered))
    return _Middle(statistics.fmean(kept), max(deviation / math.sqrt(len(ordered)), _RESOLUTION), len(kept) - 1)


def _ratio(log: float, error: float, freedom: int) -> Ratio:
    reach = _QUANTILES[min(freedom, len(_QUANTILES)) - 1] * error
    # Far beyond real measurements, but within the range of a float.
    low, high = max(log - reach, -50.0), min(log + reach, 50.0)
    return Ratio(math.exp(log), math.exp(low), math.exp(high))


@dataclass(frozen=True, slots=True)
class Ranking:
    """The names of settings by median time, fastest first, and those that may be as fast as the first."""

    order: tuple[str, ...]
    tied: tuple[str, ...]

    @property
    def best(self) -> str | None:
        """The fastest setting, if it is fastest beyond doubt."""
        return self.order[0] if self.order and not self.tied else None


def rank(times: Mapping[str, Sequence[float]]) -> Ranking:
    """Rank settings by their seconds in each round; all of them took part from the first round on."""
    order = tuple(sorted(times, key=lambda name: statistics.median(times[name])))
    ratios = {name: paired(times[name], times[order[0]]) for name in order[1:]}
    return Ranking(order, tuple(name for name, ratio in ratios.items() if ratio is None or not ratio.slower))


def race(
    names: Sequence[str],
    lap: Callable[[str], float | None],
    *,
    may_continue: Callable[[], bool],
    costs: Callable[[str, Sequence[float]], Sequence[float]] = lambda _, seconds: seconds,
    seed: int = 0,
) -> dict[str, list[float]]:
    """Let settings take turns until their ranking is clear, and return the seconds of each setting in its rounds.

    `lap` measures a setting once; None removes the setting with all its times. `costs` turns the times of a setting
    into the values to compare. A setting that is slower beyond doubt drops out but keeps its times. Ends when one
    setting is left, when the rest are equally fast beyond doubt, after `MOST_ROUNDS`, or when `may_continue` returns
    False; an incomplete round is discarded.
    """
    times: dict[str, list[float]] = {name: [] for name in names}
    running = list(names)
    draw = random.Random(seed)
    for number in range(MOST_ROUNDS):
        draw.shuffle(running)
        taken: dict[str, float] = {}
        for name in tuple(running):
            if number and not may_continue():
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
            running = _remaining(running, {name: costs(name, times[name]) for name in running})
            if len(running) == 1:
                break
    return times


def _remaining(running: Sequence[str], times: Mapping[str, Sequence[float]]) -> list[str]:
    """The settings that remain: the fastest and those that might be faster; only the fastest if the rest are equal."""
    first = min(running, key=lambda name: statistics.median(times[name]))
    ratios = {name: paired(times[name], times[first]) for name in running if name != first}
    open_ones = [name for name, ratio in ratios.items() if ratio is None or not ratio.slower]
    decided = (ratio is not None and ratio.alike for ratio in map(ratios.__getitem__, open_ones))
    return [first] if all(decided) else [first, *open_ones]
