"""DG511: a label mask holds values that are not in its source."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.rewrites import nearest, rewritten, unscaled
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.geometry.alignment import MaskLeaf, MaskValues
    from dataguard.lab.geometry.mask_charts import ChartedMasks
    from dataguard.lab.lab import Lab

LEAST_SHARE, MOST_AT_EDGES = 0.004, 0.5
"""Shares of a mask between two labels: below, noise; above, along one edge, a distance map or heat map."""
FULL_SCALES = (255.0, 65535.0)
"""The largest value of 8-bit and of 16-bit masks."""
DISTINCT_STEP = 20
"""How far apart labels are that lossy compression leaves distinct. Chosen, not derived."""
CLASS_SCALE = 0.1
"""The share of the scale below which the smallest label is a class index and not a brightness. Chosen, not derived."""


@check("DG511", "blended-mask", Severity.ERROR)
def dg511_blended_mask(lab: Lab) -> Judgement:
    """A label mask holds values that are not in its source.

    Symptom: a rim of wrong classes around every object, classes that the data do not have, a loss that raises on
        fractional labels, or a mask that is 0 everywhere.
    Cause: the mask is resized or rotated like an image, which interpolates between class indices; `ToTensor` divides
        class indices by 255; or masks were saved as JPEG, which changes values around every edge.
    Fix: resize masks with `InterpolationMode.NEAREST`, or wrap them in `tv_tensors.Mask`; convert them with
        `torch.from_numpy` or `v2.PILToTensor`; save masks as PNG, or round those already saved.
    Links: https://docs.pytorch.org/vision/stable/generated/torchvision.tv_tensors.Mask.html
    """
    charts = lab.geometry.masks
    if len(charts.labels) < 2:
        raise NotApplicable("the dense target next to the image is not a label mask, or has a single label")
    wrong = {mask: why for mask in charts.masks for why in [_why(charts, mask)] if why}
    sound = [mask for mask in charts.masks if mask.values and mask not in wrong]
    if wrong and not sound:  # next to a correct mask, another one is softened on purpose
        mask, why = next(iter(wrong.items()))
        yield _finding(lab, [f"{charts.root}{each.path}" for each in wrong], why, mask)
    elif charts.constant and not charts.masks:
        words = f"holds a single value in all samples, although the masks hold {len(charts.labels)} labels"
        yield _finding(lab, [f"{charts.root}{path}" for path in charts.constant], words)
    elif not sound:
        raise NotApplicable("nothing in the sample follows the labels of the mask")
    return Coverage(charts.exercised)


def _why(charts: ChartedMasks, mask: MaskLeaf) -> str | None:
    """What is wrong with the values of a mask."""
    values = mask.values
    if values is None:
        return None
    if _spread(charts, values):
        reason = f"lossy compression spreads {charts.lossy_labels} labels over {charts.lossy_values} values"
        return f"holds {values.most_values} different values: {reason}"
    if values.between and values.share >= LEAST_SHARE and values.edge_share <= MOST_AT_EDGES:
        low, high = values.labels
        some = f"{values.between[len(values.between) // 2]:.4g}"
        return (
            f"{_BLENDED} {values.share:.1%} of its pixels lie between labels {low:.4g} and {high:.4g}, such as {some}"
        )
    for scale in FULL_SCALES:
        least = min((value for label in charts.labels for value in label if value > 0), default=scale)
        scaled = sorted(value / scale for value in mask.chart_labels)
        if least / scale < CLASS_SCALE and all(abs(a - b) < 1e-6 for a, b in zip(scaled, values.labels, strict=True)):
            return f"holds labels divided by {scale:g}: {mask.chart_labels[1]:g} becomes {values.labels[1]:.4g}"
    return None


_BLENDED = "is blended:"
_NEAREST = "interpolate the mask by its nearest neighbour"
_WHOLE = "make a tensor of the mask without scaling its values"


def _spread(charts: ChartedMasks, values: MaskValues) -> bool:
    """Whether the files hold more values than labels, and so does a mask."""
    discrete = values.dtype.startswith(("int", "uint")) or _far_apart(charts)  # otherwise it may be a depth map
    return bool(charts.lossy_values) and values.most_values > charts.lossy_labels and discrete


def _far_apart(charts: ChartedMasks) -> bool:
    """Whether lossy compression leaves the labels distinct."""
    return all(next_label[0] - label[0] > DISTINCT_STEP for label, next_label in pairwise(charts.labels))


def _finding(lab: Lab, leaves: list[str], words: str, mask: MaskLeaf | None = None) -> Finding:
    charts = lab.geometry.masks
    values = mask.values if mask else None
    # No line spreads the labels of files with lossy compression.
    followed = values if values and not _spread(charts, values) else None
    at = observed_or_none(partial(lab.geometry.line_of_values, followed)) if followed else None
    blends = bool(followed and words.startswith(_BLENDED))
    rewrites, otherwise = ([nearest], _NEAREST) if blends else ([unscaled], _WHOLE)
    return Finding(
        message=f"{leaves[0]} {words}",
        evidence=without_empty(
            {
                "fix here": (rewritten(lab, at, *rewrites) or otherwise) if followed else None,
                "leaves": leaves,
                "charted via": charts.source,
                "labels of the masks": [label[0] if len(label) == 1 else list(label) for label in charts.labels[:16]],
                "values of the chart": values and list(mask.chart_labels) if mask else None,
                "observed values": values and list(values.labels),
                "values in between": values and [float(f"{value:.4g}") for value in values.between],
                "dtype": values and values.dtype,
            }
        ),
        at=at or lab.dataset.location,
        repro=None if charts.collated or charts.index is None else lab.repro.samples(charts.index),
        sample=charts.index,
    )
