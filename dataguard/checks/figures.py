"""Which figures belong to which check: builders by code, called after the verdict with the findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dataguard.checks.common import sample_figures
from dataguard.checks.geometry import alignment
from dataguard.checks.images import normalization_figures
from dataguard.checks.machine import growth
from dataguard.checks.randomness import repeat_evidence
from dataguard.checks.sound import sound_findings
from dataguard.checks.splits import dg514_leaked_split
from dataguard.checks.streams import share_figures
from dataguard.checks.throughput import time_figures
from dataguard.core.incident import LoaderFailed
from dataguard.core.model import NotApplicable, Undecided

if TYPE_CHECKING:
    from dataguard.core.figures import Figure
    from dataguard.core.model import Finding
    from dataguard.lab.lab import Lab

Builder = Callable[["Lab", Sequence["Finding"]], Iterable["Figure"]]

BUILDERS: Mapping[str, Sequence[Builder]] = {
    "DG101": (repeat_evidence.across_workers,),
    "DG102": (repeat_evidence.across_epochs,),
    "DG103": (repeat_evidence.everywhere,),
    "DG107": (repeat_evidence.across_epochs,),
    "DG201": (share_figures.by_worker,),
    "DG202": (share_figures.by_rank, share_figures.overlap),
    "DG203": (share_figures.by_rank,),
    "DG206": (share_figures.two_epochs,),
    "DG207": (share_figures.two_epochs,),
    "DG208": (share_figures.by_worker, share_figures.by_rank),
    "DG501": (sample_figures.non_finite,),
    "DG504": (sample_figures.blank,),
    "DG505": (normalization_figures.restored,),
    "DG506": (normalization_figures.as_expected,),
    "DG507": (normalization_figures.statistics, normalization_figures.as_expected),
    "DG508": (sample_figures.of_file,),
    "DG509": (sample_figures.of_file,),
    "DG510": (sample_figures.of_file,),
    "DG511": (alignment.blended,),
    "DG512": (alignment.misaligned_masks_figure, alignment.misaligned_boxes),
    "DG514": (dg514_leaked_split.leaked,),
    "DG531": (sound_findings.beside_original,),
    "DG532": (sound_findings.beside_original,),
    "DG533": (sound_findings.beside_original,),
    "DG601": (time_figures.workers,),
    "DG602": (growth.allocated,),
    "DG603": (growth.copied,),
    "DG604": (growth.open_files_figure,),
    "DG605": (time_figures.workers,),
    "DG801": (time_figures.training_loop, time_figures.workers),
    "DG803": (time_figures.sweep,),
}
"""They read what was observed for the verdict; only `lab.pictures` observes more, where pictures are wanted."""


def figures_of(code: str, lab: Lab, findings: Sequence[Finding]) -> tuple[Figure, ...]:
    """The figures of a check that failed; none where what they show was not observed, or cannot be."""
    return tuple(figure for builder in BUILDERS.get(code, ()) for figure in _built(builder, lab, findings))


def _built(builder: Builder, lab: Lab, findings: Sequence[Finding]) -> Iterator[Figure]:
    try:
        yield from builder(lab, findings)
    except (LoaderFailed, NotApplicable, Undecided):
        return
