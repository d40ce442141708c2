"""DG512: an image and its target are transformed differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.geometry.alignment import (
    aspect_findings,
    box_findings,
    camera_findings,
    clip_findings,
    dense_findings,
    pair_findings,
)
from dataguard.checks.geometry.row_orders import order_findings
from dataguard.checks.geometry.sound_pairs import sound_findings
from dataguard.core.model import Coverage, DataguardError, Judgement, NotApplicable, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


FINDERS = (
    dense_findings,
    box_findings,
    aspect_findings,
    camera_findings,
    pair_findings,
    clip_findings,
    sound_findings,
    order_findings,
)
MOST_NAMED = 6
"""Leaves that a pass names: a sample seldom has more targets."""


@check("DG512", "desynced-target", Severity.ERROR)
def dg512_desynced_target(lab: Lab) -> Judgement:
    """An image, sequence or set and its target, frames of a clip, or two sounds are transformed differently.

    Symptom: training converges to blurred masks and loose boxes, and more augmentation makes it worse; the same model
        learns well without augmentation.
    Cause: image and target are flipped, cropped or rotated with separate random draws; only the image is transformed;
        boxes are not scaled with the image, are scaled by its other side, lack its padding, or are in another format
        than the transform expects; boxes are selected, and their labels are not; a camera matrix keeps the principal
        point or focal lengths of the whole image; a noisy recording and its clean one are cut at other places; a
        sequence is reversed, or edges are shuffled, without their labels or attributes.
    Fix: draw the parameters once and apply them to both: `v2` transforms with `tv_tensors`, or albumentations with
        `mask=` and `bbox_params`, in one call; with functional transforms, call `get_params` once for both.
    Links: https://docs.pytorch.org/vision/stable/auto_examples/transforms/plot_transforms_e2e.html
    """
    total: dict[str, int] = {}
    compared: list[str] = []
    failed = False
    reasons: list[DataguardError] = []
    dense: Undecided | None = None
    for find in FINDERS:
        if failed and find is order_findings:  # boxes and their labels have been compared
            continue
        try:
            findings, exercised, leaves = find(lab)
        except (NotApplicable, Undecided) as reason:
            reasons.append(reason)
            dense = reason if find is dense_findings and isinstance(reason, Undecided) else dense
            continue
        yield from findings
        compared += leaves
        failed = failed or bool(findings)
        total |= {unit: total.get(unit, 0) + count for unit, count in exercised.items()}
    if not total:
        undecided = next((reason for reason in reasons if isinstance(reason, Undecided)), None)
        raise undecided or NotApplicable("; ".join(dict.fromkeys(map(str, reasons))))
    if dense is not None and not failed:  # boxes that follow say nothing of the mask beside them
        raise Undecided(f"{dense}; compared: {', '.join(compared[:MOST_NAMED])}" if compared else str(dense))
    names = list(dict.fromkeys(compared))
    return Coverage(total, None if failed or not names else f"compared: {', '.join(names[:MOST_NAMED])}")
