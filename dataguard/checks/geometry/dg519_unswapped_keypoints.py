"""DG519: a horizontal flip does not swap left and right keypoints."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.geometry.merged_sides import MergedSides
    from dataguard.lab.lab import Lab


@check("DG519", "unswapped-keypoints", Severity.WARNING, since="2026.2")
def dg519_unswapped_keypoints(lab: Lab) -> Judgement:
    """A horizontal flip moves keypoints or classes, but left and right ones are not swapped, or become the same.

    Symptom: the model confuses left and right; its keypoints are drawn to the middle of the body or face.
    Cause: transforms such as `RandomHorizontalFlip` change coordinates and do not know what a point means: in the
        flipped image, the left eye of the list is a right eye, and the left lung of a mask is a right one. Or both are
        assigned one after the other, and the second gets what the first has just got.
    Fix: after a flip, reorder the keypoints, with their visibility, by the list of left and right pairs; exchange the
        class indices of left and right in masks. Do so in one step: `points[[a, b]] = points[[b, a]]`, `table[mask]`.
    Links: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomHorizontalFlip.html
        https://albumentations.ai/docs/3-basic-usage/keypoint-augmentations/
    """
    lab.need_map("a stream has no indices to read again")
    merged = lab.geometry.merged_sides
    yield from (_of_merged(lab, one) for one in merged)
    if merged:
        return Coverage({"leaves": len(merged), "flips": sum(one.flips for one in merged)})
    flips = lab.geometry.keypoint_flips
    if not flips:
        raise NotApplicable("no keypoints or classes with named sides are flipped in any of several reads")
    for flipped in flips:
        name, pair = f"sample{flipped.leaf}", " and ".join(flipped.sides.pair or ())
        if flipped.kept and flipped.swapped:
            raise Undecided(f"left and right of {name} are swapped in some flips only")
        if flipped.kept:
            yield Finding(
                message=f"{name} is flipped horizontally, but {pair} are not swapped",
                evidence={
                    "fix here": f"exchange {pair} in the same step",
                    "sides": f"{flipped.sides.where}: {len(flipped.sides.partner)} in all",
                    "compared": f"{counted(flipped.kept, 'pairs')} of reads that differ by a flip",
                },
                at=observed_or_none(partial(lab.geometry.line_of_flip, flipped)) or lab.dataset.location,
                repro=lab.repro.samples(flipped.index, flipped.index, flipped.index, flipped.index),
                sample=flipped.index,
            )
    return Coverage({"leaves": len(flips), "flips": sum(flipped.kept + flipped.swapped for flipped in flips)})


def _of_merged(lab: Lab, merged: MergedSides) -> Finding:
    what = "class" if merged.classes else "keypoint"
    first, second = merged.pairs[0]
    return Finding(
        message=f"a horizontal flip makes {what} {first} and {what} {second} of sample{merged.path} the same: "
        "one overwrites the other",
        evidence={
            "fix here": "exchange both sides in one step",
            "the same after a flip": [f"{one} and {other}" for one, other in merged.pairs],
            "compared": f"{counted(merged.flips, 'pairs')} of reads that differ by a flip",
        },
        at=observed_or_none(partial(lab.geometry.line_of_merge, merged)) or lab.dataset.location,
        repro=lab.repro.samples(*[merged.index] * 4),
        sample=merged.index,
    )
