"""Random numbers that are drawn once for each index and cached with its sample.

Separate processes read the same items three times, with all RNGs frozen. Two of them use different seeds for the first
reads; a third one reads in reversed order. A leaf that depends on the seed of its first read alone, and on no later
seed, is cached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dataguard.lab.dataset.changed_attributes import find_changed
from dataguard.lab.reading.scripted_reads import FORKED, read_trials, run_trials
from dataguard.lab.rng.global_rng import SEED
from dataguard.lab.subject import Subject
from dataguard.model import Location

ITEMS = range(1, 9)
"""Positions of the items; item 0 is read first, with one seed in all processes, because some state is created late."""
ROUNDS = 3
READS = 3 * (1 + ROUNDS * len(ITEMS))
WARM_UP, FIRST, OTHER, LATER = SEED, SEED + 100, SEED + 200, SEED + 300
"""Seeds. The first reads share one seed between two items, so that purely random images are equal in pairs."""

Values = Mapping[int, bytes]
"""The digest of a leaf that is the same at every read of an item."""


@dataclass(frozen=True, slots=True)
class CachedDraws:
    """`leaves` hold numbers drawn at the first read of their index; `changed` are attributes that reading changes."""

    leaves: tuple[str, ...] = ()
    changed: tuple[Location, ...] = ()


def find_cached_draws(subject: Subject) -> CachedDraws:
    """Read in two processes; in the third one only if those differ."""
    build_one = partial(subject.build, **FORKED) if subject.facts.num_workers else subject.build

    def values(seed: int, items: Sequence[int]) -> dict[str, Values]:
        script = (0, *items, *ITEMS, *ITEMS)
        seeds = (WARM_UP, *(seed + (item - 1) // 2 for item in items), *range(LATER, LATER + 2 * len(ITEMS)))
        readings = subject.vary(
            ("cache", seed, items),
            lambda folder: run_trials(build_one, folder, [[script]], [seeds]),
            partial(read_trials, [[script]]),
        )
        series = {path: by.get((0, 0), ()) for path, by in readings.items() if path.startswith("sample")}
        return {path: found for path, one in series.items() if (found := _values(script, one))}

    one, two = values(FIRST, ITEMS), values(OTHER, ITEMS)
    drawn = [path for path in one if path in two and one[path] != two[path] and not _is_synthetic(one[path])]
    if drawn:
        reverse = values(FIRST, ITEMS[::-1])
        drawn = [path for path in drawn if reverse.get(path) == one[path]]
    return CachedDraws(tuple(drawn), find_changed(subject) if drawn else ())


def _values(script: Sequence[int], series: Sequence[bytes]) -> Values | None:
    """The value of each item; None if any item varies."""
    values: dict[int, set[bytes]] = {item: set() for item in ITEMS}
    for item, digest in zip(script, series, strict=False):
        if item:
            values[item].add(digest)
    if any(len(found) != 1 for found in values.values()):
        return None
    return {item: next(iter(found)) for item, found in values.items()}


def _is_synthetic(values: Values) -> bool:
    """Whether items read with one seed are equal, so that they depend on the seed alone."""
    return all(values[item] == values[item + 1] for item in ITEMS[::2])
