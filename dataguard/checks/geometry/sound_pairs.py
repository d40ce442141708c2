"""Findings about sound files that belong together, and are cut at other places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.core.incident import observed_or_none
from dataguard.core.model import Finding, NotApplicable

if TYPE_CHECKING:
    from dataguard.checks.geometry.alignment import Compared
    from dataguard.lab.lab import Lab


def sound_findings(lab: Lab) -> Compared:
    """Two waveforms of one sample, of files whose names correspond, whose windows are drawn one by one."""
    if not lab.sound.survey.files:
        return [], {}, []
    roles = observed_or_none(lambda: lab.provenance.paired_roles) or ()
    files = [role.example for role in roles if role.single and not role.wrong]
    try:
        pairs = [pair for two in files for pair in lab.sound.paired_offsets(two)]
    except NotApplicable:
        pairs = []
    if not pairs:
        return [], {}, []
    findings = [
        Finding(
            message=f"{pair.root}{pair.paths[0]} and {pair.root}{pair.paths[1]} come from files that belong together, "
            f"and begin at other places in {pair.moved} of {len(pair.offsets)} random states",
            evidence={
                "fix here": "draw the start once for both files",
                "files": list(pair.files),
                "values apart, as far as known": list(pair.offsets),
                "confirmed by": "the same noise in both files, which repeats",
            },
            at=lab.places.value(pair.index, pair.paths[1]) or lab.dataset.location,
            repro=None if pair.collated else lab.repro.samples(pair.index),
            sample=pair.index,
            ambiguous=True,  # a model may take both as unpaired examples
        )
        for pair in pairs
        if pair.apart
    ]
    exercised = {"draws": max(len(pair.offsets) for pair in pairs), "leaves": 2 * len(pairs)}
    return findings, exercised, [f"{pair.root}{path}" for pair in pairs for path in pair.paths]
