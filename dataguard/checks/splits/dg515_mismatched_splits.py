"""DG515: splits whose samples differ in form or meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.image_findings import last_reordering, last_shift
from dataguard.checks.common.lines import line_at
from dataguard.checks.splits.split_mismatch import Mismatch, mismatches, splits_of
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, Location, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG515", "mismatched-splits", Severity.ERROR)
def dg515_mismatched_splits(lab: Lab) -> Judgement:
    """Splits of the same data disagree in the colours, sound, class indices, structure or value range of a sample.

    Symptom: validation is at chance, or much worse than training without overfitting; one class is always mistaken for
        another.
    Cause: the transform of one split lacks `Normalize`, or has other statistics; one split is read by OpenCV and the
        other by Pillow; sound is resampled in one split only, or has another mel spectrogram there; each split assigns
        its own class indices, or numbers of speakers or words; labels start at 1 in one split only. A target in
        other units, images with exchanged sides, a split that is standardized by its own statistics, or that has
        classes of which training has no sample, as folds of sorted samples do, may be meant: a warning.
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
                at = _place(other if mismatch.other else lab, mismatch) or lab.dataset.location
                message = f"{lab.facts.name} {mismatch.fault}"
                yield Finding(message, mismatch.evidence, at=at, ambiguous=mismatch.ambiguous)
    return Coverage({**epoch.exercised, "loaders": 1 + len(before)})


def _place(lab: Lab, mismatch: Mismatch) -> Location | None:
    """The line that makes the leaf that differs; where the dataset is made if it numbers classes."""
    if mismatch.kind == "colours":
        steps = observed_or_none(lambda: lab.images.steps)
        step = (last_reordering if "channel order" in mismatch.evidence else last_shift)(steps) if steps else None
        pipeline = lab.places.part(step.name.rpartition(".transforms[")[0]) if step and not step.exact else None
        return pipeline or (step.location if step else None)
    if mismatch.path is None:
        return (lab.places.split if mismatch.kind == "split" else None) or lab.places.dataset
    return line_at(lab.batches.lines.of_row, mismatch.path, [sample.index for sample in lab.epoch.samples[:2]])
