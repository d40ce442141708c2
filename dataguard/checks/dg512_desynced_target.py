"""DG512: an image and its target move apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, Undecided, check

if TYPE_CHECKING:
    from dataguard.lab import Lab
    from dataguard.lab.geometry import Charted
    from dataguard.lab.study import Shift, Target

CLEAR = 3
"""How many times the tolerance one draw alone must show; two draws need no more than once."""


@check("DG512", "desynced-target", Severity.ERROR)
def dg512_desynced_target(lab: Lab) -> Judgement:
    """An image and its mask or boxes move apart on the way to the model.

    Symptom: training converges to blurred masks and loose boxes, and more augmentation makes it worse; the same model
        learns well without augmentation.
    Cause: image and target are flipped, cropped or rotated by random numbers of their own; only the image is
        transformed; boxes are not scaled with the image, or given in another form than the transform expects.
    Fix: draw once and apply to both: `v2` transforms with `tv_tensors`, or albumentations with `mask=` and
        `bbox_params`, in one call; with functional transforms, `get_params` once for both.
    Links: https://docs.pytorch.org/vision/stable/auto_examples/transforms/plot_transforms_e2e.html
    """
    maps = lab.geometry.maps
    compared = [target for target in maps.targets if target.shifts and not target.kept]
    wrong = {target: shift for target in compared for shift in [_worst(target)] if shift}
    for target, shift in wrong.items():
        yield _finding(lab, maps, target, shift)
    if not compared:
        kept = [target.path for target in maps.targets if target.kept]
        reason = (
            f"{maps.root}{kept[0]} is kept as it was read" if kept else "no draw shows picture and map side by side"
        )
        raise NotApplicable(reason) if kept else Undecided(reason)
    return Looked(maps.exercised)


def _worst(target: Target) -> Shift | None:
    """The draw in which picture and map lie farthest apart, where that is farther than rounding explains."""
    beyond = [shift for shift in target.shifts if shift.distance > shift.tolerance]
    clear = len(beyond) > 1 or any(shift.distance > CLEAR * shift.tolerance for shift in beyond)
    return max(beyond, key=lambda shift: shift.distance) if clear else None


def _finding(lab: Lab, maps: Charted, target: Target, shift: Shift) -> Finding:
    image, other = f"{maps.root}{target.picture}", f"{maps.root}{target.path}"
    where = "" if shift.index is None else f" for dataset[{shift.index}]"
    return Finding(
        message=f"{image} comes out {shift.picture}{where}, and {other} {shift.target}",
        evidence={
            "apart, as a share of the picture": round(shift.distance, 3),
            "tolerance": round(shift.tolerance, 3),
            "draw": shift.draw,
            "apart in": f"{sum(one.distance > one.tolerance for one in target.shifts)} of {len(target.shifts)} draws",
            "drawn over": maps.source,
        },
        at=lab.dataset.place,
        repro=None if maps.collated or shift.index is None else lab.repro(f".dataset[{shift.index!r}]"),
    )
