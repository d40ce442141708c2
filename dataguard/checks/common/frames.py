"""What the names of files say about frames and slices. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataguard.lab.provenance.frame_runs import FrameRun

COUNTING = frozenset({"f", "fr", "frame", "sl", "slice", "step", "t", "time", "timestep", "z"})
"""Words before a number that counts time or depth, also in the plural, so that positions have a meaning."""
HOLDING = COUNTING | {"clip", "scan", "sequence", "video", "volume"}
"""Words in the names of folders whose files are numbered in time or depth."""
NEUTRAL = frozenset({"", "im", "image", "img"})
"""What stands before a number that may count anything: the folders around it say more."""
SLICES = (".dcm", ".ima")
"""Suffixes of files that hold a slice."""


def counts_time(run: FrameRun) -> bool:
    """Whether the names of these files say that their number counts time or depth."""
    above = {word.rstrip("s") for word in run.above}
    slices = run.files[0].lower().endswith(SLICES)
    return run.word.rstrip("s") in COUNTING or (
        run.single and run.word in NEUTRAL and (slices or bool(above & HOLDING))
    )


def is_monotonic(values: Sequence[float]) -> bool:
    """Whether numbers ascend or descend throughout."""
    steps = [other - one for one, other in pairwise(values)]
    return all(step > 0 for step in steps) or all(step < 0 for step in steps)


def are_in_order(runs: Sequence[FrameRun], inside: Sequence[FrameRun]) -> bool:
    """Whether these files are in an order of time or depth, and no set in an order of its own.

    Names say it, or windows that begin within a folder, of which some are `inside`: a set is read whole.
    """
    windows = all(run.single for run in runs) and any(min(run.text) > 0 for run in inside)
    return windows or all(map(counts_time, runs))


def are_clips(runs: Sequence[FrameRun], fewest: int) -> bool:
    """Whether these files are frames of clips: in an order of time, with one step or in the order of their numbers.

    Without names that say so, their numbers have one step, or one is drawn from each of as many parts of a folder.
    """
    long = [run for run in runs if len(run.files) >= fewest]
    steady = all(len({other - one for one, other in pairwise(run.numbers)}) == 1 for run in long)
    if not long or (steady and are_in_order(long, long)):
        return bool(long)
    named = all(is_monotonic(run.numbers) and counts_time(run) for run in long)
    return named or (not steady and all(run.single and _is_spread(run) for run in long))


def _is_spread(run: FrameRun) -> bool:
    """Whether each file is from its own part of all files, one part after the other: a sorted sample seldom is."""
    part = run.beside // len(run.files)
    return part > 1 and all(place // part == number for number, place in enumerate(run.text))
