"""The samples that findings name. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.checks.figures.pairs import beside_original
from dataguard.figures import Pictures
from dataguard.lab.pictures.views import View

if TYPE_CHECKING:
    from dataguard.lab.core.records import SampleRecord
    from dataguard.lab.lab import Lab
    from dataguard.model import Finding

MOST = 4
"""Samples, or pairs of them, that are shown."""


def non_finite(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """The first samples with NaN or Inf in an image."""
    del findings
    bad = [
        one
        for one in lab.epoch.samples
        if any((leaf.nan or leaf.inf) and len(leaf.shape or ()) > 1 for leaf in one.leaves)
    ]
    yield from _samples(lab, bad, "The first samples that contain NaN or Inf.")


def blank(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """The first samples whose images have a single colour."""
    del findings
    yield from _samples(lab, [one for one in lab.epoch.samples if one.blank], "The first blank samples.")


def of_file(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """The sample that each finding names, beside its file as viewers show it."""
    for finding in findings[:MOST]:
        index = finding.evidence.get("index", finding.evidence.get("position"))
        words = "The original is the file as an image viewer shows it."
        yield from beside_original(lab, [index], View(), words)


def leaked(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """Samples that are in two splits, side by side."""
    del findings
    for other in lab.splits.earlier:
        seen = lab.splits.compared_with(other)
        same = {pair: None for match in seen.matches for pair in match.compared if pair.same}
        pairs = list({(pair.earlier, pair.index): pair for pair in same}.values())[:MOST]
        if not pairs:
            continue
        one, two = lab.siblings[other.facts.name], lab
        theirs = one.pictures.shown(*(pair.earlier for pair in pairs), view=View())
        own = two.pictures.shown(*(pair.index for pair in pairs), view=View())
        rows = [
            (left.original or left.seen[0], right.original or right.seen[0])
            for left, right in zip(theirs, own, strict=True)
        ]
        names = one.facts.name, two.facts.name
        yield Pictures(
            f"Samples that are both in {names[0]} and in {names[1]}",
            "Each row shows one sample, as both splits hold it.",
            tuple(f"{names[0]} {pair.earlier} = {names[1]} {pair.index}" for pair in pairs),
            names,
            tuple(rows),
        )


def _samples(lab: Lab, chosen: Sequence[SampleRecord], words: str) -> Iterator[Pictures]:
    indices = list(dict.fromkeys(one.index for one in chosen if one.index is not None))[:MOST]
    if indices:
        yield from beside_original(lab, indices, View(), words)
