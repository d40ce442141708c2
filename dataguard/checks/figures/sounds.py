"""What the model hears, beside its file. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.figures import Pictures

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.model import Finding


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
