"""DG515: splits whose samples differ in form or meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.splits.split_mismatch import mismatches, splits_of
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG515", "mismatched-splits", Severity.ERROR)
def dg515_mismatched_splits(lab: Lab) -> Judgement:
    """Splits of the same data disagree in the colours, sound, class indices, structure or value range of a sample.

    Symptom: validation is at chance, or much worse than training without overfitting; one class is always mistaken for
        another.
    Cause: the transform of one split lacks `Normalize`, or has other statistics; one split is read by OpenCV and the
        other by Pillow; sound is resampled in one split only, or has another mel spectrogram there; each split assigns
        its own class indices, and one of them lacks a class folder; labels start at 1 in one split only. A target in
        other units, or images with exchanged sides, may be meant: a warning.
    Fix: build what all splits share, all but the augmentation, in one function; assign class indices once, from the
        training set or a fixed list, and pass them to every split.
    Links: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.ImageFolder.html
    """
    before, after = splits_of(lab)
    if not before:
        later = f"{after[0].facts.name} is compared with it" if after else "no other loader is a split of the same data"
        raise NotApplicable(later)
    epoch = lab.epoch
    seen: set[str] = set()
    for other in before:
        for mismatch in mismatches(lab, other):
            if mismatch.kind not in seen:
                seen.add(mismatch.kind)
                yield Finding(
                    f"{lab.facts.name} {mismatch.fault}",
                    mismatch.evidence,
                    at=lab.dataset.location,
                    ambiguous=mismatch.ambiguous,
                )
    return Coverage({**epoch.exercised, "loaders": 1 + len(before)})
