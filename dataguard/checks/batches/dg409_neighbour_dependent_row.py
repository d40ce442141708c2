"""DG409: a row of a batch depends on its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.batches.pairing import name_of
from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.batches.neighbours import NeighbourEffect
    from dataguard.lab.core.records import Index
    from dataguard.lab.culprit.line_trace import Traced
    from dataguard.lab.lab import Lab


@check("DG409", "neighbour-dependent-row", Severity.WARNING, since="2026.2")
def dg409_neighbour_dependent_row(lab: Lab) -> Judgement:
    """The row of a sample holds other data when other samples are in its batch, and not only more padding.

    Symptom: predictions for a sample change with batch size and order; long samples lose their ends now and then;
        results of batch size 1 differ from those of training.
    Cause: collate_fn truncates all samples to the length of the first or the shortest one, or normalizes them by the
        mean, standard deviation or maximum of the batch, along any axis; or it blends inputs and leaves the labels.
    Fix: pad to the longest sample, truncate to a fixed length, and normalize each sample by itself or by statistics of
        the training set; blend labels as inputs are blended.
    Links: https://docs.pytorch.org/docs/stable/data.html#working-with-collate-fn
    """
    if lab.facts.default_collate:
        raise NotApplicable("default_collate stacks samples and changes none")
    observed = lab.batches.observed
    collation = observed.collation
    if len(collation.indices) < 2:
        raise NotApplicable("each batch holds a single sample")
    for effect in observed.neighbours:
        name = name_of(collation, effect.sample)
        others = " or ".join(name_of(collation, neighbour) for neighbour in effect.neighbours)
        if effect.cut:
            fault = f"{effect.cut[0]:,} of its {effect.cut[1]:,} values next to {others}"
            message = f"the row of {name} in batch{effect.leaf} has {fault}"
        elif effect.label:
            message = f"the row of {name} in batch{effect.leaf} holds {others} by {effect.share:.0%}, "
            message += f"and its row in batch{effect.label} does not say so"
        else:
            fault = f"differs next to {others}, by {effect.difference:.2g} times its range"
            message = f"the row of {name} in batch{effect.leaf} {fault}"
        indices = [collation.indices[sample] for sample in (effect.sample, *effect.neighbours)]
        yield Finding(
            message=message,
            evidence={
                "fix here": _fix(effect),
                "compared": f"the same sample, collated by {lab.facts.collate} with others",
            },
            at=line_at(partial(_line, lab, effect, indices, collation.indices)),
            repro=None if None in indices else lab.repro.samples(*indices, batch=True),
        )
    return Coverage({"samples": len(collation.indices), "reads": observed.reads})


def _fix(effect: NeighbourEffect) -> str:
    if effect.cut:
        return "as wide as the longest sample, or a fixed width"
    if effect.label:
        return f"blend batch{effect.label} as batch{effect.leaf} is blended"
    return "statistics of each sample, or of the training set"


def _line(lab: Lab, effect: NeighbourEffect, indices: Sequence[Index], every: Sequence[Index]) -> Traced | None:
    if effect.cut and None not in indices:
        return lab.batches.lines.of_width(effect.leaf, indices[0], indices[1], effect.cut[0])
    return lab.batches.lines.of_rows(effect.leaf, every)
