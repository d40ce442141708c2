"""Windows of tokens or of a series that hold what another split holds (DG514). Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.incident import observed_or_none
from dataguard.model import Finding

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.subject import Subject

LEAKED = 0.25
"""The share of windows from which on text is no common phrase, licence or template."""
OVERLAPPING, FEWEST = 0.1, 8
"""The share of windows of a series from which on it is no calibration or other pattern; and the fewest of them."""


def leaked_text(lab: Lab, other: Subject) -> Finding | None:
    """A finding if much of the text of a split is in an earlier one, too."""
    seen = observed_or_none(lambda: lab.splits.text_shared_with(other))
    if seen is None or seen.pair is None or seen.windows < LEAKED * seen.of:
        return None
    index, earlier = seen.pair
    one, two = other.facts.name, lab.facts.name
    return Finding(
        message=f"dataset[{index}] of {two} holds text of dataset[{earlier}] of {one}: {seen.windows} of {seen.of} "
        "windows do",
        evidence={"matched by": "runs of 16 tokens, which begin at other places", "windows": seen.of},
        at=lab.dataset.location,
        repro=lab.repro.samples(index),
    )


def leaked_series(lab: Lab, other: Subject) -> Finding | None:
    """A finding if windows of a series lie between those of an earlier split."""
    seen = observed_or_none(lambda: lab.splits.series_shared_with(other))
    if seen is None or seen.pair is None or seen.windows < max(FEWEST, OVERLAPPING * seen.of):
        return None
    index, earlier = seen.pair
    one, two = other.facts.name, lab.facts.name
    return Finding(
        message=f"dataset[{index}] of {two} is a window of the series of dataset[{earlier}] of {one}, "
        f"{seen.shift} steps apart: {seen.windows} of {seen.of} windows overlap",
        evidence={"matched by": "runs of 4 steps", "fix here": "split the series in time, and cut windows afterwards"},
        at=lab.dataset.location,
        repro=lab.repro.samples(index),
    )
