"""Findings about image leaves that follow the colours of charts. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dataguard.model import Finding

if TYPE_CHECKING:
    from dataguard.lab import Lab
    from dataguard.lab.charts import Fit


def image_finding(lab: Lab, wrong: Mapping[Fit, str], words: str) -> Finding:
    """One finding for all image leaves that are wrong; `words` say what is wrong with the first of them."""
    colours = lab.colour.charts
    fit = next(iter(wrong))
    return Finding(
        message=f"{colours.root}{fit.path} {words}",
        evidence={"leaves": [f"{colours.root}{one.path}" for one in wrong], **colours.evidence(fit)},
        at=lab.dataset.place,
        repro=colours.expression and lab.repro(colours.expression),
    )
