"""DG519: a horizontal flip does not swap left and right keypoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG519", "unswapped-keypoints", Severity.WARNING, since="2026.2")
def dg519_unswapped_keypoints(lab: Lab) -> Judgement:
    """A horizontal flip moves keypoints or classes, but those of the left and of the right are not swapped.

    Symptom: the model confuses left and right; its keypoints are drawn to the middle of the body or face.
    Cause: transforms such as `RandomHorizontalFlip` change coordinates and do not know what a point means: in the
        flipped image, the left eye of the list is a right eye, and the left lung of a mask is a right one.
    Fix: after a flip, reorder the keypoints, with their visibility, by the list of left and right pairs; exchange the
        class indices of left and right in masks.
    Links: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomHorizontalFlip.html
        https://albumentations.ai/docs/3-basic-usage/keypoint-augmentations/
    """
    flips = lab.geometry.keypoint_flips
    if not flips:
        raise NotApplicable("no keypoints or classes with named sides are flipped in any of several reads")
    for one in flips:
        name, pair = f"sample{one.leaf}", " and ".join(one.sides.pair or ())
        if one.kept and one.swapped:
            raise Undecided(f"left and right of {name} are swapped in some flips only")
        if one.kept:
            yield Finding(
                message=f"{name} is flipped horizontally, but {pair} are not swapped",
                evidence={
                    "sides": f"{one.sides.where}: {len(one.sides.partner)} names",
                    "compared": f"{counted(one.kept, 'pairs')} of reads that differ by a flip",
                },
                at=lab.dataset.location,
                repro=lab.repro.samples(one.index, one.index, one.index, one.index),
            )
    return Coverage({"leaves": len(flips), "flips": sum(one.kept + one.swapped for one in flips)})
