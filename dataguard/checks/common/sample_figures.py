"""Figures of single samples: those that findings name, and their original images. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.core.figures import Pictures, View

if TYPE_CHECKING:
    from dataguard.core.model import Finding
    from dataguard.lab.core.records import Index, SampleRecord
    from dataguard.lab.lab import Lab


MOST_SAMPLES = 4
"""Samples, or pairs of them, that are shown: all are read again for their images."""
MOST_DRAWS = 3
"""Different draws of a sample that are shown: more columns have smaller images."""


def beside_original(lab: Lab, indices: Sequence[Index], view: View, words: str) -> Iterator[Pictures]:
    """Some samples, one in each row; a column for each different draw of the transforms, after the original.

    Without image files there are no originals.
    """
    rows = lab.pictures.shown(*indices, view=view)
    originals = any(row.original for row in rows)
    different = [list({picture.png: picture for picture in row.seen}.values())[:MOST_DRAWS] for row in rows]
    draws = max(map(len, different))
    seen = [f"random state {number}" for number in range(1, draws + 1)] if draws > 1 else ["what the model sees"]
    enlarged = any(row.closeup for row in rows)
    yield Pictures(
        f"{view.leaf} and its original" if originals else view.leaf,
        words,
        tuple(_name(lab, index) for index in indices),
        (*(["original"] if originals else []), *seen, *(["enlarged"] if enlarged else [])),
        tuple(
            (
                *((row.original,) if originals else ()),
                *(*pictures, *[None] * (draws - len(pictures))),
                *((row.closeup,) if enlarged else ()),
            )
            for row, pictures in zip(rows, different, strict=True)
        ),
    )


def _name(lab: Lab, index: Index) -> str:
    if index is None:
        return "a sample"
    return f"index {index}" if lab.facts.kind == "map" else f"sample {index} of the stream"


def non_finite(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """The first samples with NaN or Inf in an image."""
    del findings
    bad = [
        sample
        for sample in lab.epoch.samples
        if any((leaf.nan or leaf.inf) and len(leaf.shape or ()) > 1 for leaf in sample.leaves)
    ]
    yield from _samples(lab, bad, "The first samples that contain NaN or Inf.")


def blank(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """The first samples whose images have a single colour."""
    del findings
    yield from _samples(lab, [sample for sample in lab.epoch.samples if sample.blank], "The first blank samples.")


def of_file(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """The sample that each finding names, beside its file as viewers show it."""
    for finding in findings[:MOST_SAMPLES]:
        index = finding.evidence.get("index", finding.evidence.get("position"))
        words = "The original is the file as an image viewer shows it."
        yield from beside_original(lab, [index], View(), words)


def _samples(lab: Lab, chosen: Sequence[SampleRecord], words: str) -> Iterator[Pictures]:
    indices = list(dict.fromkeys(sample.index for sample in chosen if sample.index is not None))[:MOST_SAMPLES]
    if indices:
        yield from beside_original(lab, indices, View(), words)
