"""Which figures belong to which check: builders by code, called after the verdict with the findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dataguard.checks.figures import loader, samples
from dataguard.checks.geometry import alignment
from dataguard.checks.machine import growth
from dataguard.checks.randomness import repeat_evidence
from dataguard.checks.sound import sound_findings
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
    "DG201": (loader.by_worker,),
    "DG202": (loader.by_rank, loader.overlap),
    "DG203": (loader.by_rank,),
    "DG206": (loader.two_epochs,),
    "DG207": (loader.two_epochs,),
    "DG208": (loader.by_worker, loader.by_rank),
    "DG501": (samples.non_finite,),
    "DG504": (samples.blank,),
    "DG505": (samples.restored,),
    "DG506": (samples.as_expected,),
    "DG507": (samples.statistics, samples.as_expected),
    "DG508": (samples.of_file,),
    "DG509": (samples.of_file,),
    "DG510": (samples.of_file,),
    "DG511": (alignment.blended,),
    "DG512": (alignment.misaligned_masks_figure, alignment.misaligned_boxes),
    "DG514": (samples.leaked,),
    "DG531": (sound_findings.beside_original,),
    "DG532": (sound_findings.beside_original,),
    "DG533": (sound_findings.beside_original,),
    "DG601": (loader.workers,),
    "DG602": (growth.allocated,),
    "DG603": (growth.copied,),
    "DG604": (growth.open_files_figure,),
    "DG605": (loader.workers,),
    "DG801": (loader.training_loop, loader.workers),
    "DG803": (loader.sweep,),
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
