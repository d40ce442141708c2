"""DG511: a label mask comes out with values that it never had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.geometry.alignment import Target
    from dataguard.lab.geometry.mask_charts import Charted
    from dataguard.lab.lab import Lab

LEAST, MOST = 0.004, 0.5
"""Shares of a mask between two labels: fewer are nothing; more, along one edge, are no edge but distances or heat."""
SCALES = (255.0, 65535.0)
SMALL = 0.1
"""The least label, as a share of the scale, up to which it is a number and no brightness."""


@check("DG511", "blended-mask", Severity.ERROR)
def dg511_blended_mask(lab: Lab) -> Judgement:
    """A label mask comes out with values that it never had.

    Symptom: a rim of wrong classes around every object, classes that the data do not have, a loss that raises on a
        fraction, or a mask that is 0 everywhere.
    Cause: the mask is resized or rotated like an image, which blends neighbouring class numbers; `ToTensor` divides
        class numbers by 255; or masks were saved as JPEG, which spreads values around every edge.
    Fix: resize masks by `InterpolationMode.NEAREST`, or wrap them in `tv_tensors.Mask`; make tensors of them by
        `torch.from_numpy` or `v2.PILToTensor`; save masks as PNG, or round those that are saved already.
    Links: https://docs.pytorch.org/vision/stable/generated/torchvision.tv_tensors.Mask.html
    """
    maps = lab.geometry.maps
    if len(maps.labels) < 2:
        raise NotApplicable("the map that comes along with a picture holds no labels, or one alone")
    wrong = {target: why for target in maps.targets for why in [_why(maps, target)] if why}
    sound = [target for target in maps.targets if target.inks and target not in wrong]
    if wrong and not sound:  # beside a mask that is sound, another one is softened on purpose
        target, why = next(iter(wrong.items()))
        yield _finding(lab, [f"{maps.root}{one.path}" for one in wrong], why, target)
    elif maps.emptied and not maps.targets:
        words = (
            f"holds one value in all samples, whatever the {len(maps.labels)} values of the mask that is read for it"
        )
        yield _finding(lab, [f"{maps.root}{path}" for path in maps.emptied], words)
    elif not sound:
        raise NotApplicable("no leaf follows the labels of the mask")
    return Looked(maps.exercised)


def _why(maps: Charted, target: Target) -> str | None:
    """What is wrong with the values of a mask."""
    inks = target.inks
    if inks is None:
        return None
    if maps.spoilt and inks.seen > len(maps.labels):
        spread = f"its file is lossy and spreads {len(maps.labels)} labels over {maps.spoilt} values"
        return f"holds {inks.seen} different values: {spread}"
    if inks.between and inks.share >= LEAST and inks.spread <= MOST:
        low, high = inks.came
        some = f"{inks.between[len(inks.between) // 2]:.4g}"
        return f"is blended: {inks.share:.1%} of its pixels lie between {low:.4g} and {high:.4g}, as {some} does"
    for scale in SCALES:
        least = min((value for label in maps.labels for value in label if value > 0), default=scale)
        ends = sorted(value / scale for value in target.ends)
        if least / scale < SMALL and all(abs(a - b) < 1e-6 for a, b in zip(ends, inks.came, strict=True)):
            return f"holds labels that were divided by {scale:g}: {inks.came[1]:.4g} for {target.ends[1]:g}"
    return None


def _finding(lab: Lab, leaves: list[str], words: str, target: Target | None = None) -> Finding:
    maps = lab.geometry.maps
    inks = target.inks if target else None
    return Finding(
        message=f"{leaves[0]} {words}",
        evidence=known(
            {
                "leaves": leaves,
                "drawn over": maps.source,
                "labels of the masks": [label[0] if len(label) == 1 else list(label) for label in maps.labels[:16]],
                "drawn in": inks and list(target.ends) if target else None,
                "came out as": inks and list(inks.came),
                "between them": inks and [float(f"{value:.4g}") for value in inks.between],
                "type": inks and inks.dtype,
            }
        ),
        at=lab.dataset.place,
        repro=None if maps.collated or maps.index is None else lab.repro.expression(f".dataset[{maps.index!r}]"),
    )
