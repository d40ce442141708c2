"""Which figures belong to which check: builders by code, called after the verdict with the findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dataguard.checks.figures import (
    alignment,
    colours,
    memory,
    orders,
    shards,
    single_samples,
    sounds,
    timelines,
    workers,
)
from dataguard.incident import LoaderFailed
from dataguard.model import NotApplicable, Undecided

if TYPE_CHECKING:
    from dataguard.figures import Figure
    from dataguard.lab.lab import Lab
    from dataguard.model import Finding

Builder = Callable[["Lab", Sequence["Finding"]], Iterable["Figure"]]

BUILDERS: Mapping[str, Sequence[Builder]] = {
    "DG101": (workers.across_workers,),
    "DG102": (workers.across_epochs,),
    "DG103": (workers.everywhere,),
    "DG107": (workers.across_epochs,),
    "DG201": (shards.by_worker,),
    "DG202": (shards.by_rank, shards.overlap),
    "DG203": (shards.by_rank,),
    "DG206": (orders.two_epochs,),
    "DG207": (orders.two_epochs,),
    "DG208": (shards.by_worker, shards.by_rank),
    "DG501": (single_samples.non_finite,),
    "DG504": (single_samples.blank,),
    "DG505": (colours.restored,),
    "DG506": (colours.as_expected,),
    "DG507": (colours.statistics, colours.as_expected),
    "DG508": (single_samples.of_file,),
    "DG509": (single_samples.of_file,),
    "DG510": (single_samples.of_file,),
    "DG511": (alignment.blended,),
    "DG512": (alignment.misaligned_masks, alignment.misaligned_boxes),
    "DG514": (single_samples.leaked,),
    "DG531": (sounds.beside_original,),
    "DG532": (sounds.beside_original,),
    "DG533": (sounds.beside_original,),
    "DG601": (timelines.workers,),
    "DG602": (memory.allocated,),
    "DG603": (memory.copied,),
    "DG604": (memory.open_files,),
    "DG605": (timelines.workers,),
    "DG801": (timelines.training_loop, timelines.workers),
    "DG803": (timelines.sweep,),
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
