"""DG515: training and evaluation are given different things."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.splits.split_mismatch import mismatches, splits_of
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG515", "mismatched-splits", Severity.ERROR)
def dg515_mismatched_splits(lab: Lab) -> Judgement:
    """Loaders of splits of the same data disagree about what a sample is: its colours, its classes or its structure.

    Symptom: validation is at chance, or much worse than training, while nothing overfits; one class is always mistaken
        for another one.
    Cause: the transform of one split lacks `Normalize`, or has other statistics; one split is read by OpenCV and the
        other by Pillow; classes are numbered in each split on its own, where one of them lacks a folder.
    Fix: make one function build what all splits share, up to the augmentation; number classes once, from the training
        set or a fixed list, and hand that to every split.
    Links: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.ImageFolder.html
    """
    before, after = splits_of(lab)
    if not before:
        later = f"it is compared where {after[0].facts.name} is judged" if after else "no other loader is a split of it"
        raise NotApplicable(later)
    epoch = lab.epoch
    seen: set[str] = set()
    for other in before:
        for mismatch in mismatches(lab, other):
            if mismatch.kind not in seen:
                seen.add(mismatch.kind)
                yield Finding(f"{lab.facts.name} {mismatch.words}", mismatch.evidence, at=lab.dataset.place)
    return Looked({**epoch.exercised, "loaders": 1 + len(before)})
