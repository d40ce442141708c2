"""Findings about image leaves and about the files they are decoded from. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dataguard.core.model import Finding, Location

if TYPE_CHECKING:
    from dataguard.lab.images.chart_fit import Fit
    from dataguard.lab.lab import Lab


def image_finding(lab: Lab, wrong: Mapping[Fit, str], words: str) -> Finding:
    """One finding for all wrong image leaves; `words` describe what is wrong with the first one."""
    colours = lab.images.charts
    fit = next(iter(wrong))
    return Finding(
        message=f"{colours.root}{fit.path} {words}",
        evidence={"leaves": [f"{colours.root}{one.path}" for one in wrong], **colours.evidence(fit)},
        at=Location(*colours.at) if colours.at else lab.dataset.location,
        repro=None if colours.collated or colours.index is None else lab.repro.samples(colours.index),
    )


def file_finding(lab: Lab, index: object, message: str, evidence: Mapping[str, object]) -> Finding:
    """A finding about the file of one sample; `index` is its index, or its position in a stream."""
    indexed = lab.facts.kind == "map"
    return Finding(
        message=message,
        evidence={"index" if indexed else "position": index, **evidence},
        at=lab.dataset.location,
        repro=lab.repro.samples(index) if indexed else None,
    )


def shown(file: str) -> str:
    """The name of an image: the last part of its path, or "an image" if it has no file of its own."""
    return Path(file).name if Path(file).is_absolute() else "an image"
