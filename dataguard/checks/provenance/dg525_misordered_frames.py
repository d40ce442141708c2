"""DG525: frames or slices in the order of their names as text."""

from __future__ import annotations

from itertools import pairwise
from math import factorial, prod
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.frames import NEUTRAL, are_in_order, is_monotonic
from dataguard.checks.common.rewrites import rewritten, sorted_by_number
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataguard.lab.lab import Lab
    from dataguard.lab.provenance.frame_runs import FrameRun

CHANCE = 1e-3
"""How likely files in any other order may be sorted as text. Chosen: a set in a fixed random order is rare."""
SMOOTH = 0.7
"""What neighbours by number differ by, relative to those in the sample, in a video or volume. Measured: 0.2 to 0.5 in
ours, and about 1 in bags of patches, of which it is a mean of several pairs."""
UNORDERED = "files are sorted as text; their names do not say whether they count time or depth"
MOST_SHOWN = 12
"""Files of a finding."""


@check("DG525", "misordered-frames", Severity.ERROR, since="2026.4")
def dg525_misordered_frames(lab: Lab) -> Judgement:
    """Frames or slices of a sample are in the order of their names as text: `frame_10` before `frame_2`.

    Symptom: a model of videos or volumes learns little from motion or depth: clips jump back and forth.
    Cause: `sorted` compares names as text, and so do the keys of an HDF5 group; numbers without leading zeros are then
        in another order.
    Fix: sort by number: `sorted(files, key=lambda path: int(path.stem.split("_")[-1]))`, or write files with leading
        zeros.
    Links: https://docs.python.org/3/howto/sorting.html#key-functions
    """
    runs = lab.provenance.frame_runs
    if not runs:
        raise NotApplicable("no sample has positions that come from numbered files")
    wrong = [run for run in runs if not is_monotonic(run.numbers)]
    by_text = [run for run in wrong if is_monotonic(run.text)]
    likely = prod(2 / factorial(len(run.files)) for run in by_text)
    as_text = bool(by_text) and len(by_text) == len(wrong) and likely < CHANCE
    named = as_text and are_in_order(runs, by_text)
    ordered = named or (as_text and _are_smooth(runs))
    if ordered:
        run = by_text[0]
        before, after = _first_jump(run.files, run.numbers)
        bad, samples = (len({one.index for one in each}) for each in (by_text, runs))
        at = lab.places.listing(*run.files) or lab.dataset.location
        yield Finding(
            message=f"dataset[{run.index!r}] has {before} before {after}{f' in sample{run.leaf}' if run.leaf else ''}: "
            f"{len(run.files)} files are sorted as text and not by number, in {bad} of {samples} samples",
            evidence={
                "fix here": rewritten(lab, at, sorted_by_number) or "sort names by their number",
                "files": list(run.files[:MOST_SHOWN]),
                "places as text": list(run.text[:MOST_SHOWN]),
                "beside": f"{run.beside} files of this kind",
                "folder": run.folder,
            },
            at=at,
            repro=lab.repro.samples(run.index),
            ambiguous=not named,
        )
    looked = {"samples": len({run.index for run in runs}), "files": sum(len(run.files) for run in runs)}
    return Coverage(looked, UNORDERED if as_text and not ordered else None)


def _are_smooth(runs: Sequence[FrameRun]) -> bool:
    """Whether images that have only a number are more like their neighbours by number than like those in the sample."""
    jumps = [run.jumps for run in runs if run.jumps is not None]
    neutral = all(run.single and run.word in NEUTRAL for run in runs)
    return neutral and len(jumps) > 1 and sum(jumps) < SMOOTH * len(jumps)


def _first_jump(files: Sequence[str], numbers: Sequence[float]) -> tuple[str, str]:
    """The first two neighbours that are not in the order of most."""
    pairs = list(pairwise(zip(files, numbers, strict=True)))
    ascending = sum(one[1] < other[1] for one, other in pairs) * 2 >= len(pairs)
    one, other = next((pair for pair in pairs if (pair[0][1] < pair[1][1]) != ascending), pairs[0])
    return one[0], other[0]
