"""DG409: a row of a batch depends on its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.batches.collate_trials import Collation
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
        one = _name(collation, effect.sample)
        others = " or ".join(_name(collation, place) for place in effect.neighbours)
        if effect.cut:
            fault = f"{effect.cut[0]:,} of its {effect.cut[1]:,} values next to {others}"
            message = f"the row of {one} in batch{effect.leaf} has {fault}"
        elif effect.label:
            message = f"the row of {one} in batch{effect.leaf} holds {others} by {effect.share:.0%}, "
            message += f"and its row in batch{effect.label} does not say so"
        else:
            fault = f"differs next to {others}, by {effect.difference:.2g} times its range"
            message = f"the row of {one} in batch{effect.leaf} {fault}"
        indices = [collation.indices[place] for place in (effect.sample, *effect.neighbours)]
        yield Finding(
            message=message,
            evidence={"compared": f"the same sample, collated by {lab.facts.collate} with others"},
            repro=None if None in indices else lab.repro.samples(*indices, batch=True),
        )
    return Coverage({"samples": len(collation.indices), "reads": observed.reads})


def _name(collation: Collation, sample: int) -> str:
    index = collation.indices[sample]
    return f"sample {sample} of a stream" if index is None else f"dataset[{index!r}]"
