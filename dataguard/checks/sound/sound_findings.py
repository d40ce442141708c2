"""Findings about leaves that follow the sound of a file, and their figure. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dataguard.core.figures import Pictures
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Finding, without_empty

if TYPE_CHECKING:
    from dataguard.lab.files.file_lines import FileStep
    from dataguard.lab.lab import Lab


def sound_finding(
    lab: Lab,
    paths: Sequence[str],
    words: str,
    evidence: Mapping[str, Any],
    culprit: Callable[[Sequence[FileStep]], FileStep] = lambda steps: steps[0],
) -> Finding:
    """One finding for all wrong leaves; `words` describe what is wrong with the first one.

    `culprit` chooses the line of those that hold the sound of the file, the one that decodes it first.
    """
    steps = observed_or_none(lambda: lab.sound.steps)
    heard = lab.sound.charts
    header = heard.header
    indexed = lab.facts.kind == "map"
    return Finding(
        message=f"{heard.root}{paths[0]} {words}",
        evidence=without_empty(
            {
                "index" if indexed else "position": heard.index,
                "leaves": [f"{heard.root}{path}" for path in paths],
                "file": f"{header.format}, {hertz(header.rate)}, channels: {header.channels}",
                **evidence,
            }
        ),
        at=culprit(steps).location if steps else lab.dataset.location,
        repro=lab.repro.samples(heard.index, batch=heard.collated) if indexed else None,
        sample=heard.index if indexed else None,
    )


def hertz(rate: int) -> str:
    """A sample rate as it is written: 44,100 Hz."""
    return f"{rate:,} Hz"


def beside_original(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """The waveform and spectrogram of a sample's file, and of the leaf of the first finding."""
    evidence = findings[0].evidence
    path = evidence["leaves"][0]
    original, heard = lab.pictures.sound(evidence.get("index", evidence.get("position")), path)
    rows = {"waveform": (original[0], heard[0]), "spectrogram": (original[1], heard[1])}
    yield Pictures(
        f"{path} and its file",
        "Waveforms are scaled to their largest value; in spectrograms, high sounds are on top.",
        tuple(name for name, cells in rows.items() if any(cells)),
        ("original", "what the model hears"),
        tuple(cells for cells in rows.values() if any(cells)),
    )
