"""Findings about leaves that follow the sound of a file. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dataguard.model import Finding, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


def sound_finding(lab: Lab, paths: Sequence[str], words: str, evidence: Mapping[str, Any]) -> Finding:
    """One finding for all wrong leaves; `words` describe what is wrong with the first one."""
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
        at=lab.dataset.location,
        repro=lab.repro.samples(heard.index, batch=heard.collated) if indexed else None,
    )


def hertz(rate: int) -> str:
    """A sample rate as it is written: 44,100 Hz."""
    return f"{rate:,} Hz"
