"""DG412: targets that do not follow how inputs are mixed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.batches.mixtures import Mixture
    from dataguard.lab.lab import Lab

TOLERANCE = 0.02
"""A weight may differ from the share by so much, and by what the edges of a box round off. Chosen: five steps of an
8-bit image, where mixing rounds; a wrong draw of the weight differs by more in most rows."""


@check("DG412", "wrong-mixture-weight", Severity.ERROR, since="2026.3")
def dg412_wrong_mixture_weight(lab: Lab) -> Judgement:
    """CutMix, MixUp or a relative gives targets another weight than the share of the sample in the mixed input.

    Symptom: accuracy with mixing is lower than without; the loss has a floor, because targets contradict the images.
    Cause: the weight of CutMix is not corrected for a box that is clipped at the border; the weights of both labels are
        exchanged; images and labels are mixed in two orders, or with two draws of the weight.
    Fix: compute the weight from the box that was really cut (`1 - area / (height * width)`), and use one permutation
        and one weight for both; `torchvision.transforms.v2.CutMix` and `MixUp` do so.
    Links: https://docs.pytorch.org/vision/stable/auto_examples/transforms/plot_cutmix_mixup.html
    """
    if not lab.facts.batched:
        raise NotApplicable("automatic batching is off (batch_size=None): nothing is mixed with its targets")
    collated, own = lab.batches.mixture, lab.transforms.sample_mixture
    if collated is None and own is None:
        raise NotApplicable("no inputs are mixed together with their targets")
    if collated is not None and collated.error > TOLERANCE + collated.pixel:
        share, weight = collated.worst
        yield Finding(
            message=f"{collated.targets} gives a sample the weight {weight:.2f} in a row that holds {share:.0%} of it",
            evidence=_evidence(collated, f"one input of ones and others of zeros, mixed by {lab.facts.collate}"),
            at=line_at(lab.batches.lines.of_both, *collated.leaves),
            repro=lab.repro.scan("DG412", ""),
        )
    if own is not None and own.mixture.error > TOLERANCE + own.mixture.pixel:
        share, weight = own.mixture.worst
        yield Finding(
            message=f"{own.mixture.targets} gives an image the weight {weight:.2f} in a sample that holds {share:.0%} "
            "of it",
            evidence=_evidence(own.mixture, "a white image that is mixed with black ones by the dataset"),
            at=line_at(lab.transforms.line_of_target, own),
            repro=lab.repro.scan("DG412", ""),
        )
    return Coverage({"rows": sum(len(mixture.rows) for mixture in (collated, own and own.mixture) if mixture)})


def _evidence(mixture: Mixture, confirmed: str) -> dict[str, object]:
    return {
        "fix here": f"weigh {mixture.targets} by the share that is mixed, in the order of the inputs",
        "rows": len(mixture.rows),
        "median difference in the worse half": round(mixture.error, 3),
        "confirmed by": confirmed,
    }
